"""Guard, agent and workers of the leader's node are killed at the same instant while its kernel lives on: how
long until the workers of the other nodes have begun a new round.

    one_blow_drill.py --ddprun PROGRAM --round-worker PROGRAM [--repeats N] [unittest arguments]

No process sends a goodbye then: the end of the lifelines is the only proof. Two blows, of 1:2 and of 1:3 nodes:

    all at once   every process is stopped and then killed, so that none sees the end of another
    as PID 1      ddprun is PID 1 of a container; its end is that of all others (docker kill, the OOM killer)

Prints a line of figures for each, and asserts only that the job continues and that no two rounds overlap. The
figures show that it takes milliseconds and not a lease.
"""

import argparse
import os
import signal
import sys
import time
import unittest

import netns
from drill import PATIENCE_S, Drill
from failover_drill import Figures, now_ns

# Long enough for the messages after the start of a round, so that a running job is hit.
SETTLED_S = 0.3
CONTAINER = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")

options = argparse.Namespace()


def setUpModule():
    netns.skip_without_namespaces()


class OneBlow(unittest.TestCase):
    def setUp(self):
        self.figures = Figures()
        self.addCleanup(self.figures.show)

    def drilled(self, what, nodes, blow, within=()):
        for number in range(options.repeats):
            with self.subTest(number=number), netns.Network(nodes) as network, \
                    Drill(network, options.ddprun, options.round_worker) as drill:
                for node in range(nodes):
                    drill.start(node, "--nnodes", f"1:{nodes}", "--rdzv-backend", "c10d",
                                "--rdzv-endpoint", f"{network[0].address}:29400", "--rdzv-id", "job",
                                "--no-python", within=within)
                self.assertEqual(0, drill.await_round(workers=nodes).node_of(rank=0))
                settled = time.monotonic() + SETTLED_S
                while time.monotonic() < settled:
                    drill.listen(settled)
                dead = drill.jobs.pop(0)
                at = blow(network[0], dead)
                second = drill.await_fresh_round(nodes - 1, at, time.monotonic() + 10)
                dead.wait(PATIENCE_S)
                self.assertIsNotNone(second, f"no further round:\n{drill.account()}")
                drill.finish()
                drill.judge(self)
                self.figures.add(f"{what}, 1:{nodes}: all of the new round run", second.last_ns - at)

    @staticmethod
    def strike_all(node, _):
        node.freeze()
        at = now_ns()
        node.kill()
        return at

    @staticmethod
    def strike_pid_1(_, container):
        (first,) = netns.children_of(container.pid)
        at = now_ns()
        os.kill(first, signal.SIGKILL)
        return at

    def test_all_at_once_of_two(self):
        self.drilled("all at once", 2, self.strike_all)

    def test_all_at_once_of_three(self):
        self.drilled("all at once", 3, self.strike_all)

    def test_as_pid_1_of_two(self):
        self.drilled("as PID 1", 2, self.strike_pid_1, within=CONTAINER)

    def test_as_pid_1_of_three(self):
        self.drilled("as PID 1", 3, self.strike_pid_1, within=CONTAINER)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("ddprun", "round-worker"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--repeats", type=int, default=5)
    _, rest = parser.parse_known_args(namespace=options)
    unittest.main(argv=[sys.argv[0], *rest])
