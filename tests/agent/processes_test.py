"""What the agent of one node does with real processes:

    processes_test.py --launcher PROGRAM --worker FAKE_WORKER [unittest arguments]

PROGRAM is run_plan or ddprun; FAKE_WORKER does what its arguments say (tests/support). Workers report
by a FIFO, and ends are seen by pidfd: nothing here sleeps or polls.
DDPRUN_KILLS says how often each kill of row 7 is repeated (default 100).
"""

import argparse
import json
import os
import pathlib
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import unittest

options = argparse.Namespace()
KILLS = int(os.environ.get("DDPRUN_KILLS", "100"))
PATIENCE_S = 8  # for a broken build to fail and not to hang; no test depends on it
NOBODY = 65534


class Note:
    """One line of a fake worker: who it is and when it entered main."""

    def __init__(self, line):
        words = line.split()
        self.text = words[0]
        fields = dict(word.split("=", 1) for word in words[1:])
        self.rank = fields["rank"]
        self.attempt = fields["attempt"]
        self.pid = int(fields["pid"])


class Fifo:
    """The FIFO by which fake workers report their start. Open for both, so it never ends."""

    def __init__(self, directory):
        self.path = str(directory / "notes")
        os.mkfifo(self.path)
        os.chmod(self.path, 0o666)
        self.file = os.fdopen(os.open(self.path, os.O_RDWR), "rb", buffering=0)
        self.rest = b""

    def read(self, count):
        """The next `count` notes."""
        while self.rest.count(b"\n") < count:
            ready, _, _ = select.select([self.file], [], [], PATIENCE_S)
            assert ready, f"only {self.rest!r} after {PATIENCE_S} s"
            self.rest += self.file.read(65536)
        lines = self.rest.split(b"\n")
        self.rest = b"\n".join(lines[count:])
        return [Note(line.decode()) for line in lines[:count]]


class Watched:
    """A process, held by pidfd: no other process can get its number."""

    def __init__(self, pid):
        self.pid = pid
        self.pidfd = os.pidfd_open(pid)

    def kill(self):
        try:
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
        except ProcessLookupError:
            pass


def await_ends(watched):
    """Seconds until all have ended; raises if one does not."""
    began = time.monotonic()
    poll = select.poll()
    left = {process.pidfd: process for process in watched}
    for pidfd in left:
        poll.register(pidfd, select.POLLIN)
    while left:
        ready = poll.poll(PATIENCE_S * 1000)
        if not ready:
            raise AssertionError(f"alive: {[process.pid for process in left.values()]}")
        for pidfd, _ in ready:
            poll.unregister(pidfd)
            del left[pidfd]
    return time.monotonic() - began


def children_of(pid):
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            after_name = (entry / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(after_name[1]) == pid:
            found.append(int(entry.name))
    return found


class Case(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="ddprun_test_"))
        os.chmod(self.directory, 0o777)
        self.addCleanup(shutil.rmtree, self.directory)
        self.fifo = Fifo(self.directory)
        self.addCleanup(self.fifo.file.close)
        self.launcher = options.launcher
        self.worker = options.worker

    def let_everybody_start_it(self):
        """The build may be where only root may go, such as /root."""
        self.launcher = shutil.copy(self.launcher, self.directory)
        self.worker = shutil.copy(self.worker, self.directory)

    def start(self, *words, flags=(), program=None, before=(), **how):
        """A job of fake workers that do `words`, or of another `program`."""
        command = [*before, self.launcher, "--log-dir", str(self.directory / "logs"), *flags,
                   "--", *(program or [self.worker]), *words]
        how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **how}
        job = subprocess.Popen(command, stdin=subprocess.DEVNULL, text=True, start_new_session=True,
                               **how)
        self.addCleanup(self.clean_up, job)
        return job

    @staticmethod
    def clean_up(job):
        job.kill()
        job.communicate(timeout=PATIENCE_S)

    def run_job(self, *words, **how):
        return self.end_of(self.start(*words, **how))

    def end_of(self, job):
        out, err = job.communicate(timeout=PATIENCE_S)
        return argparse.Namespace(status=job.returncode, out=out, err=err)

    def events(self):
        path = next((self.directory / "logs").glob("*/events.jsonl"), None)
        if path is None:
            return []
        return [json.loads(line) for line in path.read_text().splitlines()]


