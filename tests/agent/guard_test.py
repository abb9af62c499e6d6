"""What the guard holds and kills for its agent, with real processes and sockets:

    guard_test.py --guarded GUARDED --worker FAKE_WORKER [unittest arguments]

GUARDED is the guard with an agent that does what its arguments say (tests/support). This test is the
node at the other end of its lifelines.
"""

import argparse
import contextlib
import os
import resource
import select
import signal
import socket
import statistics
import subprocess
import sys
import time
import unittest

import processes_test
from processes_test import PATIENCE_S, Watched, await_ends, children_of
from refused_adoption import needs_refusal, refuse_adoption

NODES = 1000


def have_ended(watched):
    """Whether each of the processes has ended by now."""
    return [bool(select.select([process.pidfd], [], [], 0)[0]) for process in watched]


class Case(processes_test.Case):
    def setUp(self):
        super().setUp()
        self.server = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self.server.settimeout(PATIENCE_S)
        self.addCleanup(self.server.close)
        self.port = str(self.server.getsockname()[1])
        # A worker, a child that ignores SIGTERM, and a grandchild in a session of its own.
        path = self.fifo.path
        self.family = ("worker", self.worker, "child", "child", path, "daemon", "daemon", path,
                       "note", path, "worker", "ignore", "SIGTERM", "hang", ";")

    def start_guarded(self, *words, most=None, ignored=None, adopts=True):
        """The guard, with an agent that does `words`. They have as few descriptors as a login gives, and
        `most` if they ask for more. The agent ignores the signal `ignored`. Both may adopt orphans if `adopts`."""
        most = most or resource.getrlimit(resource.RLIMIT_NOFILE)[1]

        def prepare():
            resource.setrlimit(resource.RLIMIT_NOFILE, (256, most))
            if ignored:
                signal.signal(ignored, signal.SIG_IGN)  # the guard takes it from a queue
            if not adopts:
                refuse_adoption()

        job = subprocess.Popen(
            [options.guarded, *words], stdin=subprocess.DEVNULL, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, preexec_fn=prepare)
        self.addCleanup(self.clean_up, job)
        return job

    @staticmethod
    def allow_descriptors(count):
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, most))

    def agent_of(self, job):
        """After it has done something."""
        (agent,) = children_of(job.pid)
        return self.watch(agent)

    def watch(self, pid):
        watched = Watched(pid)
        self.addCleanup(os.close, watched.pidfd)
        self.addCleanup(watched.kill)
        return watched

    def members(self):
        """The family by role, once all three run."""
        return {note.text: self.watch(note.pid) for note in self.fifo.read(3)}

    def accept(self):
        line, _ = self.server.accept()
        line.settimeout(PATIENCE_S)
        self.addCleanup(line.close)
        return line

    def assert_goodbye(self, line):
        self.assertEqual(line.recv(2), b"F")
        self.assertEqual(line.recv(1), b"")


class OtherNodesLines(Case):
    """The goodbye that a leader's node sends to its followers."""

    def start_family(self):
        job = self.start_guarded("ends", self.port, "1", *self.family)
        line = self.accept()
        members = self.members()
        return job, self.agent_of(job), line, list(members.values())

    def test_the_goodbye_of_a_killed_agent_comes_when_nothing_of_its_node_is_left(self):
        for _ in range(20):
            _, agent, line, members = self.start_family()
            agent.kill()
            self.assertEqual(line.recv(2), b"F")
            self.assertEqual(have_ended([agent, *members]), [True] * 4)
            self.assertEqual(line.recv(1), b"")

    def test_the_agent_sends_it_if_the_guard_was_killed(self):
        for _ in range(20):
            job, _, line, members = self.start_family()
            job.kill()
            self.assertEqual(line.recv(2), b"F")
            self.assertEqual(have_ended(members), [True] * 3)
            self.assertEqual(line.recv(1), b"")

    def test_nobody_says_it_where_both_were_killed(self):
        job, _, line, _ = self.start_family()
        os.killpg(job.pid, signal.SIGKILL)
        self.assertEqual(line.recv(1), b"")

    def test_an_agent_that_ends_in_order_leaves_with_it(self):
        job = self.start_guarded("ends", self.port, "1", "exit", "3")
        self.assert_goodbye(self.accept())
        self.assertEqual(self.end_of(job).status, 3)

    def test_a_line_that_was_let_go_ends_at_once_and_without_it(self):
        job = self.start_guarded("ends", self.port, "1", "drop", *self.family)
        self.assertEqual(self.accept().recv(1), b"")
        self.assertIsNone(job.poll())

    def test_a_thousand_nodes_are_told(self):
        self.allow_descriptors(2 * NODES)
        # The guard handles orders in turn: once the released line has ended, it holds all others.
        job = self.start_guarded("ends", self.port, str(NODES + 1), "drop")
        lines = [self.accept() for _ in range(NODES + 1)]
        self.assertEqual(lines.pop(0).recv(1), b"")
        self.agent_of(job).kill()
        for line in lines:
            self.assert_goodbye(line)

    def test_a_guard_that_was_stopped_gets_all_it_missed(self):
        self.allow_descriptors(2 * NODES)
        path = str(self.directory / "go")
        os.mkfifo(path)
        # One order at a time, until the kernel's buffer for the guard is full.
        job = self.start_guarded(*self.family, "read", path,
                                 *(("ends", self.port, "1") * (NODES + 1)), "drop")
        self.members()
        agent = self.agent_of(job)
        job.send_signal(signal.SIGSTOP)
        with open(path, "wb") as go:
            go.write(b"x")
        lines = [self.accept() for _ in range(NODES + 1)]
        job.send_signal(signal.SIGCONT)
        self.assertEqual(lines.pop(0).recv(1), b"")
        agent.kill()
        for line in lines:
            self.assert_goodbye(line)


