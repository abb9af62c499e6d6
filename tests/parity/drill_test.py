"""The main promise, with the real launcher: ranks are killed at random steps, ddprun starts all of
them again, and the weights are those of an undisturbed run.

    drill_test.py [--seeds N]      each seed is one run; a seed that failed replays by --first-seed
"""

import argparse
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

import jobs
from resume_test import Steps, command

DDPRUN = os.environ.get("DDPRUN", str(jobs.HERE.parents[1] / "build/release/bin/ddprun"))
WORLD = 2
KILLS = 3
BAD_NUMBERS, NO_MEMORY = 65, 71
STEPS = 63  # of the job of resume_test.py at world 2
arguments = argparse.Namespace(seeds=20, first_seed=0)


def workers_of(launcher):
    """{rank: pid} of the workers below `launcher`, by what the kernel says of them."""
    found, below = {}, [launcher]
    while below:
        pid = below.pop()
        try:
            for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
                below += [int(child) for child in (task / "children").read_text().split()]
            environment = pathlib.Path(f"/proc/{pid}/environ").read_text().split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended between two reads
        variables = dict(line.partition("=")[::2] for line in environment)
        if "RANK" in variables:
            found[int(variables["RANK"])] = pid
    return found


def run_with_kills(seed, directory):
    """(exit status, stdout, stderr) of one drill."""
    chance = random.Random(seed)
    steps = Steps(str(directory / "steps"))
    flags = ["--snapshot-dir", str(directory / "snapshots"),
             "--snapshot-every-steps", str(chance.randint(1, 12)), "--metrics-file", steps.path]
    launcher = subprocess.Popen(
        [DDPRUN, "--standalone", "--nproc-per-node", str(WORLD), "--max-restarts", str(KILLS + 1),
         *command(*flags)],
        env=os.environ | jobs.ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True)
    for step in sorted(chance.sample(range(2, STEPS), KILLS)):
        steps.wait_for(event="step", step=step)
        os.kill(workers_of(launcher.pid)[chance.randrange(WORLD)], signal.SIGKILL)
        steps.wait_for(event="start")  # of the next attempt
    threading.Thread(target=steps.file.read, daemon=True).start()
    try:
        out, err = launcher.communicate(timeout=jobs.WAIT_S)
    finally:
        launcher.kill()
    return launcher.returncode, out, err


class Drill(unittest.TestCase):
    def test_kills_at_random_steps_leave_no_trace_in_the_weights(self):
        undisturbed = jobs.final(jobs.Run(command(), WORLD).wait())
        for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
            with self.subTest(replay=f"--first-seed {seed} --seeds 1"), \
                    tempfile.TemporaryDirectory() as directory:
                status, out, err = run_with_kills(seed, pathlib.Path(directory))
                self.assertEqual(status, 0, err)
                self.assertEqual(out.count("ddptrain dataset="), KILLS + 1, "starts")
                self.assertEqual(jobs.final([(status, out, err)]), undisturbed)

    def test_ddprun_names_the_rank_whose_fault_it_was(self):
        """And not one that lost it: who fails says so before its peers can know."""
        for fault, expected in (("nan", BAD_NUMBERS), ("oom", NO_MEMORY)) * 3:
            ended = subprocess.run(
                [DDPRUN, "--standalone", "--nproc-per-node", str(WORLD),
                 *command("--inject", f"{fault}@3,rank=1")],
                env=os.environ | jobs.ENVIRONMENT, capture_output=True, text=True, timeout=jobs.WAIT_S)
            self.assertEqual(expected, ended.returncode, ended.stderr)
            self.assertRegex(ended.stderr, rf"rank 1 .* exited with status {expected}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    arguments, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