class KillsOfDdprunItself(Case):
    """Row 7: no process of the job outlives the guard or the agent, whatever its session."""

    WORDS = ("child", "child", "{fifo}", "daemon", "daemon", "{fifo}", "note", "{fifo}", "worker",
             "ignore", "SIGTERM", "hang")

    def start_family(self, user):
        words = [word.format(fifo=self.fifo.path) for word in self.WORDS]
        how = {} if user is None else {"user": user, "group": user, "extra_groups": []}
        job = self.start(*words, flags=("--nproc-per-node", "2"), **how)
        notes = self.fifo.read(6)
        (agent,) = children_of(job.pid)
        return job, Watched(agent), [(note.text, Watched(note.pid)) for note in notes]

    def kill_often(self, blow, dying, user=None):
        """Calls `blow(guard, agent)` KILLS times; after each call the processes named in `dying` must end."""
        if user is not None:
            self.let_everybody_start_it()
        took_s = []
        for _ in range(KILLS):
            job, agent, family = self.start_family(user)
            blow(job, agent)
            watched = [process for text, process in family if text in dying]
            took_s.append(await_ends([agent, Watched(job.pid), *watched]))
            for _, process in family:
                process.kill()
                os.close(process.pidfd)
            os.close(agent.pidfd)
            self.clean_up(job)
        over = sum(seconds > 0.2 for seconds in took_s)
        print(f"\n{self.id()}: {KILLS} kills, all dead after median "
              f"{statistics.median(took_s) * 1e3:.1f} ms, most {max(took_s) * 1e3:.1f} ms, "
              f"{over} over 200 ms", flush=True)

    EVERYBODY = ("worker", "child", "daemon")

    @staticmethod
    def kill_front(job, _agent):
        job.kill()

    @staticmethod
    def kill_agent(_job, agent):
        agent.kill()

    @staticmethod
    def kill_both(job, _agent):
        os.killpg(job.pid, signal.SIGKILL)

    def test_nothing_outlives_the_guard(self):
        self.kill_often(self.kill_front, self.EVERYBODY)

    def test_nothing_outlives_the_agent(self):
        self.kill_often(self.kill_agent, self.EVERYBODY)

    def test_no_worker_outlives_both(self):
        self.kill_often(self.kill_both, ("worker",))

    @unittest.skipUnless(os.getuid() == 0, "only root can become nobody")
    def test_nothing_outlives_the_guard_without_root(self):
        self.kill_often(self.kill_front, self.EVERYBODY, user=NOBODY)

    @unittest.skipUnless(os.getuid() == 0, "only root can become nobody")
    def test_nothing_outlives_the_agent_without_root(self):
        self.kill_often(self.kill_agent, self.EVERYBODY, user=NOBODY)

    @unittest.skipUnless(os.getuid() == 0, "only root can become nobody")
    def test_no_worker_outlives_both_without_root(self):
        self.kill_often(self.kill_both, ("worker",), user=NOBODY)

    def test_an_agent_that_is_stopped_wakes_when_its_guard_is_killed_and_clears_up(self):
        job, agent, family = self.start_family(None)
        os.kill(agent.pid, signal.SIGSTOP)
        job.kill()
        await_ends([agent, *(process for _, process in family)])

    def test_the_guard_says_that_the_agent_was_killed(self):
        job, agent, _ = self.start_family(None)
        agent.kill()
        ended = self.end_of(job)
        self.assertEqual(ended.status, 128 + signal.SIGKILL)
        self.assertIn("was ended by SIGKILL", ended.err)


