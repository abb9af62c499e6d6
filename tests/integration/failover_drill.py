"""How long a job of several nodes takes to continue when a part of it is lost, and that no two rounds
ever overlap.

    failover_drill.py --ddprun PROGRAM --round-worker PROGRAM [--repeats N] [--silences N]
        [unittest arguments]

Times are what the workers wrote themselves, and `boottime_ns` of events.jsonl; both are of one clock,
that of the machine. Each drill prints a line for each of its figures, and asserts none of them: the speed of
a machine is not a property of the program.

--repeats is for faults that are detected at once (a kill), --silences for those that take a lease.
"""

import argparse
import glob
import json
import math
import os
import signal
import statistics
import sys
import tempfile
import time
import unittest

import netns
import rounds
from drill import PATIENCE_S, Drill

MARGIN_S = 0.45  # docs/failover.md

options = argparse.Namespace()


def setUpModule():
    netns.skip_without_namespaces()


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def agent_of(guard):
    return netns.children_of(guard.pid)[0]


class Figures:
    """Samples by name, in milliseconds."""

    def __init__(self):
        self._samples = {}

    def add(self, name, nanoseconds):
        self._samples.setdefault(name, []).append(nanoseconds / 1e6)

    def show(self):
        for name, samples in self._samples.items():
            samples.sort()
            p99 = samples[math.ceil(0.99 * len(samples)) - 1]
            print(f"{name}: min {samples[0]:.1f}, median {statistics.median(samples):.1f}, "
                  f"p99 {p99:.1f}, max {samples[-1]:.1f} ms of {len(samples)}", flush=True)


class Job:
    """`nodes` nodes, of which the first leads, with a worker each unless told otherwise."""

    def __init__(self, network, drill, nnodes, workers=1, lease=3, restarts=0, helps=()):
        self.network, self.drill = network, drill
        self._lost = []  # ddprun of nodes that take no part any more
        self._flags = ("--nnodes", nnodes, "--rdzv-backend", "c10d", "--rdzv-endpoint",
                       f"{network[0].address}:29400", "--rdzv-id", "job", "--lease", str(lease),
                       "--nproc-per-node", str(workers), "--max-restarts", str(restarts),
                       "--no-python", *helps)

    def start(self, *nodes):
        for node in nodes:
            self.drill.start(node, *self._flags)

    def kill_agent(self, node):
        """Yields when."""
        guard = self._part_with(node)
        agent = agent_of(guard)
        at = now_ns()
        os.kill(agent, signal.SIGKILL)
        return at

    def kill_node(self, node):
        self._part_with(node)
        at = now_ns()
        self.network[node].kill()
        return at

    def isolate(self, node):
        at = now_ns()
        self.network.isolate(node)
        return at

    def give_up(self, *nodes):
        """What was cut off and may run still."""
        for node in nodes:
            self.network[node].kill()
            if node in self.drill.jobs:
                self._part_with(node)

    def _part_with(self, node):
        self._lost.append(self.drill.jobs.pop(node))
        return self._lost[-1]

    def finish(self):
        """Every node that is left ends with 0. The leader stays for nodes that it lost by silence, which may still
        ask how the job ended, so the network is healed first."""
        self.network.heal()
        for job in self._lost:
            job.wait(PATIENCE_S)
        self.drill.finish()

    def stopped_by_events(self, key, nodes):
        """When these nodes' agents had seen the end of the last of their workers of a round."""
        ends = []
        for node in nodes:
            (path,) = glob.glob(os.path.join(self.drill.room, f"n{node}", "*", "events.jsonl"))
            with open(path) as lines:
                events = [json.loads(line) for line in lines]
            ends += [event["boottime_ns"] for event in events
                     if event["event"] == "worker_failed"
                     and (event["term"], event["round"]) == key]
        return max(ends)

    def last_of(self, key, nodes):
        """When a worker of these nodes ran for the last time in a round, by its own record."""
        names = {f"n{node}" for node in nodes}
        return max(moment.ns for moment in self.drill.moments()
                   if moment.key == key and moment.node in names)


