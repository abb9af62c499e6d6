"""Checks that a drill detects violations, with jobs of one node each.

    drill_test.py --ddprun PROGRAM --round-worker PROGRAM [unittest arguments]
"""

import argparse
import os
import signal
import sys
import unittest

import netns
import rounds
from drill import Drill

options = argparse.Namespace()


def setUpModule():
    netns.skip_without_namespaces()


class DrillOfOneNode(unittest.TestCase):
    def drill(self, nodes):
        network = self.enterContext(netns.Network(nodes))
        return self.enterContext(Drill(network, options.ddprun, options.round_worker))

    def test_sees_a_restart_and_no_overlap(self):
        drill = self.drill(1)
        drill.start(0, "--nproc-per-node", "2", "--max-restarts", "1")
        first = drill.await_round(workers=2)
        self.assertEqual((1, 1), first.key)
        os.kill(first.pid_of(rank=1), signal.SIGKILL)
        second = drill.await_round(workers=2)
        self.assertEqual((1, 2), second.key)
        drill.finish()
        drill.judge(self)
        self.assertLess(drill.stopped_ns(first.key), second.first_ns)
        self.assertEqual({"n0"}, {moment.node for moment in drill.moments()})

    def test_sees_two_rounds_at_once_where_there_are_two_jobs(self):
        """Two jobs that look like one job with a split brain."""
        drill = self.drill(2)
        drill.start(0)
        drill.start(1, "--max-restarts", "1")
        pids = {moment.node: moment.pid for moment in drill.await_begun(workers=2)}
        drill.await_round(workers=2)  # both call it the first
        os.kill(pids["n1"], signal.SIGKILL)
        self.assertEqual((1, 2), drill.await_round(workers=1).key)
        drill.finish()
        found = "\n".join(rounds.violations(drill.moments()))
        self.assertIn(f"R2: rank 0 on n0 (pid {pids['n0']}) in round 1", found)
        self.assertIn("R1: rank 0 on n", found)

    def test_sees_the_end_of_a_job_that_fails(self):
        drill = self.drill(1)
        drill.start(0)
        os.kill(drill.await_round(workers=1).pid_of(rank=0), signal.SIGKILL)
        with self.assertRaisesRegex(AssertionError, "(?s)137.*SIGKILL"):
            drill.finish()

    def test_leaves_nothing_of_a_job_that_runs(self):
        network = self.enterContext(netns.Network(1))
        with Drill(network, options.ddprun, options.round_worker) as drill:
            drill.start(0)
            drill.await_round(workers=1)
        self.assertEqual([], network[0].pids())
        self.assertFalse(os.path.exists(drill.room))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddprun", required=True)
    parser.add_argument("--round-worker", required=True)
    options, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
