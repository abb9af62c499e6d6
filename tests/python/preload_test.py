"""Workers that a fork server forks (--preload) are what executed ones are; where it cannot serve, they are executed.

    preload_test.py --ddprun PROGRAM --python INTERPRETER [--torch] [unittest arguments]

--torch: the interpreter has torch.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
import zipfile

SCRIPTS = pathlib.Path(__file__).resolve().parent / "scripts"
PATIENCE_S = 120
# Known by nobody else, so a script that finds it has been forked.
MARK = "marker_of_a_fork_server"
FORKED = f"'{MARK}' in sys.modules"

options = argparse.Namespace()


class Ended:
    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.room = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="ddprun_test_")))
        self.write(f"installed/{MARK}.py", "")

    def write(self, name, text):
        path = self.room / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    def environment(self, **more):
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        return {**kept, "PYTHON_EXEC": options.python, "OMP_NUM_THREADS": "1", "TMPDIR": str(self.room),
                "PYTHONPATH": str(self.room / "installed"), **more}

    def start(self, *arguments, stdin=subprocess.DEVNULL, cwd=None, **more):
        job = subprocess.Popen([options.ddprun, "--standalone", *map(str, arguments)], env=self.environment(**more),
                               stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               errors="replace", cwd=cwd or self.room)
        self.addCleanup(self.end, job)
        return job

    def end(self, job):
        if job.poll() is None:
            job.kill()
        job.communicate()

    def run_job(self, *arguments, **more):
        job = self.start(*arguments, **more)
        out, err = job.communicate(timeout=PATIENCE_S)
        return Ended(job.returncode, out, err)

    def known(self, arguments, how, **more):
        """What each of two workers knows of itself."""
        name = self.room / "known"
        with open(SCRIPTS / "know_thyself.py") as stdin:
            ended = self.run_job("--nproc-per-node", 2, *how, *arguments, stdin=stdin, KNOWN=str(name), **more)
        self.assertEqual((0, []), (ended.status, re.findall("^ddprun: .*", ended.err, re.M)), ended.err)
        return [json.loads(pathlib.Path(f"{name}.{rank}").read_text()) for rank in range(2)]

    def assert_equal(self, *arguments, flags=(), preload="json,multiprocessing," + MARK, **more):
        forked = self.known(arguments, [*flags, "--preload", preload], **more)
        executed = self.known(arguments, flags, **more)
        for rank in range(2):
            for part in executed[rank]:
                self.assertEqual(executed[rank][part], forked[rank][part], f"rank {rank}, {part}")

    def until(self, is_so, what):
        deadline = time.monotonic() + PATIENCE_S
        while not is_so():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.01)


def descendants(pid):
    """Of a process, by the kernel's lists of children."""
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in task.read_text().split():
                found += [int(child), *descendants(child)]
    return found


def fork_server_of(job):
    for pid in descendants(job.pid):
        with contextlib.suppress(OSError):
            if b"int(os.read(0, 8))" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                return pid
    return None


class ForkedEqualsExecuted(Case):
    """scripts/know_thyself.py finds the same."""

    def test_as_a_script(self):
        self.assert_equal(SCRIPTS / "know_thyself.py", "a", "b c", "--preload", "")

    def test_by_a_relative_path(self):
        self.assert_equal("./know_thyself.py", cwd=SCRIPTS)
        self.assert_equal("../scripts/know_thyself.py", cwd=SCRIPTS)
        self.assert_equal("know_thyself.py", cwd=SCRIPTS)

    def test_through_a_symbolic_link(self):
        (self.room / "link.py").symlink_to(SCRIPTS / "know_thyself.py")
        self.assert_equal("link.py")

    def test_as_a_module(self):
        self.assert_equal("know_thyself", "a", flags=["-m"], cwd=SCRIPTS)

    def test_as_a_package_a_directory_and_an_archive(self):
        text = (SCRIPTS / "know_thyself.py").read_text()
        self.write("package/__init__.py", "")
        self.write("package/__main__.py", "")
        (self.room / "package" / "__main__.py").write_text(text)
        self.assert_equal("package", flags=["-m"])
        self.assert_equal("package")
        with zipfile.ZipFile(self.room / "archive.py", "w") as archive:
            archive.writestr("__main__.py", text)
        self.assert_equal("archive.py")

    def test_by_its_run_path(self):
        self.assert_equal(SCRIPTS / "know_thyself.py", "a", flags=["--run-path"])

    def test_with_options_of_the_interpreter(self):
        self.assert_equal(options.python, "-X", "faulthandler", "-Wignore", "-bB", "-O", SCRIPTS / "know_thyself.py",
                          flags=["--no-python"])
        # The marker is on PYTHONPATH.
        self.assert_equal(options.python, "-I", SCRIPTS / "know_thyself.py", flags=["--no-python"], preload="json")

    def test_with_streams_of_its_own(self):
        self.assert_equal(SCRIPTS / "know_thyself.py", flags=["-r", "3"])
        self.assert_equal(SCRIPTS / "know_thyself.py", flags=["-t", "1", "-r", "0:2"])

    def test_without_unbuffered_streams(self):
        self.assert_equal(options.python, SCRIPTS / "know_thyself.py", flags=["--no-python"])

    def test_with_affinity_and_an_odd_environment(self):
        self.assert_equal(SCRIPTS / "know_thyself.py", flags=["--numa-binding", "node"], EMPTY="", ODD="a=b\nc\udcff",
                          PYTHONUTF8="0", LC_ALL="C", PYTHONHASHSEED="7")