class OurLine(Case):
    def test_it_ends_without_a_word_when_nothing_of_the_node_is_left(self):
        for _ in range(20):
            job = self.start_guarded("line", self.port, *self.family)
            line = self.accept()
            members = self.members()
            agent = self.agent_of(job)
            agent.kill()
            self.assertEqual(line.recv(1), b"")
            self.assertEqual(have_ended([agent, *members.values()]), [True] * 4)

    def test_a_worker_that_nobody_is_left_to_end_keeps_it_open(self):
        job = self.start_guarded("line", self.port, *self.family)
        line = self.accept()
        members = self.members()
        agent = self.agent_of(job)
        os.killpg(job.pid, signal.SIGKILL)
        await_ends([agent, self.watch(job.pid), members["worker"]])
        line.setblocking(False)
        self.assertRaises(BlockingIOError, line.recv, 1)
        line.settimeout(PATIENCE_S)
        for member in members.values():
            member.kill()
        self.assertEqual(line.recv(1), b"")


    def numbers_in_worker(self, most=None):
        """The descriptor numbers of a worker's sockets, if the worker itself may open only 64 files."""
        listing = ("ulimit -Sn 64; for file in /proc/$$/fd/*; do case $(readlink $file) in "
                   "socket*) echo ${file##*/};; esac; done; echo end; read forever")
        path = str(self.directory / "stdin")
        os.mkfifo(path)
        job = self.start_guarded("line", self.port, "worker", "/bin/sh", "-c",
                                 f"exec 0<>{path}; {listing}", ";", most=most)
        line = self.accept()
        numbers = [int(number) for number in iter(job.stdout.readline, "end\n")]
        self.agent_of(job).kill()
        self.assertEqual(line.recv(1), b"")
        return numbers

    def test_a_worker_holds_it_out_of_the_way_of_select(self):
        (number,) = self.numbers_in_worker()
        self.assertGreaterEqual(number, 1024)

    def test_a_worker_holds_it_where_no_such_number_is_allowed(self):
        (number,) = self.numbers_in_worker(most=512)
        self.assertLess(number, 512)


class WhatAnAgentLeaves(Case):
    def test_a_process_whose_first_thread_has_ended_is_killed_too(self):
        """The kernel shows it as a zombie, but its other threads run on."""
        path = self.fifo.path
        job = self.start_guarded("worker", self.worker, "headless", "headless", path, "note", path, "worker",
                                 "hang", ";")
        watched = [self.watch(note.pid) for note in self.fifo.read(2)]
        self.agent_of(job).kill()
        self.assertEqual(self.end_of(job).status, 137)
        self.assertEqual(have_ended(watched), [True] * 2)


@needs_refusal
class WhereNobodyMayAdopt(Case):
    """A process that its worker has detached is not seen any more: the goodbye would say that none is left."""

    def start_family(self):
        job = self.start_guarded("ends", self.port, "1", *self.family, adopts=False)
        line = self.accept()
        members = self.members()
        return job, self.agent_of(job), line, members

    def assert_no_goodbye(self, line, members):
        self.assertEqual(line.recv(1), b"")  # the survivor has ended
        await_ends([members["worker"]])
        self.assertEqual(have_ended([members["daemon"]]), [False])

    def test_the_agent_sends_no_goodbye_if_the_guard_was_killed(self):
        job, _, line, members = self.start_family()
        job.kill()
        self.assert_no_goodbye(line, members)

    def test_the_guard_sends_no_goodbye_if_the_agent_was_killed(self):
        _, agent, line, members = self.start_family()
        agent.kill()
        self.assert_no_goodbye(line, members)