class Failover(unittest.TestCase):
    def setUp(self):
        self.figures = Figures()
        self.addCleanup(self.figures.show)

    def drilled(self, count, nodes, do, **more):
        """Calls `do` with so many fresh jobs, each of which must end well, without overlapping rounds."""
        for number in range(count):
            with self.subTest(number=number), netns.Network(nodes) as network, \
                    Drill(network, options.ddprun, options.round_worker) as drill:
                job = Job(network, drill, **more)
                after = do(job)
                job.finish()
                drill.judge(self)
                if after:
                    after()

    # A worker (row 2). -----------------------------------------------------------------------

    def test_a_worker_is_killed(self):
        def do(job):
            job.start(0, 1)
            blows = []
            first = job.drill.await_round(workers=4)
            for number in range(options.repeats):
                at = now_ns()
                os.kill(first.pid_of(rank=number % 4), signal.SIGKILL)
                second = job.drill.await_round(workers=4)
                blows.append((at, first, second))
                first = second

            def after():
                found = rounds.rounds_of(job.drill.moments())
                for at, first, second in blows:
                    for node in ("n0", "n1"):
                        self.figures.add(
                            f"worker killed: last moment of a worker on {node}",
                            max(m.ns for m in found[first.key] if m.node == node) - at)
                    self.figures.add("worker killed: both nodes' workers seen to have ended",
                                     job.stopped_by_events(first.key, (0, 1)) - at)
                    self.figures.add("worker killed: all of the new round run",
                                     second.last_ns - at)

            return after

        self.drilled(1, 2, do, nnodes="2:2", workers=2, restarts=options.repeats)

    # A node that does not lead (row 4). ------------------------------------------------------

    def lose_follower(self, what, lose, lease, count):
        def do(job):
            job.start(0, 1, 2)
            first = job.drill.await_round(workers=3)
            node = first.node_of(rank=2)
            at = lose(job, node)
            second = job.drill.await_round(workers=2)
            job.give_up(node)
            others = [other for other in range(3) if other != node]

            def after():
                self.figures.add(f"{what}: known to all",
                                 job.stopped_by_events(first.key, others) - at)
                self.figures.add(f"{what}: all of the new round run", second.last_ns - at)

            return after

        self.drilled(count, 3, do, nnodes="2:3", lease=lease)

    def test_an_agent_is_killed(self):
        self.lose_follower("agent killed", Job.kill_agent, 3, options.repeats)

    def test_a_node_is_silent_with_a_lease_of_3(self):
        self.lose_follower("node silent, --lease 3", Job.isolate, 3, options.silences)

    def test_a_node_is_silent_with_a_lease_of_1(self):
        self.lose_follower("node silent, --lease 1", Job.isolate, 1, options.silences)

    # The leader, and then the next (row 5). ---------------------------------------------------

    def lose_leaders(self, what, lose, nodes, least, count, patience_s=0.0, lease=3):
        def do(job):
            job.start(*range(nodes))
            first = job.drill.await_round(workers=nodes)
            gone = []
            for which in ("leader", "next leader"):
                leader = first.node_of(rank=0)
                at = lose(job, leader) + int(patience_s * 1e9)
                gone.append(leader)
                second = job.drill.await_round(workers=nodes - len(gone))
                self.assertGreater(second.key[0], first.key[0])
                self.assertNotIn(second.node_of(rank=0), gone)
                self.figures.add(f"{which} {what}: all of the new round run", second.last_ns - at)
                first = second
                if nodes - len(gone) < least:
                    break
            job.give_up(*gone)

        self.drilled(count, nodes, do, nnodes=f"1:{nodes}", lease=lease)

    def test_the_leaders_agent_is_killed(self):
        self.lose_leaders("killed (3 nodes)", Job.kill_agent, 3, 3, options.repeats)

    def test_the_leaders_agent_is_killed_and_the_next_leaders_too(self):
        self.lose_leaders("killed (3 nodes)", Job.kill_agent, 3, 2, options.repeats)

    def test_the_leaders_node_is_isolated(self):
        self.lose_leaders("isolated (3 nodes), after lease + margin", Job.isolate, 3, 3,
                              options.silences, patience_s=1 + MARGIN_S, lease=1)

    def test_the_leaders_node_is_isolated_and_the_next_leaders_too(self):
        self.lose_leaders("isolated (5 nodes), after lease + margin", Job.isolate, 5, 4,
                              options.silences, patience_s=1 + MARGIN_S, lease=1)

    # Two nodes, one of which is enough, in silence. -------------------------------------------

    def lose_one_of_two(self, what, lost, helps=()):
        def do(job):
            job.start(0, 1)
            first = job.drill.await_round(workers=2)
            node = first.node_of(rank=lost)
            at = job.isolate(node)
            second = job.drill.await_round(workers=1)
            self.assertNotIn(node, second.nodes)
            self.figures.add(f"{what}: the other one runs again, after lease + margin",
                             second.last_ns - at - int((1 + MARGIN_S) * 1e9))
            job.give_up(node)
            job.network.heal()
            job.start(node)  # else the leader would wait 30 s for it, to report the end
            job.drill.await_round(workers=2)

        self.drilled(options.silences, 2, do, nnodes="1:2", lease=1, helps=helps)

    def test_of_two_nodes_the_one_that_follows_falls_silent(self):
        self.lose_one_of_two("1:2, follower silent", 1)

    def test_of_two_nodes_the_one_that_leads_falls_silent_and_the_other_has_the_fence(self):
        with tempfile.TemporaryDirectory(prefix="ddprun_fence_") as fences:
            self.lose_one_of_two("1:2, leader silent, --fence-dir", 0, ("--fence-dir", fences))

    # A partition (row 6). --------------------------------------------------------------------

    def part(self, what, minority_leads, cut):
        def do(job):
            job.start(*range(5))
            first = job.drill.await_round(workers=5)
            nodes = first.nodes
            minority, majority = (nodes[:2], nodes[2:]) if minority_leads else (nodes[3:], nodes[:3])
            at = now_ns()
            cut(job.network, minority, majority)
            second = job.drill.await_round(workers=3)
            self.assertEqual(set(majority), set(second.nodes))

            def after():
                self.figures.add(f"{what}: from the minority's last moment to the new round",
                                 second.first_ns - job.last_of(first.key, minority))
                self.figures.add(f"{what}: all of the new round run, after lease + margin",
                                 second.last_ns - at - int((1 + MARGIN_S) * 1e9))

            job.give_up(*minority)
            return after

        self.drilled(options.silences, 5, do, nnodes="3:5", lease=1)

    def test_a_partition_with_the_leader_in_the_minority(self):
        self.part("2|3, leader in the minority", True,
                  lambda network, few, many: network.split(tuple(few), tuple(many)))

    def test_a_partition_with_the_leader_in_the_majority(self):
        self.part("2|3, leader in the majority", False,
                  lambda network, few, many: network.split(tuple(few), tuple(many)))

    def test_a_minority_that_leads_and_is_not_heard(self):
        self.part("2|3 one way, a minority with the leader is not heard", True,
                  lambda network, few, many: network.cut_all(few, many))

    def test_a_minority_that_leads_and_does_not_hear(self):
        self.part("2|3 one way, a minority with the leader does not hear", True,
                  lambda network, few, many: network.cut_all(many, few))

    # A spare (row 9). ------------------------------------------------------------------------

    def test_a_spare_takes_over_from_a_node_that_is_killed(self):
        def do(job):
            job.start(0, 1)
            first = job.drill.await_round(workers=2)
            job.start(2)
            job.drill.await_said(0, "node n2 (")  # it leads, and starts nothing for a spare
            at = job.kill_node(first.node_of(rank=1))
            second = job.drill.await_round(workers=2)
            self.assertEqual(2, second.node_of(rank=1))
            self.figures.add("node killed, a spare takes over: all of the new round run",
                             second.last_ns - at)

        self.drilled(options.repeats, 3, do, nnodes="2:2")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("ddprun", "round-worker"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--silences", type=int, default=1)
    _, rest = parser.parse_known_args(namespace=options)
    unittest.main(argv=[sys.argv[0], *rest])
