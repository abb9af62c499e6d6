"""Unmodified Python DDP scripts print under ddprun what they print under torchrun:

    python_ddp_test.py --ddprun PROGRAM --python INTERPRETER [--preload] [unittest arguments]

--preload: ddprun forks its workers.
Every script of scripts/ is run by both launchers, and what it printed is compared line by line.
"""

import argparse
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parent / "scripts"
WORLDS = (1, 2, 4)

# What the launchers may set differently, and why.
_DIFFERS = {
    "MASTER_ADDR": "torchrun names the host, ddprun gives an address",
    "MASTER_PORT": "any free port",
    "TORCHELASTIC_RUN_ID": "random where none was asked for",
    "TORCHELASTIC_ERROR_FILE": "in a directory with a random name",
}

options = argparse.Namespace()


class Ended:
    """A launcher's run that has ended."""

    def __init__(self, status, out, err):
        self.status = status
        self.out = out
        self.err = err

    def lines_by_rank(self):
        """What was printed, by rank, since the order between ranks is random."""
        return sorted(self.out.splitlines(), key=lambda line: line.split()[:2])


def clean_environment(**more):
    """No launcher variables, and one thread per rank, because the thread count changes the result's bits."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return {**kept, "PYTHON_EXEC": options.python, "OMP_NUM_THREADS": "1", **more}


def run(launcher, flags, script, **environment):
    """Runs one of SCRIPTS to its end, with a temporary directory of its own."""
    with tempfile.TemporaryDirectory(prefix="ddprun_test_") as directory:
        started = subprocess.Popen(
            [*launcher, "--standalone", *flags, str(SCRIPTS / script)],
            env=clean_environment(TMPDIR=directory, **environment), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            out, err = started.communicate(timeout=180)
        except subprocess.TimeoutExpired:
            started.terminate()  # which ends its workers too; kill would leave torchrun's behind
            out, err = started.communicate()
            raise AssertionError(f"{script} did not end:\n{out}{err}") from None
    return Ended(started.returncode, out, err)


def torchrun(flags, script, **environment):
    return run([options.python, "-m", "torch.distributed.run"], flags, script, **environment)


def ddprun(flags, script, **environment):
    if options.preload:
        # Importing torch sets variables of its own, as it does in scripts that do it.
        flags = ["--preload", "json" if script == "print_environment.py" else "torch", *flags]
    return run([options.ddprun], flags, script, **environment)


class SameAsTorchrun(unittest.TestCase):
    maxDiff = None

    def assert_same_output(self, script, workers):
        flags = [f"--nproc-per-node={workers}"]
        theirs = torchrun(flags, script)
        ours = ddprun(flags, script)
        self.assertEqual(0, theirs.status, theirs.err)
        self.assertEqual(0, ours.status, ours.err)
        self.assertTrue(theirs.out)
        self.assertEqual(theirs.lines_by_rank(), ours.lines_by_rank())

    def test_training_gives_the_same_losses_and_weights(self):
        for workers in WORLDS:
            with self.subTest(workers=workers):
                self.assert_same_output("train_ddp.py", workers)

    def test_collectives_give_the_same_values(self):
        for workers in WORLDS:
            with self.subTest(workers=workers):
                self.assert_same_output("collectives.py", workers)

    def test_the_second_attempt_finds_a_new_group(self):
        flags = ["--nproc-per-node=2", "--max-restarts=1"]
        ours = ddprun(flags, "fail_first_attempt.py")
        self.assertEqual(0, ours.status, ours.err)
        self.assertEqual(
            ["rank 0 attempt 1 sum 2.0 old False", "rank 1 attempt 1 sum 2.0 old False"],
            ours.lines_by_rank())


    def test_run_path_ends_well_though_the_group_was_not_destroyed(self):
        ours = ddprun(["--nproc-per-node=2", "--run-path"], "leave_group.py")
        self.assertEqual(0, ours.status, ours.err)

    def test_a_timer_of_torchs_that_expires_restarts_the_workers(self):
        ours = ddprun(["--nproc-per-node=2", "--max-restarts=1"], "set_timer.py",
                      TORCHELASTIC_ENABLE_FILE_TIMER="1")
        self.assertEqual(0, ours.status, ours.err)
        self.assertEqual(["rank 0 attempt 1", "rank 1 attempt 1"], ours.lines_by_rank())
        self.assertIn("expire; it is sent SIGKILL", ours.err)


class SameEnvironment(unittest.TestCase):
    maxDiff = None

    def environments(self, launch, workers, **environment):
        ended = launch([f"--nproc-per-node={workers}"], "print_environment.py", **environment)
        self.assertEqual(0, ended.status, ended.err)
        found = [json.loads(line) for line in ended.out.splitlines()]
        return sorted(found, key=lambda values: int(values["RANK"]))

    def test_workers_see_the_variables_of_torchrun_and_ours(self):
        # Values left over from an outer job are overwritten by both.
        stale = {"RANK": "7", "WORLD_SIZE": "99", "MASTER_PORT": "1", "LOCAL_RANK": "5"}
        theirs = self.environments(torchrun, 2, **stale)
        ours = self.environments(ddprun, 2, **stale)
        self.assertEqual(2, len(theirs))
        self.assertEqual(2, len(ours))
        for their, our in zip(theirs, ours):
            ignored = {"TMPDIR", "LC_CTYPE"}  # one of each run, Python's own doing
            extra = {name for name in our if name not in their and not name.startswith("DDPRUN_")}
            self.assertEqual(set(), extra - ignored, "set by ddprun alone")
            self.assertEqual(set(), set(their) - set(our) - ignored, "set by torchrun alone")
            same = set(their) - set(_DIFFERS) - ignored
            self.assertEqual(
                {name: their[name] for name in same}, {name: our[name] for name in same})

    def test_what_differs_from_torchrun_is_well_formed(self):
        first, second = self.environments(ddprun, 2)
        for name in ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID"):
            self.assertEqual(first[name], second[name])
        self.assertTrue(socket.getaddrinfo(first["MASTER_ADDR"], int(first["MASTER_PORT"])))
        self.assertTrue(first["TORCHELASTIC_RUN_ID"])
        self.assertRegex(first["TORCHELASTIC_ERROR_FILE"], r"/attempt_0/0/error\.json$")
        self.assertRegex(second["TORCHELASTIC_ERROR_FILE"], r"/attempt_0/1/error\.json$")


class RecordedFailure(unittest.TestCase):
    def assert_tells_the_story(self, ended, workers):
        self.assertEqual(1, ended.status, ended.err)
        self.assertRegex(ended.err, rf"rank\s*:\s*{workers - 1} \(local_rank: {workers - 1}\)")
        self.assertRegex(ended.err, r"exitcode\s*:\s*1 \(pid: \d+\)")
        self.assertIn("fail_recorded.py", ended.err)
        self.assertIn("in give_up", ended.err)
        self.assertIn("ValueError: the rank with the bad luck gives up", ended.err)

    def test_the_traceback_is_shown_as_by_torchrun(self):
        for workers in WORLDS:
            with self.subTest(workers=workers):
                flags = [f"--nproc-per-node={workers}"]
                ours = ddprun(flags, "fail_recorded.py")
                self.assert_tells_the_story(ours, workers)
                # Where the worker wrote it, and in the paragraph.
                self.assertEqual(2, ours.err.count("Traceback (most recent call last)"), ours.err)
                # The traceback of the script, not of the launcher.
                self.assertNotIn("torch/distributed/run.py", ours.err)

    def test_torchrun_tells_the_same_story(self):
        self.assert_tells_the_story(torchrun(["--nproc-per-node=2"], "fail_recorded.py"), 2)

    def test_the_failure_is_copied_to_the_error_file_of_the_launcher(self):
        with tempfile.TemporaryDirectory(prefix="ddprun_test_") as directory:
            file = pathlib.Path(directory) / "error.json"
            ddprun(["--nproc-per-node=2"], "fail_recorded.py", TORCHELASTIC_ERROR_FILE=str(file))
            message = json.loads(file.read_text())["message"]
        self.assertEqual("ValueError: the rank with the bad luck gives up", message["message"])
        self.assertEqual(1, message["errorCode"])
        self.assertTrue(re.search("in give_up", message["extraInfo"]["py_callstack"]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddprun", required=True)
    parser.add_argument("--python", required=True)
    parser.add_argument("--preload", action="store_true")
    options, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
