"""`ddptrain` as a program: the rank that it derives from Slurm and MPI, and when it refuses.

    place_test.py --ddptrain PROGRAM [unittest arguments]
"""

import argparse
import subprocess
import sys
import unittest

options = argparse.Namespace()
PATIENCE_S = 60


class Place(unittest.TestCase):
    def run_in(self, environment, *flags):
        """With these variables and no others."""
        return subprocess.run([options.ddptrain, *flags], env=environment, capture_output=True,
                              text=True, timeout=PATIENCE_S)

    def assert_prints(self, lines, environment):
        ended = self.run_in(environment, "--print-env")
        self.assertEqual((0, ""), (ended.returncode, ended.stderr))
        self.assertEqual([], [line for line in lines if line not in ended.stdout.splitlines()])

    def assert_refused(self, parts, environment, *flags):
        ended = self.run_in(environment, *flags)
        self.assertEqual((2, ""), (ended.returncode, ended.stdout))
        self.assertRegex(ended.stderr, r"\Addptrain: rank \d: [^\n]+\n\Z")
        for part in parts:
            self.assertIn(part, ended.stderr)

    def test_slurms_task_is_a_rank(self):
        task = {"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_LOCALID": "1"}
        self.assert_prints(
            ["RANK=1  # SLURM_PROCID", "WORLD_SIZE=2  # SLURM_NTASKS",
             "LOCAL_RANK=1  # SLURM_LOCALID"], task)
        self.assert_prints(["RANK=0  # set"], task | {"RANK": "0"})

    def test_mpis_rank_is_a_rank(self):
        self.assert_prints(
            ["RANK=2  # OMPI_COMM_WORLD_RANK"],
            {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4"})

    def test_what_it_prints_is_a_shells(self):
        out = self.run_in({"PMI_RANK": "1", "PMI_SIZE": "3"}, "--print-env").stdout
        shell = subprocess.run(["sh", "-ec", out + 'echo "$RANK of $WORLD_SIZE"'],
                               capture_output=True, text=True)
        self.assertEqual("1 of 3\n", shell.stdout)

    def test_without_anybody_who_says_it_there_is_no_rank(self):
        self.assert_refused(["srun", "ddprun"], {}, "--distributed")
        self.assert_refused(["srun", "ddprun"], {}, "--distributed", "--print-env")

    def test_a_line_of_a_rank_names_it(self):
        """A regression: every rank printed it as rank 0 if Slurm or MPI had set the rank."""
        ended = self.run_in({"PMI_RANK": "1", "PMI_SIZE": "2"})
        self.assertEqual(2, ended.returncode)
        self.assertRegex(ended.stderr, r"\Addptrain: rank 1: MASTER_ADDR is not set")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddptrain", required=True)
    rest = parser.parse_known_args(namespace=options)[1]
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
