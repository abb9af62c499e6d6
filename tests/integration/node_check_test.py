"""--node-check: a node that fails it, or on which failures begin again and again, runs no workers while
others suffice.

    node_check_test.py --ddprun PROGRAM --ddpctl PROGRAM --round-worker PROGRAM [unittest arguments]
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import unittest

import netns
from drill import PATIENCE_S, Drill

FIT, UNFIT = ("--node-check", "true"), ("--node-check", "sh -c 'echo GPU 3 has fallen off the bus; exit 1'")
LATER = None
WHY = "its check exited with status 1: GPU 3 has fallen off the bus"

options = argparse.Namespace()


def setUpModule():
    netns.skip_without_namespaces()


class NodeCheck(unittest.TestCase):
    def start(self, nodes, *checks, more=("--spares",)):
        """A job that may have so many nodes, on as many as have a check; on those of LATER start_on() does it."""
        self.network = self.enterContext(netns.Network(len(checks)))
        self.drill = self.enterContext(Drill(self.network, options.ddprun, options.round_worker))
        self.endpoint = f"{self.network[0].address}:29400"
        self.flags = ("--nnodes", nodes, "--rdzv-backend", "c10d", "--rdzv-endpoint", self.endpoint, "--rdzv-id", "job",
                      "--max-restarts", "9", "--no-python", *more)
        for node, check in enumerate(checks):
            if check is not LATER:
                self.start_on(node, check)

    def start_on(self, node, check):
        self.drill.start(node, *self.flags, *check)

    def status(self):
        asked = self.network[0].popen([options.ddpctl, "status", self.endpoint], stdout=subprocess.PIPE, text=True)
        return asked.communicate(timeout=PATIENCE_S)[0]

    def kill_worker_on(self, node, found):
        rank = found.nodes.index(node)
        os.kill(found.pid_of(rank), signal.SIGKILL)

    def finish(self):
        self.drill.finish()
        self.drill.judge(self)

    def test_a_spare_takes_the_place_of_a_node_that_fails_it(self):
        self.start("2", FIT, UNFIT, FIT)
        self.assertEqual({0, 2}, set(self.drill.await_round(workers=2).nodes), self.drill.account())
        self.drill.await_said(0, f"node n1 is not fit: {WHY}; it stands by")
        self.assertIn(f"not fit: n1: {WHY}\n", self.status())
        self.finish()

    def test_an_elastic_job_continues_without_it(self):
        self.start("1:2", FIT, UNFIT, more=("--rdzv-conf", "last_call_timeout=3", "--spares"))
        self.drill.await_said(0, "2 of 1 to 2 nodes joined: ")  # said after 2 s
        self.assertEqual([0], self.drill.await_round(workers=1).nodes, self.drill.account())
        self.finish()

    def test_a_leader_that_fails_it_leads_and_runs_no_workers(self):
        """Without --spares it ended with 75: it had led the job, but run no workers."""
        self.start("2", UNFIT, FIT, FIT, more=())
        self.assertEqual({1, 2}, set(self.drill.await_round(workers=2).nodes), self.drill.account())
        self.drill.await_said(0, f"node n0 is not fit: {WHY}; it stands by")
        self.drill.await_said(0, "this node leads job 'job', and runs workers only when another node is lost")
        self.finish()

    def test_it_runs_workers_where_the_others_do_not_suffice_until_one_comes(self):
        self.start("2", FIT, UNFIT, more=("--rdzv-conf", "last_call_timeout=1", "--spares"))
        self.assertEqual({0, 1}, set(self.drill.await_round(workers=2).nodes), self.drill.account())
        self.drill.await_said(0, f"node n1 is not fit: {WHY}; it runs workers anyway")
        self.finish()

    def test_it_is_run_after_a_failure_that_began_there(self):
        bad = os.path.join(self.enterContext(tempfile.TemporaryDirectory()), "bad")
        self.start("2", FIT, ("--node-check", f"test ! -e {bad}"), LATER)
        first = self.drill.await_round(workers=2)
        self.start_on(2, FIT)
        self.drill.await_said(2, "this node stands by")
        open(bad, "w").close()
        self.kill_worker_on(1, first)
        self.assertEqual({0, 2}, set(self.drill.await_round(workers=2).nodes), self.drill.account())
        self.drill.await_said(0, "node n1 is not fit: its check exited with status 1 (test ! -e ")
        self.finish()

    def test_three_failures_that_began_there_are_enough(self):
        self.start("2", FIT, FIT, FIT)
        found = self.drill.await_round(workers=2)
        # One of the two that run is not the leader.
        bad = next(node for node in found.nodes if node != 0)
        for _ in range(3):
            self.assertIn(bad, found.nodes, self.drill.account())
            self.kill_worker_on(bad, found)
            found = self.drill.await_round(workers=2)
        self.assertNotIn(bad, found.nodes, self.drill.account())
        self.drill.await_said(0, f"node n{bad} is not fit: 3 failures within an hour began there; it stands by")
        self.finish()

    def test_one_that_takes_too_long_is_killed(self):
        self.start("1", ("--node-check", "sleep 1000", "--node-check-timeout", "0.3"))
        self.drill.await_round(workers=1)
        self.drill.await_said(0, "node n0 is not fit: its check took longer than 0.3 s (sleep 1000); it runs workers")
        self.finish()

    def test_a_signal_ends_the_job_while_it_runs(self):
        fifo = os.path.join(self.enterContext(tempfile.TemporaryDirectory()), "fifo")
        os.mkfifo(fifo)
        begun = os.open(fifo, os.O_RDWR)
        self.addCleanup(os.close, begun)
        self.start("1", ("--node-check", f"sh -c 'echo up > {fifo}; sleep 1000'"))
        self.assertEqual(b"up\n", os.read(begun, 3))
        self.drill.jobs[0].send_signal(signal.SIGTERM)
        self.assertEqual(128 + signal.SIGTERM, self.drill.jobs[0].wait(PATIENCE_S), self.drill.account())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("ddprun", "ddpctl", "round-worker"):
        parser.add_argument(f"--{name}", required=True)
    _, rest = parser.parse_known_args(namespace=options)
    unittest.main(argv=[sys.argv[0], *rest])
