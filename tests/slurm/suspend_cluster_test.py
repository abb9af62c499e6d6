"""`scontrol suspend` and `resume`: nobody was replaced, so the job goes on and no restart is charged.

    suspend_cluster_test.py --ddprun PROGRAM --round-worker PROGRAM [--repeats N] [--pauses S,S,...]
                            [unittest arguments]

A job of three nodes is suspended for each of the pauses in turn, with no restart allowed; the default lease is 3 s.
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


class Suspension(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.enterClassContext(Cluster(NODES))

    def runs_on_all(self, log, since_ns):
        """Whether workers of one round have written on all nodes since then, and lately."""
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

    def test_a_job_that_was_suspended_goes_on_and_no_restart_is_charged(self):
        for number in range(options.repeats):
            log, stop = (self.cluster.shared / f"{name}{number}" for name in ("log", "stop"))
            job = self.cluster.sbatch(
                f"-N{NODES}", "--ntasks-per-node=1",
                script=f"srun {options.ddprun} --max-restarts 0 --nproc-per-node 1 --no-python "
                       f"{options.round_worker} {log} {stop}\n",
                env={"ROUND_WORKER_PERIOD_MS": "20"})
            self.cluster.wait_until(lambda: self.runs_on_all(log, 0), "the first round")
            for pause_s in options.pauses:
                self.cluster.run("scontrol", "suspend", str(job))
                time.sleep(pause_s)
                self.cluster.run("scontrol", "resume", str(job))
                resumed_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
                self.cluster.wait_until(
                    lambda: self.runs_on_all(log, resumed_ns) or self.cluster.job(job)["JobState"] != "RUNNING",
                    f"a round of all after {pause_s} s")
            stop.touch()
            self.assertEqual("0:0", self.cluster.wait_for(job, "COMPLETED")["ExitCode"], self.cluster.output_of(job))
            overlaps = [found for found in rounds.violations(rounds.parse(log.read_text()))
                        if not found.startswith("R1")]  # where all began anew, rounds are counted anew
            self.assertEqual([], overlaps)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddprun", required=True, type=os.path.abspath)
    parser.add_argument("--round-worker", required=True, type=os.path.abspath)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--pauses", type=lambda text: [float(word) for word in text.split(",")], default=[1, 3, 7])
    _, rest = parser.parse_known_args(namespace=options)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