class WithoutMemory(Case):
    """The machine may have no memory left: an allocation of the guard, from its fork on, ends it by SIGABRT."""

    def test_a_guard_that_gets_no_memory_kills_all_that_a_killed_agent_left(self):
        job = self.start_guarded("line", self.port, "ends", self.port, "1", *self.family)
        own, end = self.accept(), self.accept()
        members = self.members()
        agent = self.agent_of(job)
        agent.kill()
        self.assert_goodbye(end)
        self.assertEqual(own.recv(1), b"")
        ended = self.end_of(job)
        self.assertEqual(
            (137, f"ddprun: the agent (pid {agent.pid}) was ended by SIGKILL; every process of the job on this "
                  "node was killed; exit status 137\n"), (ended.status, ended.err))
        self.assertEqual(have_ended(members.values()), [True] * 3)

    def test_an_agent_that_gets_no_memory_kills_all_that_is_below_it_when_its_guard_is_killed(self):
        job = self.start_guarded("ends", self.port, "1", *self.family, "hungry")
        line = self.accept()
        members = self.members()
        self.assertEqual(job.stdout.readline(), "hungry\n")
        job.kill()
        self.assert_goodbye(line)
        self.assertEqual(have_ended(members.values()), [True] * 3)
        self.assertIn("every process of the job on this node was killed\n", self.end_of(job).err)

    def test_none_of_a_thousand_processes_outlives_it_however_deep_they_are(self):
        held = str(self.directory / "held")
        os.mkfifo(held)
        with open(os.open(held, os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0) as alive:
            job = self.start_guarded("worker", self.worker, "hold", held, "chain", "100", "crowd", "1100",
                                     "note", self.fifo.path, "worker", "hang", ";")
            self.fifo.read(1)
            self.agent_of(job).kill()
            self.assertEqual(self.end_of(job).status, 137)
            self.assertEqual(alive.read(1), b"")  # else it would block, and yield None


class Lease(Case):
    """R8: a node whose lease ran out has no workers."""

    def test_the_guard_ends_everything_if_the_agent_is_stopped(self):
        late_ms = []
        for _ in range(10):
            job = self.start_guarded("ends", self.port, "1", *self.family, "running", "1",
                                     "lease", "500", "stop")
            line = self.accept()
            agent = self.agent_of(job)  # before its lease begins, which ends it
            members = self.members()
            until_ns = int(job.stdout.readline())
            select.select([process.pidfd for process in members.values()], [], [], PATIENCE_S)
            late_ms.append((time.clock_gettime_ns(time.CLOCK_BOOTTIME) - until_ns) / 1e6)
            await_ends([agent, *members.values()])
            self.assert_goodbye(line)
            ended = self.end_of(job)
            self.assertEqual(ended.status, 75)
            self.assertIn("this node's lease ran out", ended.err)
            self.assertNotIn("was ended by SIGKILL", ended.err)
        print(f"\n{self.id()}: the first worker was dead {statistics.median(late_ms):.1f} ms "
              f"(median) to {max(late_ms):.1f} ms after the end of the lease", flush=True)

    def test_an_agent_that_dies_of_its_lease_while_signals_keep_the_guard_busy_returns_after_a_suspension(self):
        """A guard that had read the clock just before took the agent's end for a kill by a person."""
        suspensions = 0
        while suspensions < 3:
            job = self.start_guarded("running", "1", "lease", "2000", ignored=signal.SIGRTMIN)
            until_ns = int(job.stdout.readline())
            job.send_signal(signal.SIGSTOP)
            if time.clock_gettime_ns(time.CLOCK_BOOTTIME) >= until_ns:  # no suspension ended this lease
                job.send_signal(signal.SIGCONT)
                self.end_of(job)
                continue
            suspensions += 1
            # The guard reads them one by one, which takes longer than the rest of the lease.
            with contextlib.suppress(BlockingIOError):  # as many as may wait (ulimit -i)
                for _ in range(60_000):
                    os.kill(job.pid, signal.SIGRTMIN)
            time.sleep(max(0, until_ns - 25_000_000 - time.clock_gettime_ns(time.CLOCK_BOOTTIME)) / 1e9)
            job.send_signal(signal.SIGCONT)
            ended = self.end_of(job)
            # The status of the agent that replaced it, which was not suspended.
            self.assertEqual((75, 1), (ended.status, ended.out.count("\n")), ended.err)

    def test_one_that_is_over_when_workers_begin_to_run_counts_at_once(self):
        job = self.start_guarded("lease", "0", *self.family, "running", "1")
        self.assertEqual(self.end_of(job).status, 75)

    def status_after_sigterm(self, *words):
        """The guard checks the lease before it forwards the signal."""
        job = self.start_guarded(*words, "ends", self.port, "1", "drop")
        self.assertEqual(self.accept().recv(1), b"")
        job.send_signal(signal.SIGTERM)
        return self.end_of(job).status

    def test_it_matters_only_while_workers_run(self):
        self.assertEqual(self.status_after_sigterm("lease", "0"), 128 + signal.SIGTERM)
        self.assertEqual(self.status_after_sigterm("running", "1", "running", "0", "lease", "0"),
                         128 + signal.SIGTERM)

    def test_the_latest_one_counts(self):
        words = ("lease", "0", "lease", "none", "running", "1")
        self.assertEqual(self.status_after_sigterm(*words), 128 + signal.SIGTERM)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--guarded", required=True)
    parser.add_argument("--worker", required=True)
    options, rest = parser.parse_known_args(namespace=processes_test.options)
    options.launcher = options.guarded
    unittest.main(argv=[sys.argv[0], *rest])
