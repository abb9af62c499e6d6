"""Whichever rank is killed, that rank is named as the cause, and none of those that ended because of it.

    culprit_drill.py --ddprun PROGRAM [--worker PROGRAM] [--kills N] [unittest arguments]

A random rank is killed by SIGKILL, over and over, in one job with as many restarts; the others lose their
peer and end by themselves at once, often before the killed one is reaped. Each node must name the killed
rank and how it ended, and must not call a worker "stopped by ddprun" if ddprun did not send the signal that ended it.
At worlds of 2, 3 and 5, on one node and on two. PROGRAM is called with the arguments LOG STOP NOTES: it writes to NOTES,
in the way of tests/support/round_worker, once it depends on its peers, and ends with 0 once STOP exists, or by
itself in the last attempt.
"""

import argparse
import contextlib
import os
import pathlib
import random
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import rounds

SCRIPTS = pathlib.Path(__file__).resolve().parent / "scripts"
PATIENCE_S = 120
NAMED = re.compile(r"failed on \S+: rank (\d+) \(local rank \d+, pid (\d+)\) (.+?)[,;] ")
STOPPED = re.compile(r"exitcode  : (-?\d+) \(pid: \d+\) \(stopped by ddprun\)")
BY_SIGKILL = "was ended by signal 9 (SIGKILL)"

options = argparse.Namespace()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class Job:
    """One ddprun for each element of `workers`, which is the number of its workers."""

    def __init__(self, room, workers):
        self._world = sum(workers)
        self._notes = os.path.join(room, "notes")
        self._stop = os.path.join(room, "stop")
        os.mkfifo(self._notes)
        # Open for both, so that it has no end when no worker runs.
        self._reader = os.open(self._notes, os.O_RDWR | os.O_NONBLOCK)
        self._unread = ""
        self._begun = {}  # key of a round → {rank: pid}
        self._awaited = (0, 0)
        self._said = [os.path.join(room, f"said{node}") for node in range(len(workers))]
        endpoint = () if len(workers) == 1 else ("--master-addr=127.0.0.1", f"--master-port={free_port()}")
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith(("PET_", "DDPRUN_SECRET"))}
        self._nodes = []
        for node, count in enumerate(workers):
            with open(self._said[node], "wb") as said:
                self._nodes.append(subprocess.Popen(
                    [options.ddprun, f"--nnodes={len(workers)}", f"--node-rank={node}", *endpoint,
                     f"--nproc-per-node={count}", f"--max-restarts={options.kills}",
                     f"--log-dir={room}/log{node}", options.worker,
                     os.path.join(room, "log"), self._stop, self._notes],
                    stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=kept))

    def close(self):
        for node in self._nodes:
            node.terminate()
        for node in self._nodes:
            node.wait(PATIENCE_S)
        os.close(self._reader)

    def await_round(self):
        """{rank: pid} of the next round that all workers have begun."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            for key in sorted(self._begun):
                if key > self._awaited and len(self._begun[key]) == self._world:
                    self._awaited = key
                    return self._begun[key]
            ready, _, _ = select.select([self._reader], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError("\n".join(["no further round has begun", *self.said()]))
            whole, end, self._unread = (
                self._unread + os.read(self._reader, 1 << 16).decode()).rpartition("\n")
            for moment in rounds.parse(whole + end):
                self._begun.setdefault(moment.key, {})[moment.rank] = moment.pid

    def finish(self):
        """What each node printed, after all have ended with 0."""
        open(self._stop, "w").close()
        statuses = [node.wait(PATIENCE_S) for node in self._nodes]
        if any(statuses):
            raise AssertionError("\n".join([f"ended with {statuses}", *self.said()]))
        return self.said()

    def said(self):
        return [pathlib.Path(path).read_text() for path in self._said]


class Culprit(unittest.TestCase):
    def kill_in_turn(self, *workers):
        """A job of as many nodes, with so many workers each."""
        chance = random.Random(sum(workers))
        killed = []
        with tempfile.TemporaryDirectory(prefix="ddprun_culprit_") as room, \
                contextlib.closing(Job(room, workers)) as job:
            for _ in range(options.kills):
                pids = job.await_round()
                rank = chance.choice(sorted(pids))
                killed.append((str(rank), str(pids[rank]), BY_SIGKILL))
                os.kill(pids[rank], signal.SIGKILL)
            job.await_round()
            said = job.finish()
        for node, text in enumerate(said):
            named = NAMED.findall(text)
            right = sum(is_named == was for is_named, was in zip(named, killed))
            print(f"worlds of {'+'.join(map(str, workers))}: node {node} names {right} of "
                  f"{len(killed)} right", flush=True)
            with self.subTest(node=node):
                self.assertEqual(killed, named)
                # A killed worker is the cause; a stopped one has died of the signal that ddprun sent.
                self.assertLessEqual(
                    {code for code in STOPPED.findall(text) if code.startswith("-")},
                    {"-15"})

    def test_two_on_one_node(self):
        self.kill_in_turn(2)

    def test_three_on_one_node(self):
        self.kill_in_turn(3)

    def test_five_on_one_node(self):
        self.kill_in_turn(5)

    def test_one_on_each_of_two_nodes(self):
        self.kill_in_turn(1, 1)

    def test_three_on_two_nodes(self):
        self.kill_in_turn(2, 1)

    def test_five_on_two_nodes(self):
        self.kill_in_turn(2, 3)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddprun", required=True)
    parser.add_argument("--worker", default=str(SCRIPTS / "loses_peers.py"))
    parser.add_argument("--kills", type=int, default=10, help="in each job")
    _, rest = parser.parse_known_args(namespace=options)
    unittest.main(argv=[sys.argv[0], *rest])
