"""The command is started again on all nodes while some of them still run it: the job continues with the started
nodes, and no second instance begins beside the survivors.

    started_again_test.py --ddprun PROGRAM --round-worker PROGRAM [--repeats N] [unittest arguments]

Node 0, which leads, loses power. The user who started the job may not know that the others run on, or wait,
and starts all of it again. On a survivor's machine a fresh agent finds that one (an abstract Unix
socket), joins its job, and asks for a slot after those of other machines. Without that, MAX fresh agents met at
the endpoint and began at once, and workers of both instances ran for half a second.
"""

import argparse
import itertools
import sys
import time
import unittest

import netns
from drill import PATIENCE_S, Drill

PORT = 29400
REFUSED, TRY_AGAIN = 2, 75
LEASE_S = 1
SOON_S = 15  # the return of a node takes about a second; after this the job counts as stuck

options = argparse.Namespace()


def setUpModule():
    netns.skip_without_namespaces()


class StartedAgain(unittest.TestCase):
    def flags(self, network, nodes, node, is_static):
        address = network[0].address
        endpoint = (("--node-rank", str(node), "--master-addr", address, "--master-port", str(PORT))
                    if is_static else ("--rdzv-backend", "c10d", "--rdzv-endpoint", f"{address}:{PORT}"))
        return ("--nnodes", nodes, *endpoint, "--rdzv-id", "job", "--lease", str(LEASE_S), "--no-python")

    def start_again_after(self, silence_s, nodes, is_static=False):
        count = int(nodes.rpartition(":")[2])
        for number in range(options.repeats):
            with self.subTest(number=number), netns.Network(count) as network, \
                    Drill(network, options.ddprun, options.round_worker) as drill:
                for node in range(count):
                    drill.start(node, *self.flags(network, nodes, node, is_static))
                drill.await_round(workers=count)
                network.isolate(0)
                network[0].lose_power()
                drill.jobs.pop(0).wait(PATIENCE_S)
                time.sleep(silence_s)
                survivors = dict(drill.jobs)
                network.heal()
                since = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
                for node in range(count):
                    drill.start(node, *self.flags(network, nodes, node, is_static))
                found = drill.await_fresh_round(count, since, time.monotonic() + SOON_S)
                self.assertIsNotNone(found, f"no round of all: {drill.account()}")
                self.assertEqual(set(range(count)), set(found.nodes), drill.account())
                for node in survivors:  # the fresh one there
                    drill.await_said(node, "is taken by" if is_static else "stands by")
                drill.finish_with({0: 0} | dict.fromkeys(survivors, REFUSED if is_static else TRY_AGAIN))
                self.assertEqual({0}, {job.wait(PATIENCE_S) for job in survivors.values()})
                drill.judge(self)

    def test_of_three_of_which_one_may_run_alone(self):
        self.start_again_after(0, "1:3")

    def test_of_three_that_need_two(self):
        self.start_again_after(0.5, "2:3")

    def test_of_three_that_lead_again_by_then(self):
        self.start_again_after(3 * LEASE_S, "1:3")

    def test_of_two_fixed(self):
        self.start_again_after(0, "2")

    def test_of_two_fixed_that_wait(self):
        self.start_again_after(3 * LEASE_S, "2")

    def test_of_two_static(self):
        self.start_again_after(0.5, "2", is_static=True)

    def test_of_two_static_that_wait(self):
        self.start_again_after(3 * LEASE_S, "2", is_static=True)

    def test_of_two_fixed_by_one_more_than_it_needs(self):
        """Twice on the machine that is back, or on another at the same time: two fresh nodes are as many as the
        job has, and would begin it without the survivor if they did not wait first."""
        for beside, silence_s in itertools.product((0, 2), (0, 3 * LEASE_S)):
            with self.subTest(beside=beside, silence_s=silence_s), netns.Network(3) as network, \
                    Drill(network, options.ddprun, options.round_worker) as drill:
                for node in range(2):
                    drill.start(node, *self.flags(network, "2", node, False))
                drill.await_round(workers=2)
                network.isolate(0)
                network.renew(0)
                drill.jobs.pop(0).wait(PATIENCE_S)
                time.sleep(silence_s)
                network.heal()
                since = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
                fresh = [drill.start(node, *self.flags(network, "2", node, False)) for node in (0, beside)]
                found = drill.await_fresh_round(2, since, time.monotonic() + SOON_S)
                self.assertIsNotNone(found, f"no round of all: {drill.account()}")
                self.assertIn(1, found.nodes, drill.account())
                # A node that comes to a job that is done finds no node, and waits.
                deadline = time.monotonic() + PATIENCE_S
                while not any("joined: 2 of 2 nodes, 1 spare" in drill.said(node) for node in drill.jobs):
                    self.assertTrue(drill.listen(deadline), drill.account())
                open(drill._stop, "w").close()
                ends = sorted(job.wait(PATIENCE_S) for job in (drill.jobs[1], *fresh))
                self.assertEqual([0, 0, TRY_AGAIN], ends, drill.account())
                drill.judge(self)

    def test_beside_a_job_that_is_done_before_there_is_a_place(self):
        for nodes, node in (("2", 0), ("2", 1), ("1:2", 1)):
            with self.subTest(nodes=nodes, node=node), netns.Network(2) as network, \
                    Drill(network, options.ddprun, options.round_worker) as drill:
                for number in range(2):
                    drill.start(number, *self.flags(network, nodes, number, False))
                drill.await_round(workers=2)
                ran = list(drill.jobs.values())
                fresh = drill.start(node, *self.flags(network, nodes, node, False))
                # It has joined, but does not ask for a slot yet: it once waited before it called, and missed the end.
                drill.await_said(0, "1 spare")
                open(drill._stop, "w").close()
                self.assertEqual(TRY_AGAIN, fresh.wait(PATIENCE_S), drill.account())
                self.assertEqual([0, 0], [job.wait(PATIENCE_S) for job in ran], drill.account())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("ddprun", "round-worker"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--repeats", type=int, default=1)
    _, rest = parser.parse_known_args(namespace=options)
    unittest.main(argv=[sys.argv[0], *rest])