class Errors(Case):
    """An uncaught exception leaves the same text and status as in an executed worker."""

    PROGRAMS = {
        "raises": "def f():\n    raise ValueError('no')\nf()\n",
        "chain": "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise KeyError('x') from error\n",
        "syntax": "def f(:\n    pass\n",
        "interrupt": "raise KeyboardInterrupt\n",
        "exits": "import sys\nsys.exit(3)\n",
        "exits_with_a_text": "import sys\nsys.exit('the reason')\n",
        "exits_with_none": "raise SystemExit\n",
        "aborts": "import os\nos.abort()\n",
        "ends": "import atexit\natexit.register(print, 'at exit')\nprint('end')\n",
        "own_hook": "import sys\nsys.excepthook = lambda kind, value, trace: print('hook', kind, value, trace.tb_lineno)\n1 / 0\n",
        "in_a_thread": "import threading\nthreading.Thread(target=lambda: 1 / 0).start()\n",
        "group": "raise ExceptionGroup('both', [ValueError(1), TypeError(2)])\n",
        "imports_what_is_not_there": "import json\nimport no_such_module\n",
        "warns": "import warnings\nwarnings.warn('careful')\n",
    }

    def test_are_the_same(self):
        for name, program in self.PROGRAMS.items():
            script = self.write(f"{name}.py", program)
            for flags in ([], ["-m"]) if name in ("raises", "exits_with_a_text") else ([],):
                seen = []
                for how in (["--preload", "json," + MARK], []):
                    logs = self.room / f"logs_{name}_{len(seen)}{len(flags)}"
                    ended = self.run_job(*how, "-r", "3", "--log-dir", logs, *flags, script.stem if flags else script)
                    texts = [re.sub(r"0x[0-9a-f]+|Thread-\d+", "N", file.read_text())
                             for file in sorted(logs.rglob("std*.log"))]
                    seen.append((ended.status, *texts))
                self.assertEqual(seen[1], seen[0], (name, flags))


