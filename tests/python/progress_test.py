"""How far unmodified Python scripts are, by `ddpctl status`, and who is named when they hang.

    progress_test.py --ddprun PROGRAM --ddpctl PROGRAM --python INTERPRETER_WITH_TORCH [--times 1] [unittest arguments]

Real DDP on Gloo. Workers are forked, and executed with the package of this checkout installed. --times: how often each
way to hang is tried; it prints how long after the limit each was named.
"""

import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PACKAGES = pathlib.Path(__file__).resolve().parents[2] / "python"
SCRIPT = pathlib.Path(__file__).resolve().parent / "scripts" / "hang.py"
LIMIT_S = 2
PATIENCE_S = 90

options = argparse.Namespace()


class Case(unittest.TestCase):
    def setUp(self):
        self.room = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="ddprun_test_")))
        (self.room / "site").mkdir()
        # PYTHONPATH alone reads no .pth file.
        (self.room / "site" / "sitecustomize.py").write_text(f"import site\nsite.addsitedir({str(PACKAGES)!r})\n")

    def start(self, *arguments, workers=4, executed=False):
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        environment = {**kept, "PYTHON_EXEC": options.python, "TMPDIR": str(self.room), "OMP_NUM_THREADS": "1",
                       "XDG_RUNTIME_DIR": str(self.room), "PYTHONDONTWRITEBYTECODE": "1"}
        if executed:
            environment["PYTHONPATH"] = str(self.room / "site")
        self.err = self.room / "err"
        with open(self.err, "w") as err:
            job = subprocess.Popen(
                [options.ddprun, "--standalone", "--nproc-per-node", str(workers),
                 *([] if executed else ["--preload", "auto"]), *arguments],
                env=environment, cwd=self.room, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err)
        self.addCleanup(self.end, job)
        self.environment = environment
        return job

    @staticmethod
    def end(job):
        for number in (signal.SIGTERM, signal.SIGTERM):  # the second one does not wait
            if job.poll() is None:
                job.send_signal(number)
                time.sleep(0.3)
        job.wait(timeout=PATIENCE_S)

    def wait_for(self, what):
        """The match of a pattern in what ddprun has written to stderr."""
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            found = re.search(what, self.err.read_text(), re.M | re.S)
            if found:
                return found
            time.sleep(0.05)
        self.fail(f"{what!r} is not in:\n{self.err.read_text()}")

    def ask(self, *arguments):
        asked = subprocess.run([options.ddpctl, "status", *arguments], env=self.environment, capture_output=True,
                               text=True, timeout=PATIENCE_S)
        return asked.stdout

    def workers(self):
        listed = self.ask()
        if not listed:
            return []
        try:
            nodes = json.loads(self.ask(listed.split()[0], "--json"))["nodes"]
        except ValueError:
            return []
        return [worker for node in nodes for worker in node["workers"]]


class Progress(Case):
    def assert_steps_are_shown(self, **how):
        self.start("--hang-timeout", "off", str(SCRIPT), "none", "0", "0", workers=2, **how)
        until = time.monotonic() + PATIENCE_S
        steps = [None]
        while time.monotonic() < until and (len(steps) != 2 or None in steps or min(steps) < 20):
            workers = self.workers()
            steps = [worker.get("step") for worker in workers] or [None]
        self.assertEqual(2, len(steps), self.err.read_text())
        self.assertGreaterEqual(min(steps), 20)
        for worker in workers:
            self.assertGreater(worker["step_time_s"], 0)
            self.assertLess(worker["step_age_s"], 5)
        self.assertRegex(self.ask(self.ask().split()[0]), r"(?s)step +steps/s +last step.* \d+(-\d+)? +[\d.]+ +[\d.]+ s  0:")

    def test_steps_of_forked_workers_are_shown(self):
        self.assert_steps_are_shown()

    def test_steps_of_executed_workers_are_shown(self):
        self.assert_steps_are_shown(executed=True)


