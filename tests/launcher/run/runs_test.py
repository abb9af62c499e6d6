"""How ddprun starts workers and runs: --wrap, --grid, --debug-rank, --independent, the header.

    runs_test.py --ddprun PATH [unittest arguments]
"""

import argparse
import glob
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

options = argparse.Namespace()
PATIENCE_S = 60  # for a broken build to fail and not to hang; no test depends on it
MINE = ("PET_", "SLURM_", "DDPRUN_", "CUDA_VISIBLE", "LOGLEVEL", "GIT_COMMIT")


class Case(unittest.TestCase):
    def setUp(self):
        self.room = tempfile.mkdtemp(prefix="ddprun_runs_")
        self.addCleanup(shutil.rmtree, self.room, ignore_errors=True)

    def start(self, *words, **variables):
        kept = {k: v for k, v in os.environ.items() if not k.startswith(MINE)}
        job = subprocess.Popen(
            [options.ddprun, *words], cwd=self.room, env={**kept, "TMPDIR": self.room, **variables},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True)
        self.addCleanup(self.clean_up, job)
        return job

    @staticmethod
    def clean_up(job):
        job.kill()
        job.communicate(timeout=PATIENCE_S)

    def end_of(self, job):
        out, err = job.communicate(timeout=PATIENCE_S)
        return argparse.Namespace(status=job.returncode, lines=sorted(out.splitlines()), err=err)

    def run_job(self, *words, **variables):
        return self.end_of(self.start(*words, **variables))

    def sh(self, script, *flags, arguments=(), **variables):
        return self.run_job(*flags, "--no-python", "sh", "-c", script, "sh", *arguments, **variables)

    def assert_refused(self, ended, status, *parts):
        self.assertEqual((status, 1, []), (ended.status, ended.err.count("\n"), ended.lines), ended.err)
        for part in parts:
            self.assertIn(part, ended.err)


class CrashOnStart(Case):
    """Of 2 workers, within 5 s of their start."""

    def attempts(self, script, *flags):
        """The text after each failure, and the exit status of the job."""
        ended = self.sh(script, "--nproc-per-node=2", *flags)
        return re.findall(r"^  next: (.*)$", ended.err, re.M), ended.status

    def crash(self, script, *flags):
        with open(os.path.join(self.room, "train.py"), "w") as file:
            file.write(script)
        return self.run_job(*flags, "train.py", PYTHON_EXEC=sys.executable)

    def test_the_restarts_wait_longer_and_longer_and_say_why(self):
        began = time.monotonic()
        told, status = self.attempts("exit 3", "--max-restarts=5")
        self.assertEqual(3, status)
        self.assertEqual("restarting all 2 workers (restart 1 of 5)", told[0])
        for failed, pause in ((2, 1), (3, 2), (4, 4), (5, 8)):
            self.assertTrue(told[failed - 1].startswith(
                f"restarting all 2 workers in {pause} s (restart {failed} of 5), since {failed} attempts in a "
                "row failed soon after their start; that is unlikely to help: "), told)
        self.assertEqual("the 5 restarts of --max-restarts are used up; ddprun ends with this worker's status, 3",
                         told[5])
        self.assertGreaterEqual(time.monotonic() - began, 15)

    def test_forty_kills_in_a_row_are_restarted_without_a_pause(self):
        told, status = self.attempts("kill -KILL $$", "--max-restarts=40")
        self.assertEqual(128 + signal.SIGKILL, status)
        self.assertEqual([f"restarting all 2 workers (restart {n} of 40)" for n in range(1, 41)], told[:40])

    def test_an_attempt_that_is_killed_ends_the_row(self):
        told, _ = self.attempts("test $TORCHELASTIC_RESTART_COUNT != 1 || kill -KILL $$; exit 3", "--max-restarts=4")
        self.assertEqual([f"restarting all 2 workers (restart {n} of 4)" for n in (1, 2, 3)], told[:3])
        self.assertIn("in 1 s (restart 4 of 4), since 2 attempts in a row", told[3])

    def test_a_typo_ends_after_two_attempts_where_restarts_need_progress(self):
        ended = self.crash("improt torch\n", "--max-restarts=9", "--restart-policy=progress")
        self.assertEqual((1, 2), (ended.status, ended.err.count("\nSyntaxError")), ended.err)
        self.assertIn("next: nothing (--restart-policy progress), since the last two attempts ended alike, with status "
                      "1 before any worker had reached the store; ddprun ends with this worker's status, 1", ended.err)

    def test_numbers_do_not_make_another_place(self):
        ended = self.crash("import os\nattempt = int(os.environ['TORCHELASTIC_RESTART_COUNT'])\n"
                           "raise OSError(f'no answer after {attempt}.{os.getpid()} s from {object()}')\n",
                           "--max-restarts=9", "--restart-policy=progress")
        self.assertEqual((1, 2), (ended.status, ended.err.count("\nOSError: no answer after ")), ended.err)

    def test_another_mistake_with_the_same_status_is_progress(self):
        ended = self.crash("import os\nattempt = int(os.environ['TORCHELASTIC_RESTART_COUNT'])\n"
                           "if attempt == 0: raise OSError('no such licence')\n"
                           "if attempt == 1: raise ValueError('no such file')\n",
                           "--max-restarts=9", "--restart-policy=progress")
        self.assertEqual(0, ended.status, ended.err)
        self.assertNotIn("unlikely to help", ended.err)

    def test_one_that_reached_the_store_may_do_better_the_next_time(self):
        ended = self.crash(self.MEETS + "raise ValueError('bad luck')\n", "--max-restarts=2", "--restart-policy=progress")
        self.assertEqual((1, 3), (ended.status, ended.err.count("\nValueError: bad luck\n")), ended.err)
        self.assertNotIn("unlikely to help", ended.err)

    # As a client of the store begins.
    MEETS = """import os, socket, struct
store = socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))
store.sendall(struct.pack("<BI", 0, 0x3C85F7CE) + struct.pack("<BI", 13, 7))
assert len(store.recv(4)) == 4
"""

    # As Python does in init_process_group: its handler of SIGTERM does not run while it waits.
    WAITS = """import os, signal, socket, struct
signal.signal(signal.SIGTERM, signal.SIG_IGN)
store = socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))
store.sendall(struct.pack("<BI", 0, 0x3C85F7CE) + struct.pack("<BQQ", 6, 1, 4) + b"init")
open("waits", "w").close()
assert store.recv(1) == b"", "an answer"
print("the wait has ended", flush=True)
"""

    def test_those_that_wait_for_one_that_was_killed_are_told(self):
        ended = self.crash("import os, signal, time\n"
                           "if os.environ['RANK'] == '1':\n"
                           "    while not os.path.exists('waits'): time.sleep(0.01)\n"
                           "    os.kill(os.getpid(), signal.SIGKILL)\n" + self.WAITS,
                           "--nproc-per-node=2", "--shutdown-timeout=60")
        self.assertEqual(128 + signal.SIGKILL, ended.status, ended.err)
        self.assertIn("the wait has ended", ended.lines, ended.err)

    def test_a_signal_ends_a_pause(self):
        job = self.start("--max-restarts=99", "--no-python", "sh", "-c", "exit 3")
        while "in 16 s" not in job.stderr.readline():
            self.assertIsNone(job.poll())
        job.send_signal(signal.SIGINT)
        self.assertEqual(128 + signal.SIGINT, self.end_of(job).status)


