"""The Python package in a worker: steps of unmodified scripts, what a script reports, and preemption notices.

    steps_test.py --python INTERPRETER_WITH_TORCH [--ddprun PROGRAM] [unittest arguments]

Scripts run in real processes, with the package and its .pth file. The test plays the agent, with ordinary files.
"""

import argparse
import collections
import contextlib
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = ROOT / "python"
EXAMPLE = ROOT / "examples" / "python" / "train.py"
SLOTS = 4
SLOT_BYTES = 128
STACKS = 62

# The slot as docs/worker_contract.md has it, spelled again: the test is not to follow a mistake of the package.
Slot = collections.namedtuple("Slot", "pid steps stepped_at slowest reported busy_until stack_signal step_time text")
FORMAT = "=8q64s"

TRAIN = """
    import os, sys, torch
    def train(steps, optimizer=torch.optim.SGD):
        weight = torch.nn.Parameter(torch.ones(3))
        optimizer = optimizer([weight], lr=0.1)
        for _ in range(steps):
            optimizer.zero_grad()
            weight.sum().backward()
            optimizer.step()
    """

# What the fork server does with the text of the module, before it forks a worker.
FORK_SERVER = f"""
    import os, sys, types
    steps = sys.modules["ddprun._steps"] = types.ModuleType("ddprun._steps")
    exec(compile(open({str(PACKAGES / "ddprun" / "_steps.py")!r}).read(), "<ddprun>", "exec"), steps.__dict__)
    def begin():
        os.environ.update({{name[6:]: value for name, value in os.environ.items() if name.startswith("LATER_")}})
        steps.start()
    """

# A clock that a script sets, in seconds.
CLOCK = """
    import ddprun
    from ddprun import _steps
    now = 1000
    _steps.monotonic_ns = lambda: int(now * 1e9)
    def step(seconds):
        global now
        now += seconds
        _steps.hook_step()
    """

options = argparse.Namespace()