class Hangs(Case):
    def assert_named(self, way, what_culprit_does, **how):
        delays = []
        for _ in range(options.times):
            job = self.start("--hang-timeout", str(LIMIT_S), str(SCRIPT), way, "2", "30", **how)
            told = self.wait_for(r"^ddprun: \S+ hangs on .*?^  next: .*?$")
            self.assertRegex(told.group(), r"^ddprun: \S*hang\.py hangs on \S+: no worker of this node has made a step for ")
            self.assertRegex(told.group(), r"(?m)^  rank 2 \(local rank 2, pid \d+\) " + what_culprit_does)
            self.assertRegex(told.group(), r"(?m)^  ranks 0, 1, 3 wait in \S+ \(hang\.py:\d+\), at step \d+$")
            self.assertEqual(2, len(re.findall(r"(?m)^  ranks? \d", told.group())), told.group())
            stacks = pathlib.Path(re.search(r"stacks of all threads: (.*)", told.group()).group(1))
            self.assertIn('hang.py", line ', stacks.read_text())
            delays.append(float(re.search(r"has made a step for ([\d.]+) s", told.group()).group(1)) - LIMIT_S)
            self.end(job)
        if options.times > 1:
            print(f"{way}: named {len(delays)} of {options.times} times, at most {max(delays):.1f} s after the limit")

    def test_one_that_skips_a_collective(self):
        self.assert_named("skip", r"waits in barrier \(hang\.py:\d+\), at step 29")

    def test_one_that_is_stopped(self):
        self.assert_named("stop", r"is stopped by a signal, such as SIGSTOP, at step 29")

    def test_one_that_waits_in_its_data_loader(self):
        self.assert_named("loader", r"waits for its data \(hang\.py:\d+\): it is in __getitem__ \(hang\.py:\d+\), at step 30; asleep")

    def test_one_that_blocks_on_a_fifo(self):
        self.assert_named("fifo", r"is in read_fifo \(hang\.py:\d+\), at step 29; asleep in the kernel")

    def test_one_that_has_locked_itself_out(self):
        self.assert_named("lock", r"is in lock_twice \(hang\.py:\d+\), at step 29")

    def test_one_that_computes_for_ever(self):
        self.assert_named("spin", r"is in spin \(hang\.py:\d+\), at step 29; it computes")

    def test_one_that_is_executed(self):
        self.assert_named("fifo", r"is in read_fifo \(hang\.py:\d+\), at step 29", executed=True)

    def test_the_job_restarts_if_it_is_to(self):
        job = self.start("--hang-timeout", str(LIMIT_S), "--on-hang", "restart", "--max-restarts", "1", str(SCRIPT), "fifo",
                         "2", "30")
        self.wait_for(r"^  next: rank 2 is ended, so that the job restarts$")
        self.wait_for(r"^ddprun: \S+ failed on \S+: rank 2 .* \(SIGKILL, by ddprun: it hung\), ")
        self.assertEqual(0, job.wait(timeout=PATIENCE_S), self.err.read_text())

    def test_one_after_a_long_pause_that_has_ended_early(self):
        """The watch slept until the announced end."""
        self.start("--hang-timeout", "1", str(SCRIPT), "after_pause", "2", "30", executed=True)
        self.wait_for(r"hangs on .*^  rank 2 \(local rank 2, pid \d+\) is in read_fifo ")

    def test_others_end_where_one_has_exited_with_0(self):
        self.start("--hang-timeout", str(LIMIT_S), "--on-hang", "restart", str(SCRIPT), "exit", "2", "30")
        self.wait_for(r"^  rank 2 \(local rank 2\) has exited with status 0, at step 29$")
        self.wait_for(r"^  next: ranks 0, 1, 3 are ended, and so the job is \(--max-restarts would allow a restart\)$")
        self.wait_for(r"^ddprun: \S+ failed on \S+: rank \d .* \(SIGKILL, by ddprun: it hung\), ")

    def test_one_that_goes_on_after_all_and_a_pause_that_is_announced(self):
        job = self.start("--hang-timeout", "1", str(SCRIPT), "late", "2", "30")
        self.wait_for(r"hangs on .*^ddprun: training goes on: a step was made after all$")
        self.end(job)
        # At the end, Python takes its time.
        job = self.start("--hang-timeout", "3", str(SCRIPT), "busy", "2", "30", executed=True)
        self.assertEqual(0, job.wait(timeout=PATIENCE_S), self.err.read_text())
        self.assertNotIn("hangs on", self.err.read_text())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddprun", required=True)
    parser.add_argument("--ddpctl", required=True)
    parser.add_argument("--python", required=True)
    parser.add_argument("--times", type=int, default=1)
    _, rest = parser.parse_known_args(namespace=options)
    unittest.main(argv=[sys.argv[0], *rest])
