"""Jobs of several nodes, each with a network of its own: what follows when a part of one is killed.

    nodes_test.py --ddprun PROGRAM --round-worker PROGRAM [unittest arguments]

The program may be a Python script.

That no two rounds ever run at once (R2) is judged by what the workers wrote.
"""

import argparse
import os
import signal
import sys
import unittest

import netns
from drill import PATIENCE_S, Drill

options = argparse.Namespace()


def setUpModule():
    netns.skip_without_namespaces()


def agent_of(guard):
    return netns.children_of(guard.pid)[0]


class Nodes(unittest.TestCase):
    def start(self, nodes, *flags, least=None, workers=1):
        """A job of `nodes` that may shrink to `least`, running."""
        self.network = self.enterContext(netns.Network(nodes))
        self.drill = self.enterContext(Drill(self.network, options.ddprun, options.round_worker))
        self.flags = ("--nnodes", f"{least or nodes}:{nodes}", "--rdzv-backend", "c10d",
                      "--rdzv-endpoint", f"{self.network[0].address}:29400", "--rdzv-id", "job",
                      "--nproc-per-node", str(workers), *flags)
        for node in range(nodes):
            self.drill.start(node, *self.flags)
        return self.drill.await_round(workers=nodes * workers)

    def finish(self):
        self.drill.finish()
        self.drill.judge(self)

    def test_a_worker_that_fails_restarts_all_and_each_node_says_who_it_was(self):
        first = self.start(3, "--max-restarts", "1", workers=2)
        pid, node = first.pid_of(rank=3), first.node_of(rank=3)
        os.kill(pid, signal.SIGKILL)
        second = self.drill.await_round(workers=6)
        self.assertEqual((1, 2), second.key)
        self.finish()
        for other in range(3):
            said = self.drill.said(other)
            self.assertEqual(1, said.count(f"failed on n{node}: rank 3 (local rank 1, pid {pid}) "
                                           "was ended by signal 9 (SIGKILL)"), said)
            self.assertEqual(1, said.count("next: restarting all 6 workers (restart 1 of 1)"),
                             said)

    def test_the_first_failed_workers_status_is_every_nodes(self):
        first = self.start(2)
        os.kill(first.pid_of(rank=1), signal.SIGSEGV)
        self.drill.finish(expected=128 + signal.SIGSEGV)
        self.drill.judge(self)

    def test_the_others_continue_when_an_agent_is_killed(self):
        self.start(3, least=2)
        os.kill(agent_of(self.drill.jobs[2]), signal.SIGKILL)
        second = self.drill.await_round(workers=2)
        self.assertEqual((1, 2), second.key)
        self.assertEqual(128 + signal.SIGKILL, self.drill.jobs.pop(2).wait())
        self.finish()

    def test_the_others_continue_under_another_leader_when_the_leaders_agent_is_killed(self):
        self.start(3, least=2)
        os.kill(agent_of(self.drill.jobs[0]), signal.SIGKILL)
        second = self.drill.await_round(workers=2)
        self.assertEqual((2, 2), second.key)
        self.assertEqual(128 + signal.SIGKILL, self.drill.jobs.pop(0).wait())
        self.finish()

    def test_the_leader_that_was_killed_comes_back_to_its_endpoint_and_joins_the_others(self):
        """The new leader called there to report that it leads, and was disconnected because it sent no hello."""
        self.start(3, least=2)
        os.kill(agent_of(self.drill.jobs[0]), signal.SIGKILL)
        self.drill.await_round(workers=2)
        self.drill.jobs.pop(0).wait()
        self.drill.start(0, *self.flags)
        third = self.drill.await_round(workers=3)
        self.assertEqual((2, 3), third.key)
        self.assertEqual(0, third.node_of(rank=2))
        self.finish()

    def test_and_so_they_do_when_its_guard_is_killed(self):
        self.start(3, least=2)
        self.drill.jobs[0].kill()
        self.assertEqual((2, 2), self.drill.await_round(workers=2).key)
        self.drill.jobs.pop(0).wait()
        self.finish()

    def test_a_node_that_is_told_to_stop_leaves_and_the_others_continue(self):
        self.start(3, least=2)
        self.drill.jobs[1].send_signal(signal.SIGTERM)
        self.drill.await_round(workers=2)
        self.assertEqual(128 + signal.SIGTERM, self.drill.jobs.pop(1).wait())
        self.finish()

    def test_two_nodes_that_both_say_to_be_node_rank_0_end(self):
        network = self.enterContext(netns.Network(2))
        drill = self.enterContext(Drill(network, options.ddprun, options.round_worker))
        for node in range(2):
            drill.start(node, "--nnodes", "2", "--node-rank", "0", "--master-addr",
                        network[0].address, "--master-port", "29400")
        for node in range(2):  # long before the join timeout of 600 s
            self.assertEqual(2, drill.jobs.pop(node).wait(PATIENCE_S), drill.account())
            self.assertRegex(drill.said(node), r"--node-rank 0 (is taken by|was given to) n0\b.*; "
                                               "give each node a rank of its own")

    def test_too_few_that_remain_end_the_job(self):
        self.start(2)
        self.drill.jobs[1].send_signal(signal.SIGTERM)
        # Its workers do not handle the notice, and have not been told to end.
        for node in (0, 1):
            self.assertEqual(128 + signal.SIGTERM, self.drill.jobs.pop(node).wait())
        self.drill.judge(self)

    def test_a_node_whose_agent_is_stopped_is_ended_and_the_others_continue(self):
        self.start(3, "--lease", "1", least=2)
        os.kill(agent_of(self.drill.jobs[1]), signal.SIGSTOP)
        self.drill.await_round(workers=2)
        self.assertEqual(75, self.drill.jobs.pop(1).wait())
        self.assertIn("this node's lease ran out", self.drill.said(1))
        self.finish()

    def test_a_node_that_was_frozen_runs_nothing_of_a_past_round_when_it_thaws(self):
        """Its guard was frozen with it, and its workers ran on before the guard killed them. It takes part again."""
        first = self.start(3, "--lease", "1", least=2)
        self.network[1].freeze()
        self.drill.await_round(workers=2)
        frozen = self.network[1].pids()
        self.assertNotIn(first.pid_of(rank=1), frozen)
        for pid in sorted(frozen, reverse=True):  # the guard last
            os.kill(pid, signal.SIGCONT)
        self.drill.await_round(workers=3)
        self.assertIn("ddprun: n1 was suspended and lost its lease", self.drill.said(1))
        self.finish()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddprun", required=True)
    parser.add_argument("--round-worker", required=True)
    _, rest = parser.parse_known_args(namespace=options)
    unittest.main(argv=[sys.argv[0], *rest])