class Restarts(Case):
    def test_the_script_and_its_modules_are_read_anew(self):
        self.write("helper.py", "WORD = 'old'\n")
        script = self.write("train.py", f"""
            import os, pathlib, sys
            attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
            import helper
            print("before", attempt, helper.WORD, {FORKED})
            if attempt == 0:
                text = pathlib.Path(__file__).read_text()
                pathlib.Path(__file__).write_text(text.replace('"before"', '"after"'))
                pathlib.Path("helper.py").write_text("import fresh\\nWORD = fresh.WORD\\n")
                pathlib.Path("fresh.py").write_text("WORD = 'new'\\n")
                sys.exit(1)
            """)
        ended = self.run_job("--preload", MARK, "--max-restarts", 1, script)
        self.assertEqual((0, ["before 0 old True", "after 1 new True"]), (ended.status, ended.out.splitlines()), ended.err)

    def test_processes_that_workers_leave_behind_are_ended_and_the_server_is_not(self):
        script = self.write("train.py", f"""
            import os, subprocess, sys
            left = subprocess.Popen(["sleep", "1000"], start_new_session=True)
            print({FORKED}, left.pid, flush=True)
            sys.exit(int(os.environ["TORCHELASTIC_RESTART_COUNT"]) < 3)
            """)
        ended = self.run_job("--preload", MARK, "--max-restarts", 3, "--nproc-per-node", 2, script)
        said = [line.split() for line in ended.out.splitlines()]
        self.assertEqual((0, {"True"}), (ended.status, {line[0] for line in said}), ended.err)
        self.assertGreaterEqual(len(said), 5)  # the first to fail ends the other
        self.assertEqual([], [line[1] for line in said if pathlib.Path("/proc", line[1]).exists()])

    def test_draws_differ_between_ranks_and_attempts(self):
        script = self.write("train.py", """
            import os, random, sys, time, multiprocessing
            print(random.random(), multiprocessing.current_process().authkey.hex(), sep="\\n", flush=True)
            attempt, rank = os.environ["TORCHELASTIC_RESTART_COUNT"], int(os.environ["RANK"])
            open(f"printed.{attempt}.{rank}", "w")
            while not os.path.exists(f"printed.{attempt}.{1 - rank}"):
                time.sleep(0.01)
            sys.exit(attempt == "0")
            """)
        ended = self.run_job("--preload", "random,multiprocessing", "--max-restarts", 1, "-r", "1", "--log-dir", "logs",
                             "--nproc-per-node", 2, script)
        self.assertEqual(0, ended.status, ended.err)
        drawn = [line for file in self.room.glob("logs/**/stdout.log") for line in file.read_text().splitlines()]
        self.assertEqual((8, 8), (len(drawn), len(set(drawn))), drawn)


