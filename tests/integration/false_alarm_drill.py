"""A slow node does not count as lost: 32 agents with the default lease on one machine whose processors are all
kept busy.

    false_alarm_drill.py --ddprun PROGRAM --ddpctl PROGRAM [--minutes M] [unittest arguments]

Prints the longest silence of a node that the leader knew of when it was asked.
"""

import argparse
import glob
import json
import os
import stat
import sys
import tempfile
import time
import unittest

import netns
from drill import Drill

AGENTS = 32
ASK_EVERY_S = 2

# Of the form that Drill needs: LOG STOP NOTES. Stop is a FIFO that nobody writes to.
WORKER = """#!/bin/sh
echo "0 $DDPRUN_TERM $DDPRUN_ROUND n0 $RANK $$" >>"$3"
read -r nothing <"$2"
exit 0
"""

options = argparse.Namespace()


def setUpModule():
    netns.skip_without_namespaces()


class OneMachine:
    """All nodes of a Drill in one network."""

    def __init__(self, node):
        self._node = node

    def __getitem__(self, _):
        return self._node


class FalseAlarm(unittest.TestCase):
    def setUp(self):
        network = self.enterContext(netns.Network(1))
        self.machine = network[0]
        self.room = self.enterContext(
            tempfile.TemporaryDirectory(prefix="ddprun_test_"))

    def busy_processors(self):
        for _ in os.sched_getaffinity(0):
            loop = self.machine.popen(["/bin/sh", "-c", "while :; do :; done"])
            self.addCleanup(loop.wait)
            self.addCleanup(loop.kill)

    def states(self):
        """[(state, seconds since its last sign of life)] of all nodes, by the leader."""
        said = self.machine.run(options.ddpctl, "status", "127.0.0.1:29400", "--json",
                                "--timeout", "30")
        return [(node["state"], node["heartbeat_age_s"] or 0) for node in json.loads(said)["nodes"]]

    def test_nobody_is_taken_for_lost_while_all_processors_are_busy(self):
        worker = os.path.join(self.room, "worker")
        with open(worker, "w") as script:
            script.write(WORKER)
        os.chmod(worker, stat.S_IRWXU)
        drill = self.enterContext(Drill(OneMachine(self.machine), options.ddprun, worker))
        os.mkfifo(os.path.join(drill.room, "stop"))
        self.busy_processors()
        for node in range(AGENTS):
            drill.start(node, "--nnodes", str(AGENTS), "--rdzv-backend", "c10d",
                        "--rdzv-endpoint", "127.0.0.1:29400", "--no-python",
                        "--rdzv-conf", f"is_host={'false' if node else 'true'}")
        drill.await_round(workers=AGENTS)
        drill.await_said(0, "round 1 of term 1 starts")
        longest, end = 0, time.monotonic() + options.minutes * 60
        while (now := time.monotonic()) < end:
            states = self.states()
            self.assertEqual({"running"}, {state for state, _ in states}, drill.account())
            self.assertEqual(AGENTS, len(states))
            longest = max(longest, *(age for _, age in states))
            # Ends early if a node prints something, which none should.
            self.assertFalse(drill.listen(min(end, now + ASK_EVERY_S)), drill.account())
        print(f"longest silence of a node: {longest:.1f} s", flush=True)
        drill.finish()
        for path in glob.glob(os.path.join(drill.room, "n*", "*", "events.jsonl")):
            with open(path) as events:
                self.assertEqual(1, events.read().count("attempt_started"), path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("ddprun", "ddpctl"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--minutes", type=float, default=1 / 4)
    _, rest = parser.parse_known_args(namespace=options)
    unittest.main(argv=[sys.argv[0], *rest])