class NobodyToTalkTo(Case):
    """ddprun's own messages never block it."""

    def family(self, **how):
        job = self.start("note", self.fifo.path, "worker", "hang", **how)
        worker = Watched(self.fifo.read(1)[0].pid)
        (agent,) = children_of(job.pid)
        return job, Watched(agent), worker

    def test_with_stderr_closed_nothing_outlives_the_guard(self):
        job, agent, worker = self.family(before=("/bin/sh", "-c", 'exec "$@" 2>&-', "sh"))
        job.kill()
        await_ends([agent, worker])

    def test_with_stdout_and_stderr_closed_a_signal_ends_the_job(self):
        job, agent, worker = self.family(before=("/bin/sh", "-c", 'exec "$@" >&- 2>&-', "sh"))
        job.send_signal(signal.SIGTERM)
        await_ends([agent, worker])
        self.assertEqual(self.end_of(job).status, 128 + signal.SIGTERM)

    def test_with_a_stderr_that_nobody_reads_any_more_nothing_outlives_the_guard(self):
        read_end, write_end = os.pipe()
        job, agent, worker = self.family(stderr=write_end)
        os.close(write_end)
        os.close(read_end)
        job.kill()
        await_ends([agent, worker])

    def full_pipe(self):
        """The write end of a pipe that is full and that nobody reads."""
        read_end, write_end = os.pipe()
        self.addCleanup(os.close, read_end)
        self.addCleanup(os.close, write_end)
        os.set_blocking(write_end, False)
        for size in (1 << 16, 1):
            try:
                while True:
                    os.write(write_end, b"x" * size)
            except BlockingIOError:
                pass
        os.set_blocking(write_end, True)
        return write_end

    def test_a_full_stderr_pipe_does_not_hold_up_the_end(self):
        ended = self.run_job("exit", "7", stderr=self.full_pipe())
        self.assertEqual(ended.status, 7)
        lost, last = self.events()[-2:]
        self.assertEqual((lost["event"], lost["text"]), ("output_lost", "stderr"))
        self.assertEqual((last["event"], last["exit_status"]), ("job_ended", 7))

    def test_a_log_line_that_nobody_reads_does_not_hold_up_the_agent(self):
        script = ("exec 3<>/dev/tcp/127.0.0.1/$MASTER_PORT; echo no protocol at all >&3; "
                  "cat <&3; exit 5")  # the store logs that it closes this connection
        ended = self.run_job("-c", script, program=["/bin/bash"], stderr=self.full_pipe())
        self.assertEqual(ended.status, 5)

    def test_a_reader_that_goes_away_does_not_end_the_guard(self):
        job, _, worker = self.family()
        job.send_signal(signal.SIGPIPE)
        job.send_signal(signal.SIGTERM)
        await_ends([worker])
        self.assertEqual(self.end_of(job).status, 128 + signal.SIGTERM)


class WhatIsSaid(Case):
    def test_what_a_worker_said_last_stands_before_the_report_of_its_end(self):
        ended = self.run_job("-c", "printf 'last words' >&2; exit 7", program=["/bin/sh"])
        self.assertTrue(ended.err.startswith("last words\n"), ended.err)
        self.assertIn("its last line on stderr: last words\n", ended.err)


class ExitStatus(Case):
    def test_all_workers_zero_is_zero_and_silent(self):
        ended = self.run_job("out", "hello", flags=("--nproc-per-node", "3"))
        self.assertEqual((ended.status, ended.out, ended.err), (0, "hello\n" * 3, ""))

    def test_it_is_the_first_failed_workers(self):
        ended = self.run_job("err", "last words", "exit", "7", flags=("--nproc-per-node", "2"))
        self.assertEqual(ended.status, 7)
        self.assertIn("Root Cause (first observed failure):", ended.err)
        self.assertIn("its last line on stderr: last words\n", ended.err)

    def test_a_signal_counts_from_128(self):
        ended = self.run_job("raise", "SIGSEGV")
        self.assertEqual(ended.status, 128 + signal.SIGSEGV)
        self.assertIn("exitcode  : -11 ", ended.err)

    def test_a_program_that_does_not_exist_is_127_and_not_retried(self):
        ended = self.run_job(program=["/no/such/program"], flags=("--max-restarts", "3"))
        self.assertEqual(ended.status, 127)
        self.assertIn("cannot run /no/such/program: No such file or directory", ended.err)

    def test_a_missing_interpreter_is_127(self):
        script = self.directory / "script"
        script.write_text("#!/no/such/interpreter\n")
        script.chmod(0o755)
        ended = self.run_job(program=[str(script)])
        self.assertEqual(ended.status, 127)
        self.assertIn("interpreter named in its first line", ended.err)

    def test_a_file_that_may_not_be_executed_is_126(self):
        script = self.directory / "script"
        script.write_text("#!/bin/sh\n")
        self.assertEqual(self.run_job(program=[str(script)]).status, 126)

    def test_a_file_that_is_no_program_is_126(self):
        script = self.directory / "script"
        script.write_text("no program\n")
        script.chmod(0o755)
        ended = self.run_job(program=[str(script)])
        self.assertEqual(ended.status, 126)
        self.assertIn("Exec format error", ended.err)

    def test_a_program_that_is_being_written_is_tried_again(self):
        program = self.directory / "program"
        shutil.copy("/bin/true", program)
        with open(program, "ab"):
            job = self.start(program=[str(program)], flags=("--max-restarts", "10"))
            self.assertTrue(any("Text file busy" in line for line in job.stderr))
        self.assertEqual(self.end_of(job).status, 0)


