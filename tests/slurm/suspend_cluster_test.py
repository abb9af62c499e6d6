"""`scontrol suspend` and `resume`, and gang scheduling: no node was replaced, so the job continues
and no restart is charged.

    suspend_cluster_test.py --ddprun PROGRAM --round-worker PROGRAM [--repeats N] [--pauses S,S,...]
                            [unittest arguments]

A job of three nodes is suspended for each of the pauses in turn, or takes turns with another one, with no restart
allowed; the default lease is 3 s.
"""

import argparse
import os
import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
import rounds  # noqa: E402
from cluster import Cluster, skip_without_cluster  # noqa: E402

NODES = 3
LATELY_NS = 1_000_000_000  # each worker writes every few milliseconds

options = argparse.Namespace()


def setUpModule():
    skip_without_cluster()


def runs_on_all(log, since_ns):
    """Whether workers of one round have written on all nodes since then and recently."""
    now_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    if not log.exists():
        return False
    with open(log, "rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - (1 << 16)))
        text = file.read().decode().partition("\n")[2]
    nodes = {}
    for moment in rounds.parse(text):
        if moment.ns > max(since_ns, now_ns - LATELY_NS):
            nodes.setdefault(moment.key, set()).add(moment.node)
    return any(len(seen) == NODES for seen in nodes.values())


class Job:
    """A job of all nodes. Its workers write to `log` until finish()."""

    def __init__(self, cluster, name, *flags):
        self.cluster = cluster
        self.log, self._stop = cluster.shared / f"log{name}", cluster.shared / f"stop{name}"
        self.id = cluster.sbatch(
            f"-N{NODES}", "--ntasks-per-node=1", *flags,
            script=f"srun {options.ddprun} --max-restarts 0 --nproc-per-node 1 --no-python "
                   f"{options.round_worker} {self.log} {self._stop}\n",
            env={"ROUND_WORKER_PERIOD_MS": "20"})

    def state(self):
        return self.cluster.job(self.id)["JobState"]

    def wait_until_all_run(self, what, since_ns):
        """Also returns if the job is over, which finish() reports."""
        self.cluster.wait_until(lambda: runs_on_all(self.log, since_ns) or self.state() != "RUNNING", what)

    def finish(self):
        """Returns its output."""
        self._stop.touch()
        ended = self.cluster.wait_for(self.id, "COMPLETED")
        said = self.cluster.output_of(self.id)
        if ended["ExitCode"] != "0:0":
            raise AssertionError(said)
        overlaps = [found for found in rounds.violations(rounds.parse(self.log.read_text()))
                    if not found.startswith("R1")]  # if all nodes start over, rounds count from 1 again
        if overlaps:
            raise AssertionError(overlaps)
        return said


class Suspension(unittest.TestCase):
    def assert_said_once_each_time(self, said, pauses):
        """All nodes have one console."""
        self.assertIn(said.count(" was suspended and lost its lease"), range(1, pauses + 1), said)

    def test_a_job_that_was_suspended_continues_and_no_restart_is_charged(self):
        with Cluster(NODES) as cluster:
            for number in range(options.repeats):
                job = Job(cluster, number)
                cluster.wait_until(lambda: runs_on_all(job.log, 0), "the first round")
                for pause_s in options.pauses:
                    cluster.run("scontrol", "suspend", str(job.id))
                    time.sleep(pause_s)
                    cluster.run("scontrol", "resume", str(job.id))
                    job.wait_until_all_run(f"a round of all after {pause_s} s",
                                           time.clock_gettime_ns(time.CLOCK_BOOTTIME))
                self.assert_said_once_each_time(job.finish(), len(options.pauses))

    def test_two_jobs_that_take_turns_on_the_same_cpus_both_end_well(self):
        with Cluster(NODES, settings={"PreemptMode": "SUSPEND,GANG", "SchedulerTimeSlice": "5"}) as cluster:
            jobs = [Job(cluster, number, "--partition=low", "--cpus-per-task=16") for number in range(2)]
            for job in (*jobs, *jobs):
                cluster.wait_until(lambda: job.state() == "SUSPENDED", "the other's turn")
                since_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
                cluster.wait_until(lambda: runs_on_all(job.log, since_ns), "a round of all in its own")
            first, _ = [job.finish() for job in jobs]
            # The second one begins late, since Slurm creates no step while a job is suspended.
            self.assert_said_once_each_time(first, 20)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddprun", required=True, type=os.path.abspath)
    parser.add_argument("--round-worker", required=True, type=os.path.abspath)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--pauses", type=lambda text: [float(word) for word in text.split(",")], default=[1, 3, 7])
    _, rest = parser.parse_known_args(namespace=options)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
