"""What Slurm does to a job without asking: preempts an element of an array.

    unkind_cluster_test.py --ddprun PROGRAM [--repeats N] [unittest arguments]
"""

import argparse
import os
import sys
import unittest

from cluster import Cluster, skip_without_cluster

options = argparse.Namespace()
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


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddprun", required=True, type=os.path.abspath)
    parser.add_argument("--repeats", type=int, default=1)
    _, rest = parser.parse_known_args(namespace=options)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