class Wrap(Case):
    def test_each_rank_is_run_by_its_own(self):
        ended = self.sh('echo "$RANK $MARK $1"', "--nproc-per-node=2", "--rdzv-id=77",
                        "--wrap", "env 'MARK=%n_%r of %w in %j'", arguments=["a %r b"])
        self.assertEqual((0, ["0 0_0 of 2 in 77 a %r b", "1 0_1 of 2 in 77 a %r b"]),
                         (ended.status, ended.lines), ended.err)

    def test_one_that_is_not_there_is_refused(self):
        self.assert_refused(self.sh("echo up", "--wrap", "no_such_program %r"), 127,
                            "--wrap: program 'no_such_program' is not on PATH")
        self.assert_refused(self.sh("echo up", "--wrap", "env %x"), 2, "unknown placeholder '%x'")


class Grid(Case):
    def setUp(self):
        super().setUp()
        with open(os.path.join(self.room, "grid.txt"), "w") as file:
            file.write("# of three\nprintf first\nprintf 'the second'\nprintf third 2>no\n")

    def row(self, task, *arguments):
        """The arguments that the program gets, which only prints them."""
        with open(os.path.join(self.room, "say.sh"), "w") as file:
            file.write('#!/bin/sh\nfor word; do echo "$((i += 1)) $word"; done\n')
        os.chmod(os.path.join(self.room, "say.sh"), 0o755)
        return self.run_job("--grid", "grid.txt", "./say.sh", *arguments, SLURM_ARRAY_TASK_ID=task)

    def test_task_3_takes_the_third_row(self):
        self.assertEqual(["1 printf", "2 third", "3 2>no"], self.row("3").lines)

    def test_the_command_line_comes_last(self):
        self.assertEqual(["1 printf", "2 the second", "3 mine"], self.row("2", "mine").lines)

    def test_a_row_that_is_not_there_is_refused(self):
        self.assert_refused(self.row("4"), 78, "--grid 'grid.txt': row 4 does not exist; the file has 3 rows")
        self.assert_refused(self.row("0"), 2, "rows are counted from 1")
        self.assert_refused(self.row(""), 2, "SLURM_ARRAY_TASK_ID is not set")

    def test_a_file_that_is_not_there_is_refused(self):
        ended = self.run_job("--grid", "none.txt", "sh", SLURM_ARRAY_TASK_ID="1")
        self.assert_refused(ended, 78, "--grid: none.txt: No such file")