class AsAUserWouldNotExpect(Case):
    """What a trial has found: each of these differed from an executed worker."""

    def same(self, text, *flags, preload="json," + MARK, status=0, **more):
        script = self.write("train.py", text)
        forked = self.run_job("--preload", preload, *flags, script, **more)
        executed = self.run_job(*flags, script, **more)
        self.assertEqual((status, executed.out), (forked.status, forked.out), forked.err)
        self.assertEqual(status, executed.status, executed.err)
        return forked

    def test_classes_of_the_script_come_back_from_processes(self):
        text = """
            import multiprocessing, sys
            class Answer:
                value = 7
            class Problem(Exception):
                pass
            def work(number):
                if number == 2:
                    raise Problem("no")
                return Answer()
            if __name__ == "__main__":
                for method in ("fork", "spawn", "forkserver"):
                    with multiprocessing.get_context(method).Pool(2) as pool:
                        print([one.value for one in pool.map(work, [0, 1])])
                        try:
                            pool.apply(work, (2,))
                        except Problem as problem:
                            print(problem)
            """
        self.same(text, preload="multiprocessing")

    def test_a_module_that_seeds(self):
        self.write("installed/seeds.py", "import random\nrandom.seed(7)\n")
        self.same("import seeds, random\nprint(random.random())\n", preload="seeds")

    def test_a_library_that_reads_its_rank(self):
        """As Lightning's does."""
        self.write("installed/lightning_utilities/core/rank_zero.py", """
            import os
            def rank_zero_only(function):
                return function if rank_zero_only.rank == 0 else lambda: None
            rank_zero_only.rank = int(os.environ.get("RANK", 0))
            """)
        text = """
            import lightning_utilities.core.rank_zero as zero
            zero.rank_zero_only(lambda: print("once"))()
            """
        self.same(text, "--nproc-per-node", "2", preload="lightning_utilities.core.rank_zero")

    def test_a_module_that_keeps_a_file_open(self):
        self.write("installed/reader.py", "file = open(__file__)\n")
        forked = self.same("import reader\nprint(len(reader.file.read()))\n", preload="reader")
        self.assertIn("an import keeps a file open", forked.err)

    def test_a_module_that_changes_paths_and_directories(self):
        self.write("extra/beside.py", "WORD = 'extra'\n")
        self.write("beside.py", "WORD = 'own'\n")
        extra = str(self.room / "extra")
        self.write("installed/paths.py", f"import sys, os\nsys.path.insert(0, {extra!r})\nos.chdir('/')\n")
        self.same("import paths, beside, os, sys\nprint(beside.WORD, os.getcwd(), sys.path)\n", preload="paths")

    def test_a_module_that_reads_stdin(self):
        self.write("installed/curious.py", "import sys\nTEXT = sys.stdin.read()\n")
        ended = self.run_job("--preload", "curious", self.write("train.py", f"import sys\nprint({FORKED})\n"))
        self.assertEqual((0, "False\n"), (ended.status, ended.out), ended.err)

    def test_a_module_that_sets_a_default_timeout(self):
        self.write("installed/impatient.py", "import socket\nsocket.setdefaulttimeout(60)\n")
        script = self.write("train.py", "import os, sys\nprint('impatient' in sys.modules, flush=True)\n"
                                        "sys.exit(os.environ['TORCHELASTIC_RESTART_COUNT'] == '0')\n")
        ended = self.run_job("--preload", "impatient", "--max-restarts", 1, script)
        self.assertEqual((0, "True\nTrue\n"), (ended.status, ended.out), ended.err)

    def test_a_neighbour_with_the_name_of_a_module(self):
        self.write("secrets.py", "KEY = 'mine'\n")
        self.same("import random, tempfile, secrets\nprint(secrets.KEY)\n", preload="secrets")
        (self.room / "secrets.py").unlink()
        self.write("struct_.py", "")
        self.write("ast.py", "WORD = 'mine'\n")
        self.same("import ast\nprint(ast.WORD)\n", preload=MARK)

    def test_an_environment_and_arguments_of_a_megabyte(self):
        script = self.write("train.py", f"import os, sys\nprint(len(os.environ), len(sys.argv), {FORKED})\n")
        many = {f"LARGE_{number}": "x" * 100_000 for number in range(8)}
        ended = self.run_job("--preload", MARK, script, *["y" * 100] * 4000, **many)
        self.assertEqual((0, True), (ended.status, ended.out.endswith(" 4001 True\n")), ended.err)

    def test_what_is_written_though_an_exception_ends_the_script(self):
        text = """
            import gzip
            file = gzip.open("written.gz", "wt")
            file.write("kept")
            raise ValueError
            """
        self.same(text, preload="gzip", status=1)
        self.assertEqual("kept", subprocess.run(["zcat", self.room / "written.gz"], capture_output=True, text=True).stdout)

    def test_a_thread_that_reads_stdin_after_the_last_line(self):
        text = """
            import sys, threading, time
            threading.Thread(target=lambda: (time.sleep(0.3), print(len(sys.stdin.read())))).start()
            """
        with open(__file__) as first, open(__file__) as second:
            script = self.write("train.py", text)
            forked = self.run_job("--preload", MARK, script, stdin=first)
            executed = self.run_job(script, stdin=second)
        self.assertEqual((0, executed.out), (forked.status, forked.out), forked.err)

    def test_a_compiled_script(self):
        script = self.write("train.py", f"import sys\nprint({FORKED})\n")
        subprocess.run([options.python, "-c", "import py_compile, sys; py_compile.compile(sys.argv[1], sys.argv[2])",
                        script, self.room / "train.pyc"], check=True)
        self.assertEqual("True\n", self.run_job("--preload", MARK, self.room / "train.pyc").out)

    def test_a_script_that_sets_variables_before_its_imports(self):
        ended = self.run_job("--preload", "auto", self.write("train.py", """
            import os
            os.environ["OMP_NUM_THREADS"] = "2"
            import numpy
            """))
        self.assertIn("imports no package that is known to be safe before it does something else", ended.err)

    def test_restarts_in_quick_succession(self):
        script = self.write("train.py", f"""
            import os, sys
            if os.environ["RANK"] == "0":
                os.kill(os.getpid(), 9 if int(os.environ["TORCHELASTIC_RESTART_COUNT"]) < 40 else 0)
            print({FORKED}, flush=True)
            """)
        ended = self.run_job("--preload", MARK, "--max-restarts", 50, "--nproc-per-node", 2, script)
        self.assertEqual(0, ended.status, ended.err)
        self.assertNotIn("--preload", ended.err)
        self.assertNotIn("False", ended.out)


