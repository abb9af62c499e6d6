"""A job of a real Slurm continues when it loses a node: with a spare, with fewer nodes, or from the start.

    nodes_cluster_test.py --ddprun PROGRAM --round-worker PROGRAM [--repeats N] [unittest arguments]

Workers write every millisecond in which they run, and all nodes are one machine with one clock. The time
until each job continues is printed, but not asserted: the speed of a machine is not a property of the program.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import sys
import time
import unittest

from cluster import PATIENCE_S, POLL_S, Cluster, skip_without_cluster

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
import rounds  # noqa: E402

LEASE_S, MARGIN_S = 3, 0.45  # docs/failover.md

options = argparse.Namespace()


def setUpModule():
    skip_without_cluster()


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Job:
    """One running step on the first nodes of its own cluster."""

    def __init__(self, case, nodes, *flags, batch=()):
        self.case = case
        self.cluster = case.enterContext(Cluster(nodes))
        self.log = self.cluster.shared / "log"
        self.stop = self.cluster.shared / "stop"
        self.agents = self.cluster.shared / "agents"
        words = [f"--nodes={nodes}", "--ntasks-per-node=1", "--no-kill", "--kill-on-bad-exit=0", "--wait=0",
                 options.ddprun, *flags, f"--log-dir={self.agents}", "--nproc-per-node=2", "--no-python",
                 options.round_worker, str(self.log), str(self.stop)]
        if batch:
            self.id = self.cluster.sbatch("--no-kill", f"--nodes={nodes}", *batch,
                                          script="srun " + " ".join(words) + "; exit $?\n")
        else:
            self.step = self.cluster.popen("srun", *words, stdout=-1, stderr=-1, text=True)

    def moments(self):
        return rounds.parse(self.log.read_text()) if self.log.exists() else []

    def newest(self):
        """Its moments, including those of an incomplete round."""
        all_rounds = rounds.rounds_of(self.moments())
        return all_rounds[max(all_rounds)] if all_rounds else []

    def await_round(self, nodes, after=(0, 0)):
        """The moments of the first round after that, once two workers run on each of so many nodes."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            newest = self.newest()
            if newest and newest[0].key > after and len({moment.rank for moment in newest}) == 2 * nodes:
                return newest
            self.case.assertLess(time.monotonic(), deadline, "there is no such round")
            time.sleep(POLL_S)

    def ends(self):
        """The status of each agent that has ended."""
        events = (json.loads(line) for file in self.agents.glob("*/events.jsonl")
                  for line in file.read_text().splitlines() if line.endswith("}"))
        return [event["exit_status"] for event in events if event["event"] == "job_ended"]

    def finish(self):
        """Every worker is told to end, and all agents end well except that of the lost node. srun waits for that one
        until Slurm marks it as down; this does not wait for srun."""
        nodes = len(self.cluster.names) - 1
        self.stop.touch()
        deadline = time.monotonic() + PATIENCE_S
        while self.ends().count(0) < nodes:
            self.case.assertLess(time.monotonic(), deadline, f"the agents ended with {self.ends()}")
            time.sleep(POLL_S)
        self.case.assertEqual([], rounds.violations(self.moments()))
        self.step.kill()
        self.step.communicate()


def hosts_of(moments):
    return {moment.node for moment in moments}


def last_moment_of(job, key, node):
    return max(moment.ns for moment in job.moments() if moment.key == key and moment.node == node)


class Nodes(unittest.TestCase):
    def lose(self, what, lost, nodes, remain, *flags, by):
        """The time until the job continued, beyond lease + margin."""
        samples = []
        for _ in range(options.repeats):
            job = Job(self, nodes, *flags)
            first = job.await_round(min(nodes, 3))
            at = now_ns()
            by(job.cluster, lost)
            second = job.await_round(remain, after=first[0].key)
            self.assertNotIn(lost, hosts_of(second))
            self.assertEqual(remain, len(hosts_of(second)))
            begun = max(min(moment.ns for moment in second if moment.rank == rank)
                        for rank in {moment.rank for moment in second})
            samples.append((begun - at) / 1e6 - 1e3 * (LEASE_S + MARGIN_S))
            self.after(job, first[0].key, second[0].ns, lost)
        print(f"{what}: the new round runs {min(samples):.0f} to {max(samples):.0f} ms after lease + margin, "
              f"median {statistics.median(samples):.0f}, of {len(samples)}", flush=True)

    def after(self, job, key, second_ns, lost):
        job.finish()

    def test_a_spare_takes_over_from_a_node_without_power(self):
        self.lose("power loss, with a spare", "node2", 4, 3, "--nnodes=3", by=Cluster.kill_node)

    def test_a_spare_takes_over_when_the_node_that_leads_has_no_power(self):
        self.lose("power loss of the leader's node, with a spare", "node0", 4, 3, "--nnodes=3",
                  by=Cluster.kill_node)

    def test_without_a_spare_the_world_gets_smaller(self):
        self.lose("power loss, without a spare", "node1", 3, 2, "--nnodes=2:3", by=Cluster.kill_node)

    def test_where_too_few_are_left_the_job_starts_again(self):
        """Two of three required nodes, and one of two. In parallel, since both have 30 s to find others."""
        jobs = [(Job(self, nodes, f"--nnodes={nodes}", "--requeue=on-preempt", batch=("--requeue",)), nodes, reason)
                for nodes, reason in ((3, "only 2 of 3 nodes joined within 30 s: .*"),
                                      (2, "no majority of the job's nodes could be reached within 30 s: node1 of the last round.*"))]
        for job, nodes, _ in jobs:
            job.await_round(nodes)
            job.cluster.kill_node("node1")
        for job, nodes, reason in jobs:
            job.cluster.wait_for(job.id, "PENDING", restarts=1)
            output = job.cluster.output_of(job.id)
            self.assertRegex(output, f"ddprun: {reason}; exit status 75")
            self.assertEqual(1, output.count("Slurm was asked to start"), output)
            if nodes == 3:
                self.assertIn("fell silent and did not come back: node1; `sbatch --exclude=node1`", output)
            self.assertEqual([], rounds.violations(job.moments()))

    def isolated(self, lost):
        def after(job, key, second_ns, lost):
            """No worker of it is left, although Slurm cannot reach the node."""
            last = last_moment_of(job, key, lost)
            self.assertLess(last, second_ns)
            self.gaps.append((second_ns - last) / 1e6)
            seen = job.cluster.run("pgrep", "-x", pathlib.Path(options.round_worker).name[:15], node=lost,
                                   check=False)
            self.assertEqual("", seen.stdout)
            job.cluster.heal(lost)
            job.finish()

        self.gaps = []
        self.after = after
        self.lose(f"{lost} isolated, with a spare", lost, 4, 3, "--nnodes=3", by=Cluster.isolate)
        print(f"{lost} isolated: its last moment {min(self.gaps):.0f} to {max(self.gaps):.0f} ms before the "
              "first of the new round", flush=True)

    def test_an_isolated_node_has_no_workers_when_the_others_continue(self):
        self.isolated("node2")

    def test_an_isolated_leader_has_no_workers_when_the_others_continue(self):
        self.isolated("node0")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddprun", required=True, type=os.path.abspath)
    parser.add_argument("--round-worker", required=True, type=os.path.abspath)
    parser.add_argument("--repeats", type=int, default=1)
    _, rest = parser.parse_known_args(namespace=options)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