class DebugRank(Case):
    def start_waiting(self, *flags):
        """A job whose rank 1 waits; the job and the number of that process."""
        job = self.start("--nproc-per-node=2", "--debug-rank=1", *flags, "--no-python", "sh", "-c",
                         "echo $RANK $$")
        self.assertTrue(select.select([job.stderr], [], [], PATIENCE_S)[0])
        line = job.stderr.readline()
        told = re.fullmatch(r"ddprun: rank 1 is process (\d+) on \S+; attach, then kill -USR1 \1\n", line)
        self.assertTrue(told, line)
        return job, int(told[1])

    def test_it_begins_when_it_is_told(self):
        job, pid = self.start_waiting()
        zero = job.stdout.readline()
        os.kill(pid, signal.SIGUSR1)
        ended = self.end_of(job)
        self.assertEqual((0, "0", [f"1 {pid}"]), (ended.status, zero.split()[0], ended.lines), ended.err)

    def test_it_holds_no_socket_of_ours_while_it_waits(self):
        _, pid = self.start_waiting()
        # It closes them before its pid is printed: ddprun notices the process by this.
        self.assertLessEqual({int(name) for name in os.listdir(f"/proc/{pid}/fd")}, {0, 1, 2})

    def test_a_stop_ends_it(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            job, pid = self.start_waiting()
            job.send_signal(number)
            self.assertEqual(128 + number, self.end_of(job).status)
            self.assertRaises(ProcessLookupError, os.kill, pid, 0)

    def test_a_notice_by_the_signal_it_waits_for_ends_it(self):
        job, pid = self.start_waiting("--forward-signal=SIGUSR1")
        job.send_signal(signal.SIGTERM)
        ended = self.end_of(job)
        self.assertEqual(128 + signal.SIGTERM, ended.status, ended.err)
        self.assertFalse([line for line in ended.lines if line.startswith("1 ")])

    def test_a_signal_to_the_job_is_not_its_signal(self):
        job, pid = self.start_waiting()
        job.send_signal(signal.SIGUSR1)
        job.send_signal(signal.SIGTERM)
        self.assertFalse([line for line in self.end_of(job).lines if line.startswith("1 ")])

    def test_a_rank_that_is_not_there_is_refused(self):
        self.assert_refused(self.sh("echo up", "--debug-rank=1"), 2, "--debug-rank '1'",
                            "there are ranks 0 to 0")


class Independent(Case):
    SAY = 'echo "$DDPRUN_TASK_ID of $WORLD_SIZE: $RANK $LOCAL_RANK $TORCHELASTIC_RUN_ID"'

    def test_each_is_a_world_of_its_own(self):
        ended = self.sh(self.SAY, "--independent=3", "--rdzv-id=pack")
        self.assertEqual((0, [f"{task} of 1: 0 0 pack_task{task}" for task in range(3)], ""),
                         (ended.status, ended.lines, ended.err))

    def test_each_has_a_device_and_a_port_of_its_own(self):
        ended = self.sh("echo $DDPRUN_TASK_ID $CUDA_VISIBLE_DEVICES; echo port $MASTER_PORT",
                        "--independent=2", CUDA_VISIBLE_DEVICES="4,GPU-b")
        self.assertEqual(["0 4", "1 GPU-b"], ended.lines[:2])
        self.assertEqual(2, len(set(ended.lines[2:])))

    def test_tasks_of_an_array_continue_counting(self):
        ended = self.sh(self.SAY, "--independent=2", "--rdzv-id=p", SLURM_ARRAY_TASK_ID="2")
        self.assertEqual(["4", "5"], [line.split()[0] for line in ended.lines])

    def test_each_takes_a_row_of_the_grid(self):
        with open(os.path.join(self.room, "grid.txt"), "w") as file:
            file.write("a\nb\nc\nd\n")
        flags = ("--independent=2", "--grid=grid.txt")
        for variables, expected in (({}, ["a", "b"]), ({"SLURM_ARRAY_TASK_ID": "2"}, ["c", "d"])):
            ended = self.run_job(*flags, "--no-python", "echo", **variables)
            self.assertEqual((0, expected), (ended.status, ended.lines), ended.err)
        refused = self.run_job(*flags, "--no-python", "echo", SLURM_ARRAY_TASK_ID="3")
        self.assert_refused(refused, 78, "row 5 does not exist")

    def test_one_that_fails_ends_no_other_and_gives_the_status(self):
        ears = os.path.join(self.room, "ears")
        os.mkfifo(ears)
        # Task 1 has failed, and its job is over, when task 0 is told to end.
        job = self.start("--independent=2", "--no-python", "sh", "-c",
                         '[ $DDPRUN_TASK_ID = 0 ] || exit 3; read -r _ <"$0"; echo done', ears)
        said = ""
        while "next: ddprun ends" not in said:
            said += job.stderr.readline()
        with open(ears, "w") as ear:
            ear.write("\n")
        ended = self.end_of(job)
        self.assertEqual((3, ["done"]), (ended.status, ended.lines))
        self.assertIn("ddprun: of 2 jobs side by side task 1 exited with status 3; exit status 3\n",
                      ended.err)

    def test_a_restart_is_its_own(self):
        ended = self.sh('echo $DDPRUN_TASK_ID $TORCHELASTIC_RESTART_COUNT; '
                        'exit $((DDPRUN_TASK_ID && !TORCHELASTIC_RESTART_COUNT))',
                        "--independent=2", "--max-restarts=1")
        self.assertEqual((0, ["0 0", "1 0", "1 1"]), (ended.status, ended.lines), ended.err)

    def start_hanging(self):
        job = self.start("--independent=2", "--no-python", "sh", "-c", "echo $$; exec sleep 1000")
        return job, [int(job.stdout.readline()) for _ in range(2)]

    def test_a_stop_is_for_all(self):
        job, _ = self.start_hanging()
        job.terminate()
        ended = self.end_of(job)
        self.assertEqual(128 + signal.SIGTERM, ended.status)
        self.assertEqual(2, ended.err.count("told to stop by SIGTERM; all workers have ended"), ended.err)

    def test_none_outlives_it(self):
        job, pids = self.start_hanging()
        ends = [os.pidfd_open(pid) for pid in pids]
        job.kill()
        for end in ends:
            self.assertTrue(select.select([end], [], [], PATIENCE_S)[0], "a worker lives on")
            os.close(end)

    def test_what_does_not_go_together_is_refused(self):
        for flag in ("--nproc-per-node=2", "--nnodes=2", "--master-port=29500"):
            self.assert_refused(self.sh("echo up", "--independent=2", flag), 2,
                                "with --independent", "leave one of them out")
        self.assert_refused(self.sh("echo up", "--independent=3", CUDA_VISIBLE_DEVICES="0,1"), 2,
                            "only 2 are visible")


class Header(Case):
    LINE = (r"ddprun: date=\d{4}-\d\d-\d\d_\d\d:\d\d:\d\d host=\S+ job=h attempt=%d nodes=1 workers=2 "
            r"gpus=\d+ master=127\.0\.0\.1:\d+ commit=c0ffee\n")

    def test_who_asks_for_it_gets_it_for_each_attempt(self):
        ended = self.sh("exit $((1 - TORCHELASTIC_RESTART_COUNT))", "--nproc-per-node=2",
                        "--max-restarts=1", "--rdzv-id=h", LOGLEVEL="INFO", GIT_COMMIT="c0ffee")
        self.assertEqual(0, ended.status)
        for attempt in (0, 1):
            self.assertRegex(ended.err, self.LINE % attempt)

    def test_nobody_else_does(self):
        self.assertEqual("", self.sh(":", GIT_COMMIT="c0ffee").err)


class Interpreter(Case):
    MODULE = "a_module_of_this_test"

    def setUp(self):
        super().setUp()
        self.script = os.path.join(self.room, "train.py")
        with open(self.script, "w") as file:
            file.write(f"import {self.MODULE}\n")

    def link_python(self, folder):
        os.makedirs(os.path.join(self.room, folder))
        python = os.path.join(self.room, folder, "python")
        os.symlink(os.path.realpath(sys.executable), python)
        return python

    def test_it_is_told_where_an_import_fails_with_those_that_have_the_module(self):
        python, other = self.link_python("bin"), self.link_python(".venv/bin")
        os.makedirs(os.path.join(self.room, ".venv/lib/python3.11/site-packages", self.MODULE))
        ended = self.run_job("--log-dir=logs", self.script, PATH=os.path.dirname(python), LOGLEVEL="INFO",
                             VIRTUAL_ENV="/left/over")
        self.assertEqual(1, ended.status, ended.err)
        self.assertIn(f" python={python}\n", ended.err)
        self.assertIn(f"  its Python: {python} has no module '{self.MODULE}'; set PYTHON_EXEC to one that "
                      f"has it: {other}\n", ended.err)
        with open(glob.glob(os.path.join(self.room, "logs/*/events.jsonl"))[0]) as file:
            self.assertEqual(python, json.loads(file.readline())["python"])

    def test_environments_of_conda_are_looked_into_as_well(self):
        python, other = self.link_python("bin"), self.link_python("conda/envs/vision/bin")
        os.makedirs(os.path.join(self.room, "conda/envs/vision/lib/python3.11/site-packages", self.MODULE))
        ended = self.run_job(self.script, PATH=os.path.dirname(python),
                             CONDA_EXE=os.path.join(self.room, "conda/bin/conda"))
        self.assertEqual(1, ended.status, ended.err)
        self.assertIn(f"{python} has no module '{self.MODULE}'; set PYTHON_EXEC to one that has it: {other}\n", ended.err)

    def test_it_is_not_told_of_another_failure(self):
        with open(self.script, "w") as file:
            file.write("raise ValueError('no')\n")
        ended = self.run_job(self.script, PATH=os.path.dirname(self.link_python("bin")))
        self.assertEqual(1, ended.status, ended.err)
        self.assertNotIn("its Python", ended.err)


class TorchEvents(Case):
    """--event-log-handler console"""

    def events_of(self, script, *flags):
        ended = self.sh(script, "--event-log-handler=console", "--rdzv-id=e", *flags)
        lines = [line for line in ended.err.splitlines() if line.startswith("{")]
        return ended, [json.loads(line) for line in lines]

    @staticmethod
    def seen(events):
        return [(event["source"], event["metadata"]["state"]) for event in events]

    def test_they_tell_a_run_as_torchrun_does(self):
        ended, events = self.events_of("exit 0", "--nproc-per-node=2")
        self.assertEqual(0, ended.status, ended.err)
        self.assertEqual([("AGENT", "RENDEZVOUS"), ("AGENT", "ASSIGN_WORKER_RANKS"), ("AGENT", "SUCCEEDED")],
                         self.seen([*events[:2], events[-1]]))
        for rank in range(2):  # one may end before the other is started
            self.assertEqual(
                [("WORKER", "START"), ("WORKER", "SUCCEEDED")],
                self.seen(event for event in events if event["metadata"]["global_rank"] == rank))
        for event in events:
            self.assertEqual(["name", "source", "timestamp", "metadata"], list(event))
            self.assertEqual(
                ["run_id", "global_rank", "group_rank", "worker_id", "role", "hostname", "state",
                 "total_run_time", "rdzv_backend", "raw_error", "metadata", "agent_restarts",
                 "duration_ms"], list(event["metadata"]))
            self.assertEqual("torchelastic.worker.status." + event["metadata"]["state"], event["name"])
        last = events[-2]["metadata"]
        self.assertEqual(("e", "default", "static"), (last["run_id"], last["role"], last["rdzv_backend"]))
        self.assertEqual({"group_world_size": 1, "entry_point": "sh", "local_rank": [last["global_rank"]],
                          "role_rank": [last["global_rank"]], "role_world_size": [2], "exit_code": [0],
                          "worker_pid": [int(last["worker_id"])]}, json.loads(last["metadata"]))

    def test_they_tell_who_failed_and_who_was_stopped(self):
        runs = os.path.join(self.room, "runs")
        ended, events = self.events_of(
            f"[ $RANK = 0 ] || {{ touch {runs}; exec sleep 1000; }}; until [ -e {runs} ]; do sleep 0.01; done; exit 3",
            "--nproc-per-node=2")
        self.assertEqual(3, ended.status, ended.err)
        ends = [(event["metadata"]["global_rank"], event["metadata"]["state"],
                 json.loads(event["metadata"]["metadata"]).get("exit_code")) for event in events[-3:]]
        self.assertEqual([(0, "FAILED", [3]), (1, "TERMINATED", [-15]), (None, "FAILED", None)], ends)

    def test_nobody_else_gets_them(self):
        self.assertEqual("", self.sh("exit 0", "--event-log-handler=null").err)


class FileTimer(Case):
    """TORCHELASTIC_ENABLE_FILE_TIMER=1"""

    # As torch's client writes it: version, pid, scope, when, signal.
    SET = """timer() { echo '{"version": 1, "pid": '$1', "scope_id": "step", "expiration_time": '$2', "signal": 9}' \
             >"$TORCHELASTIC_TIMER_FILE"; }; """

    def test_one_that_expires_ends_its_worker_and_the_agent_restarts_all(self):
        ended = self.sh(
            self.SET + 'echo $RANK $TORCHELASTIC_RESTART_COUNT; [ $TORCHELASTIC_RESTART_COUNT = 0 ] || exit 0; '
            '[ $RANK = 0 ] || timer $$ 1000; exec sleep 1000',
            "--nproc-per-node=2", "--max-restarts=1", TORCHELASTIC_ENABLE_FILE_TIMER="1")
        self.assertEqual((0, ["0 0", "0 1", "1 0", "1 1"]), (ended.status, ended.lines), ended.err)
        self.assertRegex(ended.err, r"ddprun: process \d+ on \S+ let its timer 'step' expire; it is sent SIGKILL\n")
        self.assertRegex(ended.err, r"rank 1 \(local rank 1, pid \d+\) was ended by signal 9")
        self.assertEqual([], glob.glob(os.path.join(self.room, "ddprun_timer_*")))

    def test_one_that_is_released_or_replaced_ends_nobody(self):
        ended = self.sh(
            self.SET + 'timer $$ 99999999999; timer $$ -1; timer $$ 99999999999; echo done',
            TORCHELASTIC_ENABLE_FILE_TIMER="1")
        self.assertEqual((0, ["done"], ""), (ended.status, ended.lines, ended.err))

    def test_nobody_else_is_sent_a_signal(self):
        stranger = subprocess.Popen(["sleep", "1000"])
        self.addCleanup(stranger.wait)
        self.addCleanup(stranger.kill)
        # The agent is the parent there; a line that is not a request does no harm.
        ended = self.sh(
            self.SET + f'timer {stranger.pid} 1; timer $PPID 1; echo nonsense >"$TORCHELASTIC_TIMER_FILE"; '
            'timer $$ 1; exec sleep 1000', TORCHELASTIC_ENABLE_FILE_TIMER="1")
        self.assertEqual(128 + signal.SIGKILL, ended.status, ended.err)
        self.assertEqual(1, ended.err.count("expire; it is sent"), ended.err)
        self.assertIn("not a timer request: nonsense", ended.err)
        self.assertIsNone(stranger.poll())

    def test_without_it_there_is_no_file(self):
        ended = self.sh('echo "${TORCHELASTIC_TIMER_FILE-none}"', TORCHELASTIC_TIMER_FILE="/left/over")
        self.assertEqual(["none"], ended.lines, ended.err)


class PrefixTemplate(Case):
    def test_it_stands_before_each_line_with_the_host(self):
        ended = self.sh("echo hello", "-t3", "--log-line-prefix-template=${hostname}/${rank}> ")
        self.assertEqual([f"{socket.gethostname()}/0> hello"], ended.lines, ended.err)


class Traceback(Case):
    """The traceback of one worker of two: once in the paragraph, wherever its stderr goes."""

    # As torch's record does it: the error file, and then the interpreter's own words.
    RECORDED = """
import json, os, sys, traceback
def record(kind, error, trace):
    text = "".join(traceback.format_exception(kind, error, trace))
    with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
        json.dump({"message": {"message": f"ValueError: {error}", "extraInfo": {"py_callstack": text}}}, file)
    sys.__excepthook__(kind, error, trace)
sys.excepthook = record
"""
    RAISES = """
import os, time
def step(): raise ValueError("bad luck")
step() if os.environ["RANK"] == "1" else time.sleep(1000)
"""
    FLAGS = ((), ("-t3",), ("-r3",), ("--local-ranks-filter=0",))

    def end_of_script(self, script, *flags):
        with open(os.path.join(self.room, "train.py"), "w") as file:
            file.write(script)
        return self.run_job("--nproc-per-node=2", "--log-dir=logs", *flags, "train.py", PYTHON_EXEC=sys.executable)

    def assert_once(self, text, *about):
        self.assertEqual((1, 1), (text.count("Traceback (most recent"), text.count("in step")), (*about, text))
        self.assertIn("ValueError: bad luck", text, about)

    def assert_once_in_paragraph(self, script, flags):
        err = self.end_of_script(script, *flags).err
        self.assert_once(err.rpartition(" failed on ")[2], flags, err)

    def test_a_recorded_one_stands_there_once(self):
        for flags in self.FLAGS:
            self.assert_once_in_paragraph(self.RECORDED + self.RAISES, flags)

    def test_one_that_nobody_recorded_stands_there_once(self):
        for flags in self.FLAGS:
            self.assert_once_in_paragraph(self.RAISES, flags)

    def test_it_stands_there_once_for_each_attempt(self):
        err = self.end_of_script(self.RECORDED + self.RAISES, "--max-restarts=1", "-r3").err
        self.assertEqual(2, err.count("Traceback (most recent"), err)

    def test_a_terminal_that_has_it_does_not_get_it_again(self):
        with open(os.path.join(self.room, "train.py"), "w") as file:
            file.write(self.RECORDED + self.RAISES)
        ours, theirs = pty.openpty()
        job = subprocess.Popen([options.ddprun, "--nproc-per-node=2", "train.py"], cwd=self.room, stdin=theirs,
                               stdout=theirs, stderr=theirs, env={**os.environ, "PYTHON_EXEC": sys.executable})
        os.close(theirs)
        self.addCleanup(job.wait)
        self.addCleanup(job.kill)
        text = ""
        try:
            while piece := os.read(ours, 65536):
                text += piece.decode()
        except OSError:  # how Linux reports the end
            os.close(ours)
        self.assert_once(text)


@unittest.skipUnless(os.path.exists("/sys/devices/system/node/online"), "no NUMA nodes in /sys")
class NumaBinding(Case):
    """Without GPUs, on this machine, whatever its layout."""

    def run_bound(self, mode, workers=1, own=None):
        """What each worker sees: its CPUs and OMP_NUM_THREADS, by rank; `own` is ddprun's affinity."""
        script = os.path.join(self.room, "show.py")
        with open(script, "w") as file:
            file.write("import os\nprint(os.environ['RANK'], os.environ['OMP_NUM_THREADS'], *sorted(os.sched_getaffinity(0)))\n")
        before, here = os.sched_getaffinity(0), os.environ.pop("OMP_NUM_THREADS", None)
        try:
            os.sched_setaffinity(0, own or before)
            ended = self.run_job(f"--numa-binding={mode}", f"--nproc-per-node={workers}", script,
                                 PYTHON_EXEC=sys.executable, CUDA_VISIBLE_DEVICES="")
        finally:
            os.sched_setaffinity(0, before)
            if here is not None:
                os.environ["OMP_NUM_THREADS"] = here
        return ended, [list(map(int, line.split()[1:])) for line in ended.lines]

    def test_exclusive_gives_each_worker_physical_cores_of_its_own(self):
        ended, workers = self.run_bound("exclusive", 2)
        if "physical cores" in ended.err:
            self.skipTest("one core per node")
        self.assertEqual((0, 2), (ended.status, len(workers)), ended.err)
        (_, *first), (_, *second) = workers
        self.assertFalse(set(first) & set(second), workers)
        self.assertLess(set(first) | set(second), os.sched_getaffinity(0) | {-1})

    def test_node_uses_every_cpu_that_ddprun_may_use_and_no_other(self):
        nodes = glob.glob("/sys/devices/system/node/node[0-9]*")
        ended, workers = self.run_bound("node", len(nodes))
        self.assertEqual(0, ended.status, ended.err)
        self.assertEqual(os.sched_getaffinity(0), {cpu for _, *cpus in workers for cpu in cpus})

    def test_threads_are_no_more_than_the_cpus_of_the_worker(self):
        one = {min(os.sched_getaffinity(0))}
        for mode in ("node", "socket", "exclusive", "core-complex"):
            ended, workers = self.run_bound(mode, own=one)
            self.assertEqual([[1, *one]], workers, (mode, ended.err))

    def test_more_workers_than_cores_are_refused(self):
        self.assert_refused(self.run_bound("exclusive", 4096)[0], 2, "--numa-binding: NUMA node", "physical cores")


class Leftover(Case):
    """What a worker that exited with 0 left behind."""

    def start_leaving(self, child, *flags):
        """A job whose worker leaves `child`, a shell command, in a separate session; its pipes are not awaited."""
        for name in ("out", "err"):
            file = open(os.path.join(self.room, name), "w+")
            self.addCleanup(file.close)
            setattr(self, name, file)
        with open(os.path.join(self.room, "train.sh"), "w") as file:
            file.write(f"#!/bin/sh\nsetsid sh -c '{child}' upload &\n")
        os.chmod(os.path.join(self.room, "train.sh"), 0o755)
        job = subprocess.Popen([options.ddprun, *flags, "./train.sh"], cwd=self.room, stdin=subprocess.DEVNULL,
                               stdout=self.out, stderr=self.err, env={**os.environ, "TMPDIR": self.room})
        self.addCleanup(job.wait)
        self.addCleanup(job.kill)
        return job

    def read(self, name):
        with open(os.path.join(self.room, name)) as file:
            return file.read()

    def test_an_upload_that_is_killed_is_named_with_its_pid_and_command(self):
        job = self.start_leaving("echo $$ >pid; exec sleep 1000")
        self.assertEqual(0, job.wait(PATIENCE_S))
        self.assertEqual(f"ddprun: killing what workers left behind on {socket.gethostname()}: pid "
                         f"{self.read('pid').strip()} (sleep 1000); --leftover wait or keep would let it finish\n",
                         self.read("err"))

    def test_a_helper_that_ends_with_its_worker_is_no_news(self):
        self.assertEqual(0, self.start_leaving("sleep 0.05").wait(PATIENCE_S))
        self.assertEqual("", self.read("err"))

    def test_wait_lets_it_finish_and_says_what_it_waits_for(self):
        self.assertEqual(0, self.start_leaving("sleep 1; echo done >uploaded", "--leftover=wait").wait(PATIENCE_S))
        self.assertEqual("done\n", self.read("uploaded"))
        self.assertRegex(self.read("err"), r"^ddprun: waiting for what workers left behind on \S+: pid \d+ \(sh -c .*"
                                           r"; timeout 600 s; a signal ends the wait\n$")

    def test_wait_has_a_limit(self):
        self.assertEqual(0, self.start_leaving("exec sleep 1000", "--leftover", "wait=0.2").wait(PATIENCE_S))
        self.assertRegex(self.read("err"), r"timeout 0\.2 s; [^\n]*\nddprun: killing [^\n]*\(sleep 1000\); the wait is over\n$")

    def test_a_signal_ends_the_wait(self):
        os.mkfifo(os.path.join(self.room, "pid"))
        job = self.start_leaving("trap \"\" TERM; echo $$ >pid; exec sleep 1000", "--leftover=wait")
        pid = int(self.read("pid"))
        while "waiting for what" not in self.read("err"):
            select.select([], [], [], 0.01)
        job.send_signal(signal.SIGTERM)
        self.assertEqual(0, job.wait(PATIENCE_S), "the workers had succeeded")
        self.assertRaises(ProcessLookupError, os.kill, pid, 0)

    def test_keep_lets_it_outlive_ddprun_and_write_on(self):
        for fifo in ("gate", "end"):
            os.mkfifo(os.path.join(self.room, fifo))
        job = self.start_leaving("cat gate; echo still here >&2; echo uploaded >end", "--leftover=keep")
        self.assertEqual(0, job.wait(PATIENCE_S))
        self.assertRegex(self.read("err"), r"ddprun: what workers left behind on \S+ lives on: pid \d+ \(sh -c ")
        with open(os.path.join(self.room, "gate"), "w"):
            pass
        self.assertEqual("uploaded\n", self.read("end"))
        self.assertTrue(self.read("err").endswith("still here\n"))

    def test_after_a_failure_nothing_is_kept(self):
        ended = self.sh('[ $TORCHELASTIC_RESTART_COUNT = 0 ] || { kill -0 $(cat pid) 2>/dev/null && echo alive; exit 0; }; '
                        'setsid sh -c "echo \\$\\$ >pid; exec sleep 1000" & until [ -s pid ]; do :; done; exit 3',
                        "--leftover=keep", "--max-restarts=1")
        self.assertEqual((0, []), (ended.status, ended.lines), ended.err)
        self.assertNotIn("left behind", ended.err)


class Completion(Case):
    def complete(self, *words):
        """What bash completes for the last of `words`."""
        script = ('source <("$0" --print-completion bash); COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
                  '_ddprun; printf "%s\\n" "${COMPREPLY[@]}"')
        ended = subprocess.run(["bash", "-c", script, options.ddprun, "ddprun", *words],
                               capture_output=True, text=True, timeout=PATIENCE_S, check=True)
        self.assertEqual("", ended.stderr)
        return ended.stdout.split()

    def test_it_completes_options_up_to_the_script(self):
        self.assertEqual({"--nnodes", "--nproc-per-node", "--no-python", "--no-use-env", "--node-check",
                          "--node-check-timeout", "--node-rank", "--num-processes", "--numa-binding"},
                         set(self.complete("--standalone", "--n")))
        self.assertEqual(["--rdzv-endpoint"], self.complete("--nnodes", "2", "--rdzv-e"))
        self.assertEqual(["--rdzv-endpoint"], self.complete("--nnodes", "=", "2", "--rdzv-e"))
        self.assertEqual([], self.complete("train.py", "--n"))
        self.assertEqual([], self.complete("--nnodes", "2", "train.py", "--n"))

    def test_it_completes_the_values_of_options_that_have_a_few(self):
        self.assertEqual(["static", "c10d"], self.complete("--rdzv-backend", ""))
        self.assertEqual(["c10d"], self.complete("--rdzv-backend", "=", "c"))
        self.assertEqual(["static", "c10d"], self.complete("--rdzv-backend", "="))
        self.assertEqual(["cpu", "gpu", "auto"], self.complete("--nproc-per-node", ""))
        self.assertEqual(["kill", "wait", "keep"], self.complete("--leftover", ""))
        self.assertEqual(["core-complex"], self.complete("--numa-binding", "c"))
        self.assertEqual([], self.complete("--master-addr", "no"))

    def test_zsh_can_read_it(self):
        ended = self.run_job("--print-completion=zsh")
        self.assertEqual(0, ended.status, ended.err)
        self.assertIn("#compdef ddprun", ended.lines)
        if not shutil.which("zsh"):
            self.skipTest("no zsh here")
        script = os.path.join(self.room, "_ddprun")
        with open(script, "w") as file:
            subprocess.run([options.ddprun, "--print-completion", "zsh"], stdout=file, check=True)
        subprocess.run(["zsh", "-n", script], check=True, timeout=PATIENCE_S)


class RunPath(Case):
    def run_script(self, text):
        with open(os.path.join(self.room, "train.py"), "w") as file:
            file.write(text)
        return self.run_job("--run-path", "train.py", PYTHON_EXEC=sys.executable)

    def test_an_end_that_the_interpreter_does_not_survive_is_no_failure(self):
        # What the threads of a process group that was not destroyed do now and then.
        ended = self.run_script("import ctypes\nlibc = ctypes.CDLL(None)\nlibc.__cxa_atexit(libc.abort, None, None)\n")
        self.assertEqual((0, ""), (ended.status, ended.err))

    def test_it_waits_for_threads_and_writes_what_is_open(self):
        ended = self.run_script(
            "import atexit, threading\natexit.register(print, 'at exit')\n"
            "file = open('out.txt', 'w')\nfile.write('whole')\n"
            "threading.Thread(target=lambda: print('thread')).start()\n")
        self.assertEqual((0, ["at exit", "thread"], ""), (ended.status, ended.lines, ended.err))
        with open(os.path.join(self.room, "out.txt")) as file:
            self.assertEqual("whole", file.read())

    def test_the_status_is_the_scripts(self):
        for end, status in (("sys.exit()", 0), ("sys.exit(3)", 3), ("sys.exit('no')", 1), ("1/0", 1)):
            ended = self.run_script(f"import sys\n{end}\n")
            self.assertEqual(status, ended.status, ended.err)
        self.assertIn("ZeroDivisionError", ended.err)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddprun", required=True)
    options, rest = parser.parse_known_args(namespace=options)
    unittest.main(argv=[sys.argv[0], *rest])