class Ends(Case):
    """Nothing of the fork server is left."""

    LONG = "import time\nprint('begun', flush=True)\ntime.sleep(1000)\n"

    def running(self, *flags):
        job = self.start("--preload", MARK, *flags, self.write("train.py", self.LONG))
        self.assertEqual("begun\n", job.stdout.readline())
        return job, descendants(job.pid)

    def assert_gone(self, pids):
        self.until(lambda: not [pid for pid in pids if pathlib.Path(f"/proc/{pid}").exists()], pids)

    def test_when_the_job_is_stopped(self):
        job, below = self.running("--nproc-per-node", 2)
        job.terminate()
        job.wait(PATIENCE_S)
        self.assert_gone(below)

    def test_when_the_agent_is_killed(self):
        job, below = self.running()
        os.kill(below[0], signal.SIGKILL)  # the guard lives on, and ends the rest
        job.wait(PATIENCE_S)
        self.assert_gone(below)

    def test_when_the_guard_is_killed(self):
        job, below = self.running()
        job.kill()
        self.assert_gone(below)

    def test_during_the_imports(self):
        self.write("installed/slow.py", "import time\ntime.sleep(1000)\n")
        job = self.start("--preload", "slow", self.write("train.py", self.LONG))
        self.until(lambda: fork_server_of(job), "no fork server")
        below = descendants(job.pid)
        job.terminate()
        self.assertEqual(143, job.wait(PATIENCE_S))
        self.assert_gone(below)


class CannotServe(Case):
    """Workers are executed, with one line that says why."""

    def assert_executed(self, reason, *flags, script=None, **more):
        script = script or [self.write("train.py", f"import sys\nprint({FORKED})\n")]
        ended = self.run_job("--nproc-per-node", 2, *flags, *script, **more)
        self.assertEqual((0, "False\nFalse\n"), (ended.status, ended.out), ended.err)
        said = [line for line in ended.err.splitlines() if line.startswith("ddprun:")]
        self.assertEqual(1, len(said), ended.err)
        self.assertRegex(said[0], f"--preload.*: {reason}")
        self.assertRegex(said[0], "next: the workers of .* are executed")

    def test_if_an_import_fails(self):
        self.assert_executed("the import of no_such_module fails: ModuleNotFoundError: No module named",
                             "--preload", f"{MARK},no_such_module")
        self.write("installed/bad.py", "import sys\nsys.exit('not today')\n")
        self.assert_executed("the import of bad fails: SystemExit: not today", "--preload", "bad")
        self.write("installed/worse.py", "import os\nos.abort()\n")
        self.assert_executed("it was ended by signal 6.* during its imports", "--preload", "worse")
        self.write("installed/gone.py", "import os\nos._exit(4)\n")
        self.assert_executed("it exited with status 4 during its imports", "--preload", "gone")

    def test_if_an_import_starts_a_thread(self):
        self.write("installed/threaded.py", """
            import threading, time
            threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
            """)
        self.assert_executed("an import started a thread", "--preload", f"{MARK},threaded")

    def test_if_an_import_starts_a_process(self):
        self.write("installed/parent.py", "import subprocess\nchild = subprocess.Popen(['sleep', '1000'])\n")
        self.assert_executed("an import started a process", "--preload", f"{MARK},parent")

    def test_if_the_program_is_no_python_script(self):
        text = f"""#!/bin/sh\nexec "$PYTHON_EXEC" -c "import sys; print({FORKED})"\n"""
        program = self.write("train.sh", text)
        program.chmod(0o755)
        self.assert_executed("the program is no Python script", "--preload", MARK, script=[program])

    def test_if_it_runs_through_another_program(self):
        self.assert_executed("--wrap", "--preload", MARK, "--wrap", "env MARK=%r")

    def test_if_the_script_imports_nothing_that_is_known(self):
        self.assert_executed("the script imports no package that is known", "--preload", "auto")
        self.assert_executed("the script imports no package that is known", "--start-method", "forkserver")

    def test_never_the_users_own_files_by_auto(self):
        self.write("einops.py", "print('mine')\n")
        self.write("installed/tqdm.py", "print('mine too')\n")
        script = self.write("train.py", f"import sys\nimport einops, tqdm\nprint({FORKED})\n")
        ended = self.run_job("--preload", "auto", script)
        self.assertEqual((0, "mine\nmine too\nFalse\n"), (ended.status, ended.out), ended.err)

    def test_once_it_was_killed(self):
        script = self.write("train.py", f"""
            import os, sys, time
            print({FORKED}, flush=True)
            while os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and not os.path.exists("fail"):
                time.sleep(0.01)
            sys.exit(os.environ["TORCHELASTIC_RESTART_COUNT"] == "0")
            """)
        for signal_sent in (signal.SIGKILL, signal.SIGSTOP):
            (self.room / "fail").unlink(missing_ok=True)
            job = self.start("--preload", MARK, "--max-restarts", 1, script)
            self.assertEqual("True\n", job.stdout.readline())
            os.kill(fork_server_of(job), signal_sent)
            if signal_sent == signal.SIGKILL:
                self.assertIn("it was ended by signal 9 (SIGKILL); next: the workers", job.stderr.readline())
            (self.room / "fail").touch()
            out, err = job.communicate(timeout=PATIENCE_S)
            self.assertEqual((0, "False\n"), (job.returncode, out), err)
            if signal_sent == signal.SIGSTOP:
                self.assertEqual(1, err.count("--preload: it does not answer; next: the workers"), err)