class Case(unittest.TestCase):
    def setUp(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        self.room = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ddprun_test_")))
        file = os.memfd_create("ddprun-steps")
        self.addCleanup(os.close, file)
        self.step_file = pathlib.Path(f"/proc/{os.getpid()}/fd/{file}")
        self.step_file.write_bytes(bytes(SLOTS * SLOT_BYTES))
        self.stack_file = self.room / "stacks"
        self.stack_file.touch()
        self.notice_file = self.room / "notice"
        self.notice_file.touch()
        (self.room / "site").mkdir()
        # PYTHONPATH alone reads no .pth file.
        (self.room / "site" / "sitecustomize.py").write_text(f"import site\nsite.addsitedir({str(PACKAGES)!r})\n")
        self.in_worker = {"DDPRUN_STEP_FILE": str(self.step_file), "LOCAL_RANK": "0"}

    def in_forked_worker(self):
        return {"LATER_" + name: value for name, value in self.in_worker.items()}

    def environment(self, **variables):
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        return {**kept, "PYTHONPATH": str(self.room / "site"), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1",
                "TMPDIR": str(self.room), **variables}

    def write(self, *parts, name="script.py"):
        path = self.room / name
        path.write_text("".join(map(textwrap.dedent, parts)))
        return str(path)

    def start(self, script, *arguments, **variables):
        process = subprocess.Popen(
            [options.python, script, *arguments], env=self.environment(**variables), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # and what it has left behind
        process.communicate()

    def run_parts(self, *parts, status=0, stderr="^$", **variables):
        """What a script wrote to its standard output."""
        return self.finish(self.start(self.write(*parts), **(variables or self.in_worker)), status, stderr)

    def finish(self, process, status=0, stderr="^$"):
        out, errors = process.communicate(timeout=120)
        self.assertEqual(status, process.returncode, errors)
        self.assertRegex(errors, stderr)
        return out

    def slot(self, number=0):
        return Slot._make(struct.unpack_from(FORMAT, self.step_file.read_bytes(), number * SLOT_BYTES))

    def set_slot(self, **values):
        slot = Slot(0, 0, 0, 0, 0, 0, 0, 0, b"")._replace(**values)
        self.step_file.write_bytes(struct.pack(FORMAT, *slot) + bytes((SLOTS - 1) * SLOT_BYTES))


class Steps(Case):
    def test_of_an_unmodified_script(self):
        before = time.monotonic_ns()
        out = self.run_parts(TRAIN, "train(5)\nprint(os.getpid())\n")
        slot = self.slot()
        self.assertEqual(Slot(int(out), 5, slot.stepped_at, slot.slowest, 0, 0, 0, slot.step_time, bytes(64)), slot)
        self.assertTrue(before < slot.stepped_at < time.monotonic_ns(), slot)
        self.assertTrue(0 < slot.step_time <= slot.slowest < slot.stepped_at - before, slot)

    def test_go_to_the_slot_of_the_local_rank_or_to_a_slot_of_their_own(self):
        self.run_parts(TRAIN, "train(2)", **{**self.in_worker, "LOCAL_RANK": "1"})
        self.run_parts(TRAIN, "train(3)", **self.in_worker, DDPRUN_STEP_SLOT="3")
        self.assertEqual([0, 2, 0, 3], [self.slot(number).steps for number in range(SLOTS)])

    def test_of_two_optimizers_count_both(self):
        self.run_parts(TRAIN, "train(2)\ntrain(3, torch.optim.AdamW)\n")
        self.assertEqual(5, self.slot().steps)

    def test_of_an_optimizer_with_a_closure_are_not_its_evaluations(self):
        self.run_parts(TRAIN, """
            weight = torch.nn.Parameter(torch.ones(3))
            optimizer = torch.optim.LBFGS([weight], max_iter=7)
            def loss():
                optimizer.zero_grad()
                value = (weight ** 4).sum()
                value.backward()
                return value
            for _ in range(3):
                optimizer.step(loss)
            """)
        self.assertEqual(3, self.slot().steps)

    def test_of_a_compiled_optimizer(self):
        self.run_parts(TRAIN, """
            weight = torch.nn.Parameter(torch.ones(3))
            weight.grad = torch.ones(3)
            step = torch.compile(torch.optim.SGD([weight], lr=0.1).step, backend="eager")
            for _ in range(4):
                step()
            """, stderr="^(.*will be ignored\n)?$")
        self.assertEqual(4, self.slot().steps)

    def test_count_from_the_first_one_also_if_somebody_has_looked_for_the_module_before(self):
        self.run_parts("import importlib.util\nimportlib.util.find_spec('torch.optim.optimizer')\n", TRAIN, "train(2)")
        self.assertEqual(2, self.slot().steps)

    def test_in_a_process_of_the_fork_server_which_has_imported_torch(self):
        out = self.run_parts(FORK_SERVER, TRAIN, """
            worker = os.fork()
            if worker == 0:
                begin()
                train(2)
                import ddprun
                assert ddprun._steps is steps
                ddprun.report_progress(9)
                sys.exit()
            print(worker)
            sys.exit(os.waitpid(worker, 0)[1])
            """, **self.in_forked_worker())
        slot = self.slot()
        self.assertEqual((int(out), 2, 10), (slot.pid, slot.steps, slot.reported))

    def test_in_a_process_of_the_fork_server_that_has_no_package(self):
        self.run_parts(FORK_SERVER, TRAIN, f"""
            sys.path.remove({str(PACKAGES)!r})
            begin()
            train(2)
            try:
                import ddprun
            except ModuleNotFoundError:
                sys.exit()
            sys.exit("there is one")
            """, **self.in_forked_worker())
        self.assertEqual(2, self.slot().steps)

    def test_have_a_slowest_one_of_the_last_64_to_128(self):
        out = self.run_parts(CLOCK, """
            def shown(*gaps):
                for gap in gaps:
                    step(gap)
                return _steps.numbers[_steps.SLOWEST] / 1e9
            print(shown(100), shown(1, 9, 2), shown(*[1] * 61), shown(*[1] * 63), shown(1, 3))
            """)
        self.assertEqual("0.0 9.0 9.0 9.0 3.0\n", out)

    def test_have_a_mean_in_which_the_newest_count_most(self):
        out = self.run_parts(CLOCK, """
            def mean(*gaps):
                for gap in gaps:
                    step(gap)
                return round(_steps.numbers[_steps.STEP_TIME] / 1e9, 2)
            print(mean(100), mean(2, 2, 2), mean(10), mean(*[10] * 100))
            """)
        self.assertEqual("0.0 2.0 3.0 10.0\n", out)

    def test_are_not_slow_if_a_pause_was_announced(self):
        out = self.run_parts(CLOCK, """
            step(1)
            step(2)
            with ddprun.busy("evaluating", 500):
                now += 300
            step(1)
            step(3)
            print(_steps.numbers[_steps.SLOWEST] / 1e9)
            """)
        self.assertEqual("3.0\n", out)


class OtherProcesses(Case):
    """Only one of a worker's processes counts."""

    LOADER = """
        class Samples(torch.utils.data.Dataset):
            def __len__(self):
                return 8
            def __getitem__(self, index):
                return torch.tensor([float(os.getpid())])
        if __name__ == "__main__":
            loader = torch.utils.data.DataLoader(Samples(), num_workers=2, multiprocessing_context={!r})
            train(1)
            pids = {{int(pid) for pid in loader}}
            train(2)
            print(os.getpid(), len(pids))
        """

    def test_of_a_data_loader_disturb_nothing(self):
        for context in ("fork", "spawn", "forkserver"):
            with self.subTest(context):
                self.set_slot()
                out = self.run_parts(TRAIN, self.LOADER.format(context))
                self.assertEqual(f"{self.slot().pid} 2\n", out)
                self.assertEqual(3, self.slot().steps)

    def test_below_a_launcher_take_the_slot_over_at_their_first_step(self):
        trainer = self.write(TRAIN, "train(2)\nprint(os.getpid(), flush=True)\ntrain(1)\n", name="trainer.py")
        out = self.run_parts(TRAIN, f"""
            import subprocess
            subprocess.run([sys.executable, {trainer!r}], check=True)
            train(1)
            """)
        # A process that has ended gives the slot back.
        self.assertNotEqual(int(out), self.slot().pid)
        self.assertEqual(4, self.slot().steps)

    def test_below_a_launcher_keep_the_slot_while_they_live(self):
        trainer = self.write(TRAIN, "train(2)\nprint(os.getpid(), flush=True)\nsys.stdin.read()\n", name="trainer.py")
        out = self.run_parts(TRAIN, f"""
            import subprocess
            trainer = subprocess.Popen([sys.executable, {trainer!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            pid = trainer.stdout.readline()
            train(5)
            print(pid.decode(), end="")
            trainer.communicate()
            """)
        self.assertEqual((int(out), 2), self.slot()[:2])

    def test_do_not_take_it_from_one_that_has_made_a_step(self):
        child = self.write(TRAIN, "train(5)", name="child.py")
        out = self.run_parts(TRAIN, f"""
            import subprocess
            train(2)
            subprocess.run([sys.executable, {child!r}], check=True)
            print(os.getpid())
            """)
        self.assertEqual((int(out), 2), self.slot()[:2])

    def test_take_it_from_one_that_has_ended(self):
        ended = subprocess.Popen(["true"])
        ended.wait()
        self.set_slot(pid=ended.pid, steps=3)
        out = self.run_parts(TRAIN, "print(os.getpid())\ntrain(2)\n")
        self.assertEqual((int(out), 5), self.slot()[:2])

    FORK = """
        def fork(steps):
            child = os.fork()
            if child == 0:
                train(steps)
                os._exit(0)
            os.waitpid(child, 0)
            return child
        """

    def test_that_a_process_forks_do_not_count(self):
        out = self.run_parts(TRAIN, self.FORK, "train(2)\nfork(5)\ntrain(1)\nprint(os.getpid())\n")
        self.assertEqual((int(out), 3), self.slot()[:2])

    def test_that_a_launcher_forks_take_the_slot_over(self):
        out = self.run_parts(TRAIN, self.FORK, "print(fork(5))")
        self.assertEqual((int(out), 5), self.slot()[:2])


class Script(Case):
    """What a script sees of all this: nothing."""

    SHOW = """
        import sys
        import torch.optim.optimizer as module
        print(module.__loader__ is module.__spec__.loader, type(module.__loader__).__name__, vars(module.__loader__))
        print([repr(finder).partition(" at ")[0] for finder in sys.meta_path], sorted(vars(module)))
        """

    def test_finds_the_modules_and_finders_of_python(self):
        as_worker = self.run_parts(self.SHOW)
        self.assertEqual(self.run_parts(self.SHOW, LOCAL_RANK="0"), as_worker)

    def test_runs_as_ever_if_the_file_is_unusable(self):
        short = self.room / "short"
        short.write_bytes(bytes(SLOT_BYTES - 1))
        broken = [{"DDPRUN_STEP_FILE": str(path), "LOCAL_RANK": "0"} for path in (short, self.room, "/no/file", "")]
        broken += [{**self.in_worker, "LOCAL_RANK": rank} for rank in ("4", "-1", "x", "")]
        broken += [{"DDPRUN_STEP_FILE": str(self.step_file)}]
        for variables in broken:
            with self.subTest(variables):
                out = self.run_parts("""
                    import sys, ddprun
                    ddprun.report_progress(1)
                    with ddprun.busy("saving", 1):
                        print(sys.meta_path)
                    """, **variables)
                self.assertNotIn("_steps", out)
        self.assertEqual(bytes(SLOTS * SLOT_BYTES), self.step_file.read_bytes())

    def test_runs_as_ever_without_torch(self):
        out = self.run_parts("""
            import sys
            sys.path = [path for path in sys.path if "site-packages" not in path]
            try:
                import torch.optim.optimizer
            except ModuleNotFoundError as error:
                print(error)
            """)
        self.assertEqual("No module named 'torch'\n", out)

    def test_runs_as_ever_with_a_torch_that_is_different(self):
        """Version 1 has no such function."""
        package = self.room / "torch" / "optim"
        package.mkdir(parents=True)
        (package.parent / "__init__.py").touch()
        (package / "__init__.py").touch()
        for text in ("", "def register_optimizer_step_post_hook():\n    pass\n", "raise OSError('no such library')\n"):
            with self.subTest(text):
                (package / "optimizer.py").write_text(text)
                out = self.run_parts("""
                    try:
                        import torch.optim.optimizer as module
                        print("there")
                    except OSError as error:
                        print(error)
                    """)
                self.assertEqual("no such library\n" if "raise" in text else "there\n", out)

    def test_is_not_slowed_by_the_import_of_the_package(self):
        out = self.run_parts("""
            import ddprun, sys
            print([name for name in ("torch", "signal", "socket", "enum") if name in sys.modules])
            """, LOCAL_RANK="0")
        self.assertEqual("[]\n", out)


class Api(Case):
    def test_report_progress_counts_as_a_step_and_shows_its_number(self):
        self.run_parts("""
            import ddprun
            for step in 5, 6, 7:
                ddprun.report_progress(step)
            """)
        slot = self.slot()
        self.assertEqual((3, 8), (slot.steps, slot.reported))

    def test_report_progress_does_not_count_twice_what_an_optimizer_has_counted(self):
        self.run_parts(TRAIN, """
            import ddprun
            for step in range(10, 14):
                train(1)
                ddprun.report_progress(torch.tensor(step))
            """)
        slot = self.slot()
        self.assertEqual((4, 14), (slot.steps, slot.reported))

    def test_busy_announces_until_its_end(self):
        out = self.run_parts(CLOCK, """
            def shown():
                return bytes(_steps.text).rstrip(b"\\0").decode(), _steps.numbers[_steps.BUSY_UNTIL] / 1e9
            ddprun.busy("loading", 600)
            print(*shown())
            with ddprun.busy("saving", 60):
                print(*shown())
                now += 5
            print(*shown())
            ddprun.busy("", 0)
            with ddprun.busy("evaluating", 0.5):
                now += 0.25
            print(*shown())
            """)
        self.assertEqual("loading 1600.0\nsaving 1060.0\nloading 1600.0\nevaluating 1005.25\n", out)

    def test_busy_cuts_a_text_between_characters(self):
        self.run_parts("import ddprun\nddprun.busy('x' + 'é' * 40, 1)\n")
        self.assertEqual(b"x" + "é".encode() * 31 + b"\0", self.slot().text)
        self.run_parts("import ddprun\nddprun.busy('é' * 40, 1)\n")
        self.assertEqual("é".encode() * 31 + b"\0\0", self.slot().text)

    def test_wrong_arguments_are_named(self):
        calls = {"report_progress('7')": "TypeError", "report_progress(7.0)": "TypeError",
                 "report_progress(-1)": "ValueError", "report_progress(9223372036854775807)": "ValueError",
                 "busy(5, 1)": "TypeError", "busy('saving', '1')": "TypeError", "busy('saving', None)": "TypeError",
                 "busy('saving', -1)": "ValueError", "busy('saving', nan)": "ValueError",
                 "busy('saving', inf)": "ValueError"}
        for variables in (self.in_worker, {"LOCAL_RANK": "0"}):
            out = self.run_parts(f"""
                import ddprun
                from math import inf, nan
                for call in {list(calls)!r}:
                    try:
                        eval("ddprun." + call)
                    except (TypeError, ValueError) as error:
                        print(type(error).__name__, str(error).split(":")[0])
                """, **variables)
            self.assertEqual([f"{error} {call}" for call, error in calls.items()], out.splitlines())

    def test_does_nothing_without_ddprun(self):
        self.assertEqual("False\n", self.run_parts("""
            import ddprun
            ddprun.report_progress(7)
            ddprun.busy("loading", 60)
            with ddprun.busy("saving", 60), ddprun.PreemptionNotice() as notice:
                print(ddprun.preempted() or notice.should_stop())
            """, LOCAL_RANK="0"))

    def test_preempted_once_the_file_tells(self):
        self.assertEqual("False True True\n", self.run_parts("""
            import ddprun, os
            first = ddprun.preempted()
            with open(os.environ["DDPRUN_NOTICE_FILE"], "w") as file:
                file.write("{}\\n")
            second = ddprun.preempted()
            os.unlink(file.name)
            print(first, second, ddprun.preempted())
            """, DDPRUN_NOTICE_FILE=str(self.notice_file)))


class Stacks(Case):
    def setUp(self):
        super().setUp()
        self.in_worker["DDPRUN_STACK_FILE"] = str(self.stack_file)

    def test_of_all_threads_are_written_at_the_signal(self):
        process = self.start(self.write("""
            import sys, threading
            def wait_in_thread():
                event.wait()
            def wait_for_end():
                print("ready", flush=True)
                threading.Event().wait()
            event = threading.Event()
            threading.Thread(target=wait_in_thread, daemon=True).start()
            wait_for_end()
            """), **self.in_worker)
        process.stdout.readline()
        self.assertEqual((process.pid, STACKS), (self.slot().pid, self.slot().stack_signal))
        process.send_signal(STACKS)
        self.wait_for_stacks("in <module>")
        for name in ("in wait_in_thread", "in wait_for_end", "most recent call first"):
            self.assertIn(name, self.stack_file.read_text())
        self.assertIsNone(process.poll())

    def wait_for_stacks(self, text):
        deadline = time.monotonic() + 30
        while text not in self.stack_file.read_text():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def test_are_those_of_a_process_that_took_the_slot_over(self):
        trainer = self.write(TRAIN, """
            train(1)
            print(os.getpid(), flush=True)
            import time
            time.sleep(1000)
            """, name="trainer.py")
        process = self.start(self.write(f"""
            import subprocess, sys
            subprocess.run([sys.executable, {trainer!r}])
            """), **self.in_worker)
        trainer = int(process.stdout.readline())
        self.assertEqual((trainer, STACKS), (self.slot().pid, self.slot().stack_signal))
        os.kill(trainer, STACKS)
        self.wait_for_stacks("trainer.py")

    def test_are_no_longer_promised_after_an_exec_without_a_file_for_them(self):
        self.run_parts("""
            import os, sys
            if os.environ.pop("DDPRUN_STACK_FILE", None):
                os.execv(sys.executable, [sys.executable, __file__])
            """)
        self.assertNotEqual(0, self.slot().pid)
        self.assertEqual(0, self.slot().stack_signal)

    def test_leave_a_handler_alone_that_is_there_already(self):
        self.assertEqual("62\n0\n", self.run_parts(FORK_SERVER, """
            import signal
            signal.signal(62, lambda number, _: print(number))
            begin()
            os.kill(os.getpid(), 62)
            print(steps.numbers[steps.STACK_SIGNAL])
            """, **self.in_forked_worker()))


class Notice(Case):
    LOOP = """
        import ddprun, os, signal, sys, time
        def loop():
            with ddprun.PreemptionNotice() as notice:
                print("ready", flush=True)
                while not notice.should_stop():
                    time.sleep(0.01)
            print("saved", flush=True)
            time.sleep(0.1)
            sys.exit(ddprun.EXIT_PREEMPTED)
        """

    def start_loop(self, *parts, **variables):
        process = self.start(self.write(self.LOOP, *(parts or ["loop()"])), **variables)
        self.assertEqual("ready\n", process.stdout.readline())
        return process

    def test_of_each_signal_stops_a_loop_without_ddprun(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
            with self.subTest(number):
                process = self.start_loop()
                process.send_signal(number)
                self.assertEqual("saved\n", process.stdout.readline())
                process.send_signal(signal.SIGTERM)  # must not change the exit status
                self.finish(process, 75)

    def test_of_a_second_sigint_interrupts(self):
        self.run_parts("""
            import ddprun, os, signal
            with ddprun.PreemptionNotice():
                os.kill(os.getpid(), signal.SIGINT)
                print("first", flush=True)
                os.kill(os.getpid(), signal.SIGINT)
            """, status=-signal.SIGINT, stderr="KeyboardInterrupt")

    def test_that_has_not_come_leaves_the_handlers_as_they_were(self):
        for variables in ({"LOCAL_RANK": "0"}, {"DDPRUN_NOTICE_FILE": str(self.notice_file)}):
            self.run_parts("""
                import ddprun, signal
                signal.signal(signal.SIGUSR2, signal.SIG_IGN)
                numbers = signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2
                before = [signal.getsignal(number) for number in numbers]
                with ddprun.PreemptionNotice():
                    within = [signal.getsignal(number) for number in numbers]
                assert before == [signal.getsignal(number) for number in numbers]
                assert [a == b for a, b in zip(before, within)] == [False, False, False, True]
                assert signal.set_wakeup_fd(-1) == -1
                """, **variables)

    def test_under_ddprun_is_what_the_file_tells(self):
        process = self.start_loop(DDPRUN_NOTICE_FILE=str(self.notice_file))
        process.send_signal(signal.SIGUSR1)  # somebody else's
        self.notice_file.write_text("{}\n")
        process.send_signal(signal.SIGTERM)
        self.assertEqual("saved\n", self.finish(process, 75))

    def test_in_a_slurm_step_may_come_before_the_file_tells(self):
        process = self.start_loop(DDPRUN_NOTICE_FILE=str(self.notice_file), SLURM_STEP_ID="0")
        process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        self.notice_file.write_text("{}\n")
        self.assertEqual("saved\n", self.finish(process, 75))

    def test_is_not_a_sigterm_because_another_worker_failed_even_if_the_main_thread_waits_for_that_one(self):
        process = self.start_loop("""
            import ctypes
            with ddprun.PreemptionNotice():
                print("ready", flush=True)
                libc, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)
                libc.pthread_mutex_lock(mutex)
                libc.pthread_mutex_lock(mutex)  # waits forever, and no signal handler of Python's can run
            """, DDPRUN_NOTICE_FILE=str(self.notice_file))
        time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        self.finish(process, -signal.SIGTERM)

    def test_is_read_from_the_file_in_another_thread(self):
        process = self.start_loop("""
            import threading
            thread = threading.Thread(target=loop)
            thread.start()
            thread.join()
            """, DDPRUN_NOTICE_FILE=str(self.notice_file))
        self.notice_file.write_text("{}\n")
        self.assertEqual("saved\n", self.finish(process))

    def test_is_not_for_forked_processes_which_end_by_sigterm(self):
        for variables in ({"LOCAL_RANK": "0"}, {"DDPRUN_NOTICE_FILE": str(self.notice_file)}):
            self.run_parts("""
                import ddprun, multiprocessing, time
                with ddprun.PreemptionNotice() as notice:
                    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=[1000], daemon=True)
                    child.start()
                    child.terminate()
                    child.join()
                    time.sleep(0.1)  # for a thread that would take the child's signal for its own
                    assert child.exitcode == -15 and not notice.should_stop()
                """, **variables)

    def test_stops_two_ranks_at_the_same_step(self):
        """The ranks see signals at different steps, or one sees none, in 20 loops."""
        script = self.write("""
            import ddprun, os, random, signal, sys
            import torch.distributed as dist
            from ddprun import _preemption
            rank = int(os.environ["RANK"])
            dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=rank, world_size=2)
            for seed in range(20):
                told_at = random.Random(seed).sample(range(30), 2)
                if seed % 2:
                    told_at[seed // 2 % 2] = None
                dist.barrier()
                _preemption.has_come = False
                with ddprun.PreemptionNotice() as notice:
                    for step in range(30):
                        if step == told_at[rank]:
                            os.kill(os.getpid(), signal.SIGTERM)
                        if notice.should_stop():
                            break
                print(step, min(at for at in told_at if at is not None))
            dist.destroy_process_group()
            """)
        ranks = [self.start(script, str(self.room / "store"), RANK=str(rank), GLOO_SOCKET_IFNAME="lo")
                 for rank in range(2)]
        for rank in ranks:
            lines = self.finish(rank).splitlines()
            self.assertEqual(20, len(lines))
            for line in lines:
                stopped_at, told_at = line.split()
                self.assertEqual(told_at, stopped_at)


class Example(Case):
    def setUp(self):
        super().setUp()
        self.variables = {"SNAPSHOT": str(self.room / "snapshot.pt"), "CUDA_VISIBLE_DEVICES": ""}

    def start_example(self, **variables):
        return self.start(str(EXAMPLE), **self.variables, **variables)

    def test_saves_at_a_notice_and_resumes_in_one_process(self):
        first = self.start_example()
        first.stdout.readline()
        first.send_signal(signal.SIGTERM)
        saved = self.last_step(self.finish(first, 75))
        steps = self.steps(self.finish(self.start_example()))
        self.assertEqual(saved // 100 * 100 + 99 if saved % 100 != 99 else saved + 100, steps[0])
        self.assertEqual(1999, steps[-1])

    def test_stops_both_ranks_at_a_notice_to_one(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = str(server.getsockname()[1])
        ranks = [self.start_example(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                                    MASTER_PORT=port, GLOO_SOCKET_IFNAME="lo") for rank in range(2)]
        ranks[0].stdout.readline()
        ranks[1].send_signal(signal.SIGUSR1)
        saved = self.last_step(self.finish(ranks[0], 75))
        self.finish(ranks[1], 75)
        self.assertLess(saved, 1999)

    @staticmethod
    def steps(out):
        return [int(step) for step in re.findall(r"^step (\d+): loss .*, saved$", out, re.M)]

    def last_step(self, out):
        return self.steps(out)[-1]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True, metavar="INTERPRETER_WITH_TORCH")
    parser.add_argument("--ddprun", metavar="PROGRAM")
    _, rest = parser.parse_known_args(namespace=options)
    unittest.main(argv=[sys.argv[0], *rest])
