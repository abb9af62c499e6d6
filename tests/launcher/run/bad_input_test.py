#!/usr/bin/env python3
"""Bad input to the real ddprun, by name: the message, the exit status, and nothing lost.

    bad_input_test.py --ddprun PATH --fake-worker PATH [unittest arguments]
"""

import argparse
import ctypes
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

DDPRUN = ""
FAKE_WORKER = ""
SECONDS_MAX = 120  # no test depends on time; this ends one that hangs


def environment(**more):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PET_")}
    return {**kept, **more}


CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_NET_BIND_SERVICE = 1, 2, 10


def without(*capabilities):
    """For preexec_fn: makes root an ordinary user in these respects; other users are one already."""

    def drop():
        libc = ctypes.CDLL(None, use_errno=True)
        for capability in capabilities:
            libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP

    return drop


class BadInput(unittest.TestCase):
    def setUp(self):
        self.room = tempfile.mkdtemp(prefix="ddprun_bad_input_")
        self.addCleanup(shutil.rmtree, self.room, ignore_errors=True)

    def run_ddprun(self, *words, preexec_fn=None, stdout=subprocess.PIPE, **more):
        return subprocess.run(
            [DDPRUN, *words],
            cwd=self.room,
            env=environment(TMPDIR=self.room, **more),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            timeout=SECONDS_MAX,
            preexec_fn=preexec_fn,
        )

    def assert_refused(self, ended, status, *parts):
        """One line that has all of `parts`, the status, and nothing started."""
        self.assertEqual(status, ended.returncode, ended.stderr)
        self.assertEqual(1, ended.stderr.count("\n"), ended.stderr)
        self.assertTrue(ended.stderr.startswith("ddprun: "), ended.stderr)
        for part in parts:
            self.assertIn(part, ended.stderr)
        self.assertEqual("", ended.stdout)

    def log(self, name, directory="logs"):
        found = [
            os.path.join(base, file)
            for base, _, files in os.walk(os.path.join(self.room, directory))
            for file in files
            if os.path.join(base, file).endswith(name)
        ]
        self.assertEqual(1, len(found), found)
        return found[0]

    def test_wrong_flag(self):
        ended = self.run_ddprun("--nproc-per-nodes", "2", FAKE_WORKER, "out", "started")
        self.assert_refused(ended, 2, "--nproc-per-nodes", "did you mean --nproc-per-node?")

    def test_wrong_variable(self):
        ended = self.run_ddprun(FAKE_WORKER, "out", "started", PET_NPROC_PER_NODE="many")
        self.assert_refused(ended, 2, "PET_NPROC_PER_NODE 'many'", "expected a number")

    def test_wrong_log_level(self):
        ended = self.run_ddprun(FAKE_WORKER, "out", "started", LOGLEVEL="LOUD")
        self.assert_refused(ended, 2, "LOGLEVEL 'LOUD'", "WARNING")

    def test_wrong_flag_with_stderr_closed(self):
        """The error cannot be printed, but the status is that of the error."""
        words = ["sh", "-c", 'exec "$0" "$@" 2>&-', DDPRUN, "--nproc-per-nodes", "2", "script"]
        ended = subprocess.run(words, env=environment(), timeout=SECONDS_MAX)
        self.assertEqual(2, ended.returncode)

    def test_help_that_cannot_be_written(self):
        with open("/dev/full", "w") as full:
            ended = subprocess.run(
                [DDPRUN, "--help"], stdout=full, stderr=subprocess.PIPE, text=True,
                env=environment(), timeout=SECONDS_MAX,
            )  # fmt: skip
        self.assertEqual(75, ended.returncode, ended.stderr)
        self.assertEqual(
            "ddprun: cannot write to stdout: No space left on device\n", ended.stderr
        )

    def test_no_script(self):
        self.assert_refused(self.run_ddprun("--standalone"), 2, "no script given")

    def test_bad_range(self):
        ended = self.run_ddprun("--nnodes", "1:2:3", FAKE_WORKER, "out", "started")
        self.assert_refused(ended, 2, "--nnodes '1:2:3'", "expected N or MIN:MAX")

    def test_several_nodes_without_an_endpoint(self):
        ended = self.run_ddprun("--nnodes", "2", FAKE_WORKER, "out", "started")
        self.assert_refused(ended, 2, "--nnodes '2'", "give --master-addr")

    def test_several_nodes_without_ranks_and_another_machine_as_the_first(self):
        words = ["--nnodes", "2", "--master-addr", "192.0.2.1"]
        ended = self.run_ddprun(*words, FAKE_WORKER, "out", "started")
        self.assert_refused(ended, 2, "--master-addr '192.0.2.1'", "give --node-rank")

    def test_local_address_of_another_machine(self):
        words = ["--nnodes", "2", "--master-addr", "127.0.0.1"]
        for address, why in (
            ("192.0.2.1", "is not an address of this machine"),
            ("0.0.0.0", "stands for all addresses"),
            ("224.0.0.1", "stands for many machines"),
            ("255.255.255.255", "stands for many machines"),
            ("iface:eth-none", "there is no interface 'eth-none' here, only lo"),
        ):
            ended = self.run_ddprun(*words, "--local-addr", address, FAKE_WORKER, "out", "started")
            self.assert_refused(ended, 2, f"--local-addr '{address}': ", why)

    def test_interface_as_the_local_address_of_one_node(self):
        ended = self.run_ddprun(
            "--local-addr", "iface:lo", "--no-python", "sh", "-c", "echo at $MASTER_ADDR"
        )
        self.assertEqual((0, "at 127.0.0.1\n"), (ended.returncode, ended.stdout), ended.stderr)

    def test_secret_file_that_is_not_there(self):
        ended = self.run_ddprun("--secret-file", "none", FAKE_WORKER, "out", "started")
        self.assert_refused(ended, 2, "--secret-file: none: No such file", "the secret of the job")

    def test_fence_directory_that_is_not_there(self):
        ended = self.run_ddprun("--fence-dir", "/no/fence", FAKE_WORKER, "out", "started")
        self.assert_refused(ended, 2, "--fence-dir '/no/fence': /no/fence: No such file", "all nodes share")

    def test_file_in_place_of_the_fence_directory(self):
        file = os.path.join(self.room, "file")
        open(file, "w").close()
        ended = self.run_ddprun(FAKE_WORKER, "out", "started", PET_FENCE_DIR=file)
        self.assert_refused(ended, 2, "PET_FENCE_DIR", file, "Not a directory", "all nodes share")

    def test_fence_directory_that_cannot_be_written(self):
        # Not even root can create files in /proc.
        ended = self.run_ddprun("--fence-dir", "/proc", FAKE_WORKER, "out", "started")
        self.assert_refused(ended, 2, "--fence-dir '/proc'", "create and link files")

    def test_fence_directory_is_left_as_it_was(self):
        directory = os.path.join(self.room, "fence")
        os.mkdir(directory)
        ended = self.run_ddprun("--fence-dir", directory, FAKE_WORKER, "exit", "0")
        self.assertEqual(0, ended.returncode, ended.stderr)
        self.assertEqual([], os.listdir(directory))

    def test_another_machine_as_endpoint(self):
        ended = self.run_ddprun("--master-addr", "192.0.2.1", FAKE_WORKER, "out", "started")
        self.assert_refused(ended, 2, "--master-addr '192.0.2.1'", "--nnodes")

    def test_missing_script(self):
        ended = self.run_ddprun("no_such.py")
        self.assert_refused(ended, 127, "script 'no_such.py'", "No such file", self.room)

    def test_missing_program(self):
        ended = self.run_ddprun("--no-python", "no_such_program")
        self.assert_refused(ended, 127, "program 'no_such_program' is not on PATH")

    def test_not_executable(self):
        script = os.path.join(self.room, "job.sh")
        with open(script, "w") as file:
            file.write("#!/bin/sh\n")
        self.assert_refused(self.run_ddprun(script), 126, script, "chmod +x")

    def test_script_that_cannot_be_read(self):
        script = os.path.join(self.room, "train.py")
        open(script, "w").close()
        os.chmod(script, 0)
        for words in ([script], ["--run-path", script]):
            ended = self.run_ddprun(
                *words, preexec_fn=without(CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH)
            )
            self.assert_refused(ended, 126, script, "Permission denied", "chmod +r")

    def test_missing_python(self):
        script = os.path.join(self.room, "train.py")
        open(script, "w").close()
        ended = self.run_ddprun(script, PYTHON_EXEC="/no/such/python")
        self.assert_refused(ended, 127, "PYTHON_EXEC '/no/such/python'", "unset it")

    def test_port_in_use(self):
        with socket.create_server(("", 0)) as taken:
            port = str(taken.getsockname()[1])
            ended = self.run_ddprun("--master-port", port, FAKE_WORKER, "out", "started")
            with open("/proc/self/comm") as name:
                self.assert_refused(ended, 75, f"port {port} is used by {name.read().strip()} "
                                    f"(pid {os.getpid()}); ")

    def test_port_that_only_root_may_take(self):
        with open("/proc/sys/net/ipv4/ip_unprivileged_port_start") as file:
            port = int(file.read()) - 1
        if port < 1:
            self.skipTest("every user may take every port here")
        ended = self.run_ddprun(
            "--master-port", str(port), FAKE_WORKER, "out", "started",
            preexec_fn=without(CAP_NET_BIND_SERVICE),
        )  # fmt: skip
        self.assert_refused(ended, 2, str(port), "Permission denied", "choose a port from 1024 on")

    def test_flags_for_ranks_that_do_not_exist_are_told(self):
        ended = self.run_ddprun("--local-ranks-filter", "0,9", FAKE_WORKER, "exit", "0")
        self.assertEqual(0, ended.returncode, ended.stderr)
        self.assertIn("ddprun: warning: --local-ranks-filter '0,9': there is no local rank 9", ended.stderr)

    def test_unwritable_log_directory(self):
        # Not even root can write to /proc.
        ended = self.run_ddprun("--log-dir", "/proc/logs", FAKE_WORKER, "out", "started")
        self.assert_refused(ended, 2, "/proc/logs", "--log-dir")

    def test_file_in_place_of_the_log_directory(self):
        file = os.path.join(self.room, "file")
        open(file, "w").close()
        ended = self.run_ddprun("--log-dir", file, FAKE_WORKER, "out", "started")
        self.assert_refused(ended, 2, file, "--log-dir")

    def test_worker_that_ignores_sigterm(self):
        note = os.path.join(self.room, "pid")
        os.mkfifo(note)
        job = subprocess.Popen(
            [DDPRUN, "--shutdown-timeout", "0.2", FAKE_WORKER]
            + ["ignore", "SIGTERM", "note", note, "running", "hang"],
            env=environment(TMPDIR=self.room),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        with open(note) as told:  # opens once the worker writes, after its `ignore`
            pid = int(re.search(r"pid=(\d+)", told.readline()).group(1))
        job.send_signal(signal.SIGTERM)
        _, stderr = job.communicate(timeout=SECONDS_MAX)
        self.assertEqual(128 + signal.SIGTERM, job.returncode, stderr)
        self.assertIn("SIGTERM", stderr)
        with self.assertRaises(ProcessLookupError):
            os.kill(pid, 0)

    def test_worker_that_closes_its_outputs(self):
        words = ["out", "said before", "close", "exit", "7"]
        ended = self.run_ddprun("-t", "3", "--log-dir", "logs", FAKE_WORKER, *words)
        self.assertEqual(7, ended.returncode, ended.stderr)
        self.assertEqual("[default0]:said before\n", ended.stdout)
        with open(self.log("0/stdout.log")) as log:
            self.assertEqual("said before\n", log.read())

    def test_console_on_a_full_disk(self):
        with open("/dev/full", "w") as full:
            ended = self.run_ddprun("-t", "3", "--log-dir", "logs", FAKE_WORKER, "out", "said",
                                    stdout=full)
        self.assertEqual(0, ended.returncode, ended.stderr)
        self.assertIn("stdout did not take all output", ended.stderr)
        with open(self.log("0/stdout.log")) as log:
            self.assertEqual("said\n", log.read())
        with open(self.log("events.jsonl")) as events:
            self.assertIn("output_lost", events.read())

    def test_worker_that_writes_a_gigabyte_without_a_newline(self):
        count = 1 << (26 if "sanitized" in os.environ.get("DDPRUN_TEST_BUILD", "") else 30)
        ended = self.run_ddprun(
            "-t", "1", "--log-dir", "logs", "--local-ranks-filter", "9",
            FAKE_WORKER, "flood", str(count),
        )  # fmt: skip
        self.assertEqual(0, ended.returncode, ended.stderr)
        self.assertEqual(count, os.path.getsize(self.log("0/stdout.log")))

    def test_worker_that_writes_a_gigabyte_without_a_newline_to_stderr(self):
        """Passed on byte for byte, and ddprun's memory does not grow with it."""
        count = 1 << (26 if "sanitized" in os.environ.get("DDPRUN_TEST_BUILD", "") else 30)
        script = os.path.join(self.room, "flood.sh")
        with open(script, "w") as file:
            file.write('#!/bin/sh\nexec "$@" 1>&2\n')
        os.chmod(script, 0o755)
        job = subprocess.Popen(
            [DDPRUN, script, FAKE_WORKER, "flood", str(count)],
            env=environment(TMPDIR=self.room),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        passed = 0
        while block := job.stderr.read(1 << 20):
            passed += len(block)
        job.stderr.close()
        _, status, usage = os.wait4(job.pid, 0)
        job.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(0, job.returncode)
        self.assertEqual(count, passed)
        if "sanitized" not in os.environ.get("DDPRUN_TEST_BUILD", ""):
            self.assertLess(usage.ru_maxrss, 64 * 1024, "KiB")


SANITIZED = "sanitized" in os.environ.get("DDPRUN_TEST_BUILD", "")


class Limits(unittest.TestCase):
    """Whatever the kernel refuses to ddprun, at whatever point, ddprun names it and ends."""

    def setUp(self):
        self.room = tempfile.mkdtemp(prefix="ddprun_limits_")
        self.addCleanup(shutil.rmtree, self.room, ignore_errors=True)
        os.chmod(self.room, 0o777)

    def run_under(self, kind, limit, **how):
        """Two workers under the limit; the programs are where every user may read them."""
        ddprun, worker = (shutil.copy(path, self.room) for path in (DDPRUN, FAKE_WORKER))
        return subprocess.run(
            [ddprun, "--nproc-per-node", "2", worker, "out", "started"],
            cwd=self.room,
            env=environment(TMPDIR=self.room, ASAN_OPTIONS="detect_leaks=0"),  # it forks as well
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            preexec_fn=lambda: resource.setrlimit(kind, (limit, limit)),
            **how,
        )

    def refused_until_it_runs(self, limits, kind, remedy, **how):
        """How many limits were too low, each with a message that names it and the remedy."""
        for refused, limit in enumerate(limits):
            ended = self.run_under(kind, limit, **how)
            if ended.returncode == 0:
                self.assertEqual(("started\n" * 2, ""), (ended.stdout, ended.stderr))
                return refused
            self.assertEqual(75, ended.returncode, (limit, ended.stderr))
            self.assertRegex(ended.stderr, rf"may (have|open) {limit} .*raise the limit.*{remedy}")
        self.fail(f"it ran under none of {limits}")

    @unittest.skipUnless(os.getuid() == 0, "only root can become a user with no other process")
    def test_too_few_processes_for_the_agent_for_a_thread_of_its_or_for_a_worker(self):
        nobody_else = {"user": 100_000 + os.getpid(), "group": 65534, "extra_groups": []}
        refused = self.refused_until_it_runs(
            range(1, 32), resource.RLIMIT_NPROC, "ulimit -u", **nobody_else)
        self.assertGreaterEqual(refused, 5)  # the agent, three threads, a worker

    @unittest.skipIf(SANITIZED, "UBSan opens files of its own to look at memory")
    def test_too_few_open_files(self):
        refused = self.refused_until_it_runs(range(6, 64), resource.RLIMIT_NOFILE, "ulimit -n")
        self.assertGreaterEqual(refused, 5)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddprun", required=True)
    parser.add_argument("--fake-worker", required=True)
    known, rest = parser.parse_known_args()
    DDPRUN, FAKE_WORKER = map(os.path.abspath, (known.ddprun, known.fake_worker))
    unittest.main(argv=[sys.argv[0], *rest])