class Flags(Case):
    def test_spawn_executes_also_with_preload(self):
        script = self.write("train.py", f"import sys\nprint({FORKED})\n")
        ended = self.run_job("--preload", MARK, "--start-method", "spawn", script)
        self.assertEqual((0, "False\n"), (ended.status, ended.out), ended.err)
        self.assertIn("has no effect", ended.err)

    def test_names_are_checked(self):
        for bad in ("", "a b", "torch;x", "1a", "torch,", ".torch"):
            ended = self.run_job("--preload", bad, "train.py")
            self.assertEqual(2, ended.status, bad)
            self.assertIn("expected auto, or modules", ended.err)

    def test_the_variable_is_the_flag(self):
        script = self.write("train.py", f"import sys\nprint({FORKED})\n")
        self.assertEqual("True\n", self.run_job(script, PET_PRELOAD=MARK).out)

    def test_a_rank_that_waits_for_a_debugger_is_executed(self):
        script = self.write("train.py", f"import os, sys\nprint(os.environ['RANK'], {FORKED}, flush=True)\n")
        job = self.start("--nproc-per-node", 2, "--preload", MARK, "--debug-rank", 1, script)
        pid = int(re.search(r"process (\d+)", job.stderr.readline()).group(1))
        self.assertEqual("0 True\n", job.stdout.readline())
        os.kill(pid, signal.SIGUSR1)
        self.assertEqual("1 False\n", job.communicate(timeout=PATIENCE_S)[0])
        self.assertEqual(0, job.returncode)


@unittest.skipUnless("--torch" in sys.argv, "needs torch")
class Torch(Case):
    def test_a_forked_worker_is_what_an_executed_one_is(self):
        self.assert_equal(SCRIPTS / "know_thyself.py", "torch", preload="numpy,torch", OMP_NUM_THREADS="4")
        self.assert_equal("know_thyself", "torch", flags=["-m"], preload="numpy,torch", cwd=SCRIPTS)

    def test_auto_finds_torch_and_draws_differ_as_they_do_when_executed(self):
        script = self.write("train.py", """
            import gc
            import numpy as np
            import torch.nn as nn
            import torch
            is_warm = gc.get_freeze_count() > 0
            print(is_warm, torch.rand(1).item(), np.random.rand(), torch.initial_seed(), flush=True)
            """)
        drawn = []
        for _ in range(2):
            ended = self.run_job("--nproc-per-node", 3, "--preload", "auto", script)
            self.assertEqual(0, ended.status, ended.err)
            drawn += [line.split() for line in ended.out.splitlines()]
        self.assertEqual({"True"}, {line[0] for line in drawn})
        self.assertEqual([6, 6, 6], [len({line[column] for line in drawn}) for column in (1, 2, 3)], drawn)

    def test_a_gpu_that_an_import_touched(self):
        # As torch.cuda.init() leaves it.
        self.write("installed/greedy.py", "import torch\ntorch.cuda.is_initialized = lambda: True\n")
        script = self.write("train.py", "import sys\nprint('greedy' in sys.modules)\n")
        ended = self.run_job("--preload", "greedy", script)
        self.assertEqual((0, "False\n"), (ended.status, ended.out), ended.err)
        self.assertIn("--preload: an import used a GPU, and a forked process could not; next:", ended.err)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddprun", required=True)
    parser.add_argument("--python", required=True)
    parser.add_argument("--torch", action="store_true")
    parser.parse_known_args(namespace=options)
    rest = parser.parse_known_args()[1]
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
