"""What Slurm and its nodes do to a job without asking: an element of an array is preempted, a network parts and
heals, an agent is killed, a slurmd dies.

    unkind_cluster_test.py --ddprun PROGRAM [--repeats N] [unittest arguments]
"""

import argparse
import json
import os
import sys
import time
import unittest

from cluster import PATIENCE_S, Cluster, first, skip_without_cluster

options = argparse.Namespace()
SPARED = ("--ntasks-per-node=1", "--no-kill", "--kill-on-bad-exit=0", "--wait=0")
SAVES = "trap 'kill \\$!; exit 0' TERM; sleep 1000 & echo up; wait"


def setUpModule():
    skip_without_cluster()


class Array(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.enterClassContext(Cluster(3))

    def elements(self, array):
        """By index, what scontrol knows of each."""
        lines = self.cluster.run("scontrol", "--oneliner", "show", "job", str(array)).stdout.splitlines()
        records = [dict(word.split("=", 1) for word in line.split() if "=" in word) for line in lines]
        return {int(record["ArrayTaskId"]): record for record in records}

    def output_of(self, array, element):
        path = self.cluster.shared / f"{array}_{element}.out"
        return path.read_text() if path.exists() else ""

    def test_a_preempted_element_is_requeued_alone(self):
        """Also that one by whose job id Slurm knows the whole array."""
        for _ in range(options.repeats):
            array = self.cluster.sbatch(
                "--partition=low", "-N1", "--exclusive", "--array=1-3", "--requeue", "--open-mode=append",
                f"--output={self.cluster.shared}/%A_%a.out",
                script=f"srun {options.ddprun} --requeue=on-preempt --nproc-per-node 1 --no-python sh -c \"{SAVES}\"\n")
            try:
                for element in range(1, 4):
                    self.cluster.wait_until(lambda: "up" in self.output_of(array, element), f"element {element}")
                before = self.elements(array)
                (preempted,) = [element for element, record in before.items() if record["JobId"] == str(array)]
                self.cluster.sbatch("--partition=batch", "--exclusive", f"--nodelist={before[preempted]['NodeList']}",
                                    script=":")
                self.cluster.wait_for(f"{array}_{preempted}", "PENDING", restarts=1)
                self.assertIn(f"ddprun: Slurm was asked to start job {array}_{preempted} again: restart 1",
                              self.output_of(array, preempted))
                for element, record in self.elements(array).items():
                    expected = ("PENDING", "1") if element == preempted else ("RUNNING", "0")
                    self.assertEqual(expected, (record["JobState"], record["Restarts"]), record)
            finally:
                self.cluster.run("scancel", str(array))
                self.cluster.wait_until(lambda: not self.cluster.run("squeue", "-h").stdout, "the array is gone")


class Step:
    """One under way on nodes of a cluster, whose workers run until told that they are done."""

    def __init__(self, case, nodes, *flags):
        self.case, self.cluster = case, case.cluster
        self.stop = self.cluster.shared / "stop"
        self.stop.unlink(missing_ok=True)
        self.err = self.cluster.shared / "err"
        work = f"echo up; until [ -e {self.stop} ]; do sleep 0.1; done"
        with self.err.open("w") as err:
            self.srun = self.cluster.popen("srun", *first(nodes), *SPARED, options.ddprun, *flags, "--nproc-per-node=1",
                                           "--no-python", "sh", "-c", work, stdin=-3, stdout=-1, stderr=err, text=True)
        case.addCleanup(self.end)
        for _ in range(nodes):
            case.assertEqual("up\n", self.srun.stdout.readline(), self.said())

    def said(self):
        return self.err.read_text()

    def finish(self):
        self.stop.touch()

    def wait(self):
        """Its status."""
        self.srun.communicate(timeout=PATIENCE_S)
        return self.srun.returncode

    def end(self):
        if self.srun.poll() is None:
            self.srun.kill()
            self.cluster.run("scancel", "--user=root", check=False)
        self.srun.communicate()
        self.cluster.wait_until(lambda: not self.cluster.run("squeue", "-h").stdout, "the job is gone")


class Loss(unittest.TestCase):
    """Nodes that are lost for a while, or for good."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.enterClassContext(Cluster(4))

    def test_one_of_two_whose_workers_end_well_behind_a_cut_hears_that_the_job_is_done(self):
        for _ in range(options.repeats):
            step = Step(self, 2, "--nnodes=1:2")
            self.cluster.isolate("node0", "node1")
            step.finish()
            self.cluster.wait_until(lambda: "lost by silence" in step.said(), "node0 is done, and waits for node1")
            self.cluster.heal("node0")
            self.assertEqual(0, step.wait(), step.said())

    def kill(self, node, program):
        (pid,) = self.cluster.run("pgrep", "-x", program, node=node).stdout.split()
        self.cluster.run("kill", "-KILL", pid, node=node)

    def test_of_two_nodes_the_other_ends_at_once_when_agent_or_front_is_killed(self):
        for _ in range(options.repeats):
            for node in ("node0", "node1"):
                for program in ("ddprun-agent", "ddprun"):
                    with self.subTest(node=node, program=program):
                        step = Step(self, 2)
                        at = time.monotonic()
                        self.kill(node, program)
                        self.assertNotEqual(0, step.wait(), step.said())
                        print(f"{program} killed on {node}: srun ended {time.monotonic() - at:.1f} s later", flush=True)
                        survivor = "node1" if node == "node0" else "node0"
                        self.assertRegex(step.said(), r"ddprun: only 1 of at least 2 nodes are left, and this step gets no "
                                                      rf"new ones: here are {survivor} \(.*; exit status 75")

    def test_a_slurmd_that_dies_and_returns_leaves_the_verdict_in_the_journal(self):
        """Slurm kills the task there, and srun ends with 137. The others have finished the work."""
        for _ in range(options.repeats):
            logs = self.cluster.shared / f"logs{time.monotonic_ns()}"
            step = Step(self, 2, "--nnodes=1:2", "--max-restarts=1", f"--log-dir={logs}")
            self.cluster.kill_slurmd("node1")
            self.cluster.wait_until_down("node1")
            self.cluster.start_node("node1")
            self.assertEqual("up\n", step.srun.stdout.readline(), step.said())  # without node1
            step.finish()
            self.assertEqual(137, step.wait(), step.said())
            lines = [json.loads(line) for file in logs.glob("*/events.jsonl") for line in file.read_text().splitlines()]
            self.assertEqual([0], [line["exit_status"] for line in lines if line["event"] == "job_ended"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddprun", required=True, type=os.path.abspath)
    parser.add_argument("--repeats", type=int, default=1)
    _, rest = parser.parse_known_args(namespace=options)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