class LogOfTheNextAttempt(Case):
    """A worker of attempt 0 leaves a FIFO where a log of attempt 1 is to be: a disk that does not respond."""

    def start_script(self, *cases, **how):
        script = self.directory / "script"
        script.write_text("\n".join((
            "#!/bin/sh",
            'logs=$(dirname $(dirname $(dirname "$TORCHELASTIC_ERROR_FILE")))',
            'hold_up() { mkdir -p "$logs/attempt_1/$1" && mkfifo "$logs/attempt_1/$1/stdout.log"; }',
            'case "$TORCHELASTIC_RESTART_COUNT $LOCAL_RANK" in', *cases, "esac")))
        script.chmod(0o755)
        return self.start(program=[str(script)], **how)

    def test_a_stop_while_no_worker_of_an_attempt_has_started_is_not_taken_for_one_after_a_save(self):
        job = self.start_script('"0 0") hold_up 0; exit 3;;', "*) exec sleep 60;;",
                                flags=("--redirects", "3", "--max-restarts", "1"))
        while [event["event"] for event in self.events()].count("attempt_started") < 2:
            self.assertIsNone(job.poll())
            time.sleep(0.01)
        job.send_signal(signal.SIGTERM)
        ended = self.end_of(job)
        self.assertEqual(ended.status, 128 + signal.SIGTERM)
        self.assertNotIn("saved", ended.err)

    def test_one_that_holds_up_a_cancelled_start_holds_up_no_later_attempt(self):
        job = self.start_script('"0 0") hold_up 1; exit 3;;', '"0 1") exec sleep 60;;', '"1 0") exit 4;;',
                                flags=("--redirects", "3", "--max-restarts", "2", "--nproc-per-node", "2"))
        ended = self.end_of(job)
        self.assertEqual(ended.status, 0, ended.err)


class Restarts(Case):
    def test_all_workers_restart_until_the_budget_is_used_up(self):
        ended = self.run_job("note", self.fifo.path, "worker", "exit", "5",
                             flags=("--nproc-per-node", "1", "--max-restarts", "2"))
        self.assertEqual(ended.status, 5)
        self.assertEqual([note.attempt for note in self.fifo.read(3)], ["0", "1", "2"])
        self.assertIn("restart 1 of 2", ended.err)
        self.assertIn("the 2 restarts of --max-restarts are used up", ended.err)

    def test_a_killed_worker_takes_the_others_along_and_all_come_back(self):
        job = self.start("note", self.fifo.path, "worker", "restarted", "0", "hang",
                         flags=("--nproc-per-node", "4", "--max-restarts", "1"))
        os.kill(self.fifo.read(4)[2].pid, signal.SIGKILL)
        again = self.fifo.read(4)
        self.assertEqual({note.attempt for note in again}, {"1"})
        self.assertEqual({note.rank for note in again}, {"0", "1", "2", "3"})
        self.assertEqual(self.end_of(job).status, 0)

    def test_what_a_worker_left_behind_is_gone_before_the_next_attempt(self):
        job = self.start("daemon", "daemon", self.fifo.path, "note", self.fifo.path, "worker",
                         "restarted", "0", "hang", flags=("--max-restarts", "1"))
        daemon, worker = self.fifo.read(2)
        left = Watched(daemon.pid)
        os.kill(worker.pid, signal.SIGKILL)
        self.fifo.read(2)  # the next attempt
        self.assertTrue(select.select([left.pidfd], [], [], 0)[0], "R2")
        self.assertEqual(self.end_of(job).status, 0)

    def test_a_shells_child_saves_its_work_in_the_grace_of_its_worker(self):
        """bash dies of the signal that its child still handles; the child gets it once."""
        gate = self.directory / "gate"
        os.mkfifo(gate)
        program = self.directory / "wrapped.sh"
        # It waits for the signal rather than handle it: the exit that a handler asks for is
        # swallowed if it runs while a file is closed, as after a note that is answered quickly.
        program.write_text(f"""#!/bin/bash
            python3 -c '
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
open("{self.fifo.path}", "w").write("up rank=0 attempt=0 pid=1\\n")
signal.sigwait([signal.SIGTERM])
saved = open("{gate}").read()
if signal.sigpending(): saved += ", and was told twice"
open("{self.directory}/saved", "w").write(saved)
'
            echo not reached
        """)
        program.chmod(0o755)
        job = self.start(program=[str(program)])
        self.fifo.read(1)
        (agent,) = children_of(job.pid)
        (shell,) = map(Watched, children_of(agent))
        job.terminate()
        await_ends([shell])
        with open(gate, "w") as opened:
            opened.write("saved once")
        self.assertEqual(self.end_of(job).status, 128 + signal.SIGTERM)
        self.assertEqual((self.directory / "saved").read_text(), "saved once")

    def test_nothing_is_left_after_a_success(self):
        job = self.start("daemon", "daemon", self.fifo.path, "exit", "0")
        left = Watched(self.fifo.read(1)[0].pid)
        self.assertEqual(self.end_of(job).status, 0)
        self.assertTrue(select.select([left.pidfd], [], [], 0)[0])

    def test_a_neighbour_that_the_shell_started_before_is_not_of_the_job(self):
        """`tensorboard & exec ddprun train.py` makes tensorboard a child of ddprun's."""
        neighbour = self.directory / "neighbour"
        os.mkfifo(neighbour)
        ended = self.run_job("exit", "0", before=(
            "sh", "-c", f'cat {neighbour} >/dev/null 2>&1 & echo $!; exec "$@"', "sh"))
        self.assertEqual(ended.status, 0)
        alive = Watched(int(ended.out.split()[0]))
        self.assertEqual(select.select([alive.pidfd], [], [], 0)[0], [])
        alive.kill()

    def test_a_worker_that_ignores_sigterm_is_killed_when_its_grace_is_over(self):
        job = self.start("ignore", "SIGTERM", "note", self.fifo.path, "worker", "hang",
                         flags=("--nproc-per-node", "2", "--shutdown-timeout", "0.1"))
        first, second = self.fifo.read(2)
        os.kill(first.pid, signal.SIGUSR2)
        ended = self.end_of(job)
        self.assertEqual(ended.status, 128 + signal.SIGUSR2)
        self.assertIn(f"exitcode  : -9 (pid: {second.pid}) (stopped by ddprun)", ended.err)


