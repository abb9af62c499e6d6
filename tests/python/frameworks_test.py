"""Scripts of Accelerate, Lightning, transformers and DeepSpeed find under ddprun what they find under torchrun:

    frameworks_test.py --ddprun PROGRAM --python INTERPRETER [unittest arguments]

Each script of scripts/*_train.py trains on two CPUs. Frameworks that the interpreter does not have are skipped.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parent / "scripts"
PATIENCE_S = 300  # DeepSpeed compiles for a minute when it is first used

options = argparse.Namespace()


class Ended:
    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err
        # What each rank told of itself, in the order of ranks.
        self.told = [json.loads(line.split(" ", 1)[1]) for line in out.splitlines() if line.startswith("told ")]
        self.told.sort(key=lambda one: one["found"]["rank"])

    def all(self, what):
        return [one[what] for one in self.told]


class Case:
    """What is tried with each framework. Its script is `framework`_train.py."""

    framework = None
    found = {}  # by each rank, besides its rank and the world's size

    def setUp(self):
        looked_for = f"import importlib.util as i, sys; sys.exit(i.find_spec({self.framework!r}) is None)"
        if subprocess.run([options.python, "-c", looked_for], check=False).returncode != 0:
            self.skipTest(f"{options.python} has no {self.framework}")

    def run_job(self, *launcher, **more):
        """No network, no bytecode beside the scripts, and one thread per rank, whose number changes the weights."""
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        with tempfile.TemporaryDirectory(prefix="ddprun_test_") as room:
            job = subprocess.Popen(
                [*launcher, str(SCRIPTS / f"{self.framework}_train.py")], cwd=room, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
                env={**kept, "PYTHON_EXEC": options.python, "OMP_NUM_THREADS": "1", "TMPDIR": room,
                     "PYTHONDONTWRITEBYTECODE": "1", "HF_HUB_OFFLINE": "1", "DS_ACCELERATOR": "cpu", **more})
            try:
                out, err = job.communicate(timeout=PATIENCE_S)
            except subprocess.TimeoutExpired:
                job.terminate()  # which ends its workers too; kill would leave torchrun's behind
                out, err = job.communicate()
                raise AssertionError(f"{job.args} did not end:\n{out}{err}") from None
        self.assertEqual(0, job.returncode, out + err)
        return Ended(job.returncode, out, err)

    def torchrun(self, *flags, **more):
        return self.run_job(options.python, "-m", "torch.distributed.run", "--standalone", *flags, **more)

    def ddprun(self, *flags, **more):
        ended = self.run_job(options.ddprun, *flags, **more)
        self.assertNotIn("ddprun: --preload", ended.err)
        self.assertEqual(2 * ["--preload" in flags], ended.all("forked"), ended.err)
        return ended

    def assert_same(self, theirs, ours):
        self.assertEqual(theirs.all("found"), ours.all("found"))
        self.assertEqual(1, len({*theirs.all("weights"), *ours.all("weights")}), "weights differ")
        self.assertEqual([8, 8], ours.all("steps"))

    def test_finds_the_same_group_and_trains_to_the_same_weights(self):
        theirs = self.torchrun("--nproc-per-node", "2")
        self.assertEqual([{"rank": rank, "world": 2, "local_rank": rank, **self.found} for rank in range(2)],
                         theirs.all("found"))
        for flags in ([], ["--preload", "auto"]):
            with self.subTest(flags=flags):
                ours = self.ddprun("--standalone", "--nproc-per-node", "2", *flags)
                self.assert_same(theirs, ours)
                self.assertEqual([0, 0], ours.all("attempt"))

    def test_trains_in_the_second_attempt_after_a_rank_fails(self):
        whole = self.ddprun("--standalone", "--nproc-per-node", "2")
        for flags in ([], ["--preload", "auto"]):
            with self.subTest(flags=flags):
                ours = self.ddprun("--standalone", "--nproc-per-node", "2", "--max-restarts", "1", *flags, FAILS="1")
                self.assert_same(whole, ours)
                self.assertEqual([1, 1], ours.all("attempt"))
                self.assertIn("RuntimeError: the rank with the bad luck gives up", ours.err)
                self.assertIn("next: restarting all 2 workers (restart 1 of 1)", ours.err)


class Accelerate(Case, unittest.TestCase):
    framework = "accelerate"
    found = {"kind": "DistributedType.MULTI_CPU", "ranks": [0, 1]}

    def test_its_own_flags_start_the_same_job(self):
        theirs = self.torchrun("--nproc-per-node", "2")
        machines = ["--num_machines", "1", "--machine_rank", "0"]
        address = ["--main_process_ip", "127.0.0.1", "--main_process_port", "0"]
        for flags in ([], machines, machines + address):
            with self.subTest(flags=flags):
                self.assert_same(theirs, self.ddprun("--num_processes", "2", *flags))


class Lightning(Case, unittest.TestCase):
    framework = "lightning"
    found = {"node_rank": 0, "environment": "TorchElasticEnvironment"}


class Transformers(Case, unittest.TestCase):
    framework = "transformers"
    found = {"mode": "ParallelMode.DISTRIBUTED"}


class DeepSpeed(Case, unittest.TestCase):
    framework = "deepspeed"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddprun", required=True)
    parser.add_argument("--python", required=True)
    options, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