class Signals(Case):
    def test_each_stop_signal_reaches_the_workers_unchanged(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            with self.subTest(signal=number.name):
                job = self.start("on", number.name, "0", "note", self.fifo.path, "worker", "hang",
                                 flags=("--nproc-per-node", "2"))
                self.fifo.read(2)
                job.send_signal(number)
                ended = self.end_of(job)
                # A preemption notice: exit status 0 means that the worker has saved.
                is_notice = number in (signal.SIGTERM, signal.SIGINT)
                self.assertEqual(ended.status, 75 if is_notice else 128 + number)
                self.assertIn(f"told to stop by {number.name}", ended.err)

    def test_the_second_signal_kills_at_once(self):
        job = self.start("ignore", "SIGINT", "on", "SIGTERM", "3", "ignore", "SIGTERM", "note",
                         self.fifo.path, "worker", "hang", flags=("--nproc-per-node", "2"))
        watched = [Watched(note.pid) for note in self.fifo.read(2)]
        job.send_signal(signal.SIGINT)
        job.send_signal(signal.SIGTERM)
        await_ends(watched)  # long before the grace of 30 s, or the job would not end in time
        self.assertEqual(self.end_of(job).status, 128 + signal.SIGINT)

    def test_it_says_what_it_waits_for_and_when_it_kills(self):
        job = self.start("ignore", "SIGTERM", "note", self.fifo.path, "worker", "hang",
                         flags=("--nproc-per-node", "2", "--shutdown-timeout", "600"))
        pids = {note.rank: note.pid for note in self.fifo.read(2)}
        job.send_signal(signal.SIGTERM)
        said = job.stderr.readline()
        while "waiting for" not in said:
            self.assertTrue(said, "it ended")
            said = job.stderr.readline()
        self.assertRegex(said, rf"waiting for 2 of 2 workers on \S+ to end: rank 0 \(pid {pids['0']}\), "
                               rf"rank 1 \(pid {pids['1']}\); SIGKILL in 5\d\d\.\d s$")
        job.send_signal(signal.SIGTERM)
        self.assertEqual(self.end_of(job).status, 128 + signal.SIGTERM)

    def test_ctrl_c_lets_the_workers_save_and_says_what_a_second_one_does(self):
        job = self.start("on", "SIGINT", "75", "note", self.fifo.path, "worker", "hang",
                         flags=("--nproc-per-node", "2"))
        self.fifo.read(2)
        job.send_signal(signal.SIGINT)
        ended = self.end_of(job)
        self.assertEqual(ended.status, 75)
        self.assertIn("told to stop by SIGINT: the workers may save and end, for 30 s; a second signal "
                      "ends them at once", ended.err)
        self.assertIn("all workers have saved and ended", ended.err)

    def test_nohup_is_honoured(self):
        job = self.start("note", self.fifo.path, "worker", "hang", before=("nohup",))
        self.fifo.read(1)
        job.send_signal(signal.SIGHUP)
        job.send_signal(signal.SIGTERM)
        self.assertEqual(self.end_of(job).status, 128 + signal.SIGTERM)

    def test_a_job_whose_workers_have_saved_ends_with_75(self):
        for flags, status in ((("--nproc-per-node", "2"), 75),
                              (("--nproc-per-node", "2", "--preempt-exit-code", "85"), 85)):
            job = self.start("on", "SIGTERM", "75", "note", self.fifo.path, "worker", "hang", flags=flags)
            self.fifo.read(2)
            job.send_signal(signal.SIGTERM)
            ended = self.end_of(job)
            self.assertEqual(ended.status, status)
            self.assertIn("all workers have saved and ended", ended.err)

    def test_a_job_is_not_saved_where_one_worker_was_killed(self):
        job = self.start("on", "SIGTERM", "0", "note", self.fifo.path, "worker", "hang",
                         flags=("--nproc-per-node", "2", "--shutdown-timeout", "1"))
        notes = self.fifo.read(2)
        os.kill(next(note.pid for note in notes if note.rank == "1"), signal.SIGSTOP)
        job.send_signal(signal.SIGTERM)
        self.assertEqual(self.end_of(job).status, 128 + signal.SIGTERM)

    def test_workers_ignore_the_notices_that_they_are_not_to_get(self):
        job = self.start("on", "SIGTERM", "75", "note", self.fifo.path, "worker", "hang",
                         flags=("--forward-signal", str(int(signal.SIGTERM))))
        os.kill(self.fifo.read(1)[0].pid, signal.SIGUSR1)  # as Slurm does, to every process
        job.send_signal(signal.SIGTERM)
        self.assertEqual(self.end_of(job).status, 75)

    def test_a_notice_reaches_only_workers_that_have_a_handler(self):
        job = self.start("note", self.fifo.path, "deaf", "on", "SIGUSR1", "0", "note",
                         self.fifo.path, "worker", "hang")
        self.fifo.read(2)
        job.send_signal(signal.SIGUSR1)
        self.assertEqual(self.end_of(job).status, 0)

    def test_a_notice_without_a_handler_stops_nothing(self):
        job = self.start("note", self.fifo.path, "worker", "hang")
        self.fifo.read(1)
        job.send_signal(signal.SIGUSR1)
        job.send_signal(signal.SIGTERM)
        self.assertEqual(self.end_of(job).status, 128 + signal.SIGTERM)

    def test_it_works_where_the_parent_ignores_the_end_of_children(self):
        job = self.start("exit", "6", preexec_fn=lambda: signal.signal(
            signal.SIGCHLD, signal.SIG_IGN))
        self.assertEqual(self.end_of(job).status, 6)


class WhatAWorkerFinds(Case):
    def status_of(self, pid):
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
        return dict(line.split(":\t", 1) for line in lines if ":\t" in line)

    def test_a_session_of_its_own_and_default_signals(self):
        self.start("note", self.fifo.path, "worker", "hang")
        pid = self.fifo.read(1)[0].pid
        self.assertEqual((os.getsid(pid), os.getpgid(pid)), (pid, pid))
        status = self.status_of(pid)
        self.assertEqual(int(status["SigBlk"], 16), 0)
        self.assertEqual(int(status["SigIgn"], 16), 0)

    def test_no_descriptor_but_the_three(self):
        self.start("note", self.fifo.path, "worker", "hang")
        pid = self.fifo.read(1)[0].pid
        links = {entry.name: os.readlink(entry) for entry in os.scandir(f"/proc/{pid}/fd")}
        # It may not have closed the FIFO yet.
        self.assertLessEqual({name for name in links if links[name] != self.fifo.path},
                             {"0", "1", "2"})

    def test_ranks_and_the_round(self):
        ended = self.run_job("env", env={**os.environ, "RANK": "7"})
        variables = dict(line.split("=", 1) for line in ended.out.splitlines() if "=" in line)
        self.assertEqual(variables["RANK"], "0")
        self.assertEqual(variables["DDPRUN_ROUND"], "1")
        self.assertNotEqual(variables["MASTER_PORT"], "0")

    def test_arguments_get_their_local_rank(self):
        ended = self.run_job("out", "rank-${local_rank}", "out", "$HOME $$")
        self.assertEqual(ended.out, "rank-0\n$HOME $$\n")


class Records(Case):
    ERROR = json.dumps({"message": {"message": "ValueError: boom", "extraInfo": {
        "py_callstack": "Traceback:\n  boom", "timestamp": "1"}}})

    def test_the_traceback_is_shown_and_passed_up_with_the_exit_code(self):
        above = self.directory / "above.json"
        script = f"printf '%s' '{self.ERROR}' > $TORCHELASTIC_ERROR_FILE; exit 3"
        ended = self.run_job("-c", script, program=["/bin/sh"],
                             env={**os.environ, "TORCHELASTIC_ERROR_FILE": str(above)})
        self.assertEqual(ended.status, 3)
        self.assertIn("traceback : boom (its traceback is below)\n", ended.err)
        self.assertIn("  its traceback:\n    | Traceback:\n    |   boom\n", ended.err)
        self.assertIn("it said: ValueError: boom\n", ended.err)
        passed_up = json.loads(above.read_text())
        self.assertEqual(passed_up["message"]["errorCode"], 3)
        self.assertEqual(passed_up["message"]["message"], "ValueError: boom")

    def test_half_a_character_in_an_error_file_does_not_spoil_its_text(self):
        # A lone UTF-16 surrogate: Python writes it for a byte that it could not decode.
        error = json.dumps({"message": {"message": "no file \udcff.bin", "extraInfo": {
            "py_callstack": "Traceback:\n  boom", "timestamp": "1"}}})
        script = f"printf '%s' '{error}' > $TORCHELASTIC_ERROR_FILE; exit 3"
        ended = self.run_job("-c", script, program=["/bin/sh"])
        self.assertIn("it said: no file \ufffd.bin\n", ended.err)

    def test_it_is_passed_up_into_what_the_variable_names_be_it_a_link_or_a_device(self):
        target = self.directory / "target"
        target.write_text("old")
        for place in (target, pathlib.Path("/dev/null")):
            with self.subTest(place=place):
                link = self.directory / f"link to {place.name}"
                link.symlink_to(place)
                environment = os.environ | {"TORCHELASTIC_ERROR_FILE": str(link)}
                script = f"printf '%s' '{self.ERROR}' > $TORCHELASTIC_ERROR_FILE; exit 3"
                ended = self.run_job("-c", script, program=["/bin/sh"], env=environment)
                self.assertNotIn("cannot hand", ended.err)
                self.assertTrue(link.is_symlink())
        self.assertEqual(json.loads(target.read_text())["message"]["message"],
                         "ValueError: boom")

    def test_a_limit_on_the_size_of_files_ends_the_record_and_not_the_job(self):
        ended = self.run_job("out", "trained", flags=("--nproc-per-node", "8"),
                             before=("bash", "-c", 'ulimit -f 1; exec "$@"', "bash"))
        self.assertEqual(ended.status, 0)
        self.assertIn("no more events are recorded", ended.err)
        self.assertEqual(ended.out.count("trained"), 8)

    def test_a_broken_error_file_is_shown_as_text(self):
        script = "echo '{no json' > $TORCHELASTIC_ERROR_FILE; exit 3"
        ended = self.run_job("-c", script, program=["/bin/sh"])
        self.assertEqual(ended.status, 3)
        self.assertIn("traceback : {no json\n", ended.err)

    def test_events_tell_the_story_in_order(self):
        self.run_job("exit", "4", flags=("--max-restarts", "1"))
        events = self.events()
        self.assertEqual([event["event"] for event in events],
                         ["job_started",
                          "attempt_started", "worker_started", "worker_failed",
                          "attempt_started", "worker_started", "worker_failed",
                          "job_ended"])
        self.assertEqual([event["sequence"] for event in events], list(range(1, 9)))
        self.assertEqual(events[3]["exit_code"], 4)
        self.assertEqual(events[-1]["exit_status"], 4)


@unittest.skipUnless(os.getuid() == 0, "making a PID namespace needs root")
class OnATerminal(Case):
    def test_a_breakpoint_of_a_single_worker_reads_what_a_person_types(self):
        person, terminal = os.openpty()
        self.addCleanup(os.close, person)
        script = self.directory / "script.py"
        script.write_text("x = 41\nbreakpoint()\nx += 1\nraise SystemExit(x)\n")
        job = subprocess.Popen([self.launcher, "--log-dir", str(self.directory / "logs"), "--", sys.executable, script],
                               stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True)
        self.addCleanup(job.kill)
        os.close(terminal)
        seen = b""
        while b"(Pdb)" not in seen:
            ready, _, _ = select.select([person], [], [], PATIENCE_S)
            self.assertTrue(ready, seen)
            seen += os.read(person, 65536)
        os.write(person, b"x = 6\nc\n")
        self.assertEqual(job.wait(PATIENCE_S), 7)


class OutOfMemory(Case):
    """In a memory cgroup of its own, of version 1 or 2, as a container or a Slurm job has."""

    LIMIT = 512 << 20  # bytes; sanitized programs need some

    def setUp(self):
        super().setUp()
        lines = [line.split(":", 2) for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines()]
        old = [path for _, controllers, path in lines if "memory" in controllers.split(",")]
        new = [path for _, controllers, path in lines if controllers == ""]
        parent = pathlib.Path("/sys/fs/cgroup" + ("/memory" + old[0] if old else new[0] if new else ""))
        self.cgroup = parent / f"ddprun_test_{os.getpid()}"
        try:
            self.cgroup.mkdir()
            self.addCleanup(self.cgroup.rmdir)
            limit = "memory.limit_in_bytes" if old else "memory.max"
            (self.cgroup / limit).write_text(str(self.LIMIT))
        except OSError as error:
            self.skipTest(f"no memory cgroup can be made here: {error}")

    def start_script(self, script):
        return self.start(program=[sys.executable, "-c", script], flags=("--nproc-per-node", "2"),
                          before=["sh", "-c", f'echo $$ >{self.cgroup}/cgroup.procs && exec "$@"', "sh"])

    def failures(self):
        return [event for event in self.events() if event["event"] == "worker_failed"]

    def test_a_worker_that_the_kernel_kills_for_want_of_memory_is_said_to_be(self):
        ended = self.end_of(self.start_script(
            "import os, time\nif os.environ['RANK'] == '1': b'x' * (1 << 30)\ntime.sleep(60)"))
        self.assertEqual(ended.status, 128 + signal.SIGKILL)
        self.assertRegex(ended.err, r"rank 1 \(.*\) was ended by signal 9 \(SIGKILL, by the kernel: out of memory\)")
        self.assertEqual([True, None], [event.get("out_of_memory") for event in self.failures()])

    def test_a_worker_that_somebody_kills_is_not(self):
        job = self.start_script(
            f"import os, time\nopen({self.fifo.path!r}, 'a').write("
            "'worker rank={RANK} attempt=0 pid=%d\\n'.format_map(os.environ) % os.getpid())\ntime.sleep(60)")
        os.kill(self.fifo.read(2)[0].pid, signal.SIGKILL)
        ended = self.end_of(job)
        self.assertIn("was ended by signal 9 (SIGKILL), ", ended.err)
        self.assertNotIn("out_of_memory", self.failures()[0])


class AsTheFirstProcessOfAContainer(Case):
    UNSHARE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")

    def test_it_reaps_and_passes_the_status_up(self):
        ended = self.run_job("daemon", "daemon", "/dev/null", "exit", "5", before=self.UNSHARE)
        self.assertEqual(ended.status, 5)

    def test_it_obeys_sigterm(self):
        job = self.start("note", self.fifo.path, "worker", "hang", before=self.UNSHARE)
        self.fifo.read(1)
        (guard,) = children_of(job.pid)
        os.kill(guard, signal.SIGTERM)
        self.assertEqual(self.end_of(job).status, 128 + signal.SIGTERM)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--launcher", required=True)
    parser.add_argument("--worker", required=True)
    options, rest = parser.parse_known_args(namespace=options)
    unittest.main(argv=[sys.argv[0], *rest])
