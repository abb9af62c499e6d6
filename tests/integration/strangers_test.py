"""Foreign nodes and programs, and whatever keeps the nodes of a job apart: the messages, the exit status, and that
the running job is not affected.

    strangers_test.py --ddprun PROGRAM --round-worker PROGRAM [unittest arguments]

Several ddprun on the loopback, as in several terminals; namespaces only where addresses matter.
"""

import argparse
import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import unittest

import rounds
from drill import PATIENCE_S, Drill

USAGE, TRY_AGAIN = 2, 75

options = argparse.Namespace()


def reserved_port(test):
    """Nodes must agree on a port, so ddprun cannot choose it. Until the test ends the kernel gives it to no other
    process, but a process that names it may listen there."""
    reservation = test.enterContext(socket.socket())
    reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reservation.bind(("127.0.0.1", 0))
    return reservation.getsockname()[1]


class Terminals:
    """A Network for Drill on this machine itself: ddprun kills its own processes."""

    def __init__(self):
        self._processes = {}
        self._node = 0

    def __getitem__(self, node):
        self._node = node
        return self

    def popen(self, words, **more):
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, **more)
        self._processes[self._node] = process
        return process

    def kill(self):
        self._processes[self._node].kill()


class Strangers(unittest.TestCase):
    def setUp(self):
        self.port = reserved_port(self)
        self.drill = self.enterContext(
            Drill(Terminals(), options.ddprun, options.round_worker))
        self.room = pathlib.Path(self.drill.room)
        self.expected = []

    def elastic(self, nodes="2", *more, rdzv_id="job", host="127.0.0.1", join_timeout=60,
                conf=""):
        return ("--nnodes", nodes, "--rdzv-backend", "c10d",
                "--rdzv-endpoint", f"{host}:{self.port}", "--rdzv-id", rdzv_id, "--rdzv-conf",
                f"join_timeout={join_timeout},last_call_timeout=0.2{conf}", "--no-python", *more)

    def start_job(self, *flags):
        """A job of two nodes, running."""
        for node in range(2):
            self.drill.start(node, *flags)
        self.round = self.drill.await_round(workers=2)

    def start_alone(self, *flags, program=None, **environment):
        """One ddprun outside the drill, whose output can be read."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PET_", "DDPRUN_SECRET"))}
        job = subprocess.Popen(
            [options.ddprun, *flags, program or options.round_worker, str(self.room / "strange"),
             str(self.room / "stop")],
            env={**kept, **environment, "TMPDIR": str(self.room)}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(job.stdout.close)
        self.addCleanup(job.wait)
        self.addCleanup(job.terminate)  # kill would leave the workers for a moment
        return job

    def run_alone(self, *flags, program=None, **environment):
        """The same, until it has ended."""
        job = self.start_alone(*flags, program=program, **environment)
        said, _ = job.communicate(timeout=PATIENCE_S)
        return subprocess.CompletedProcess(job.args, job.returncode, said)

    def expect_line(self, *parts):
        """Once the job has ended, one of its lines has all of `parts`."""
        self.expected.append(parts)

    def assert_refused(self, ended, status, *parts):
        """One line, with all of `parts`; no worker has run."""
        self.assertEqual(status, ended.returncode, ended.stdout)
        self.assertEqual(1, ended.stdout.count("\n"), ended.stdout)
        for part in parts:
            self.assertIn(part, ended.stdout)
        self.assertFalse((self.room / "strange").exists(), "a worker has run")

    def finish_unharmed(self):
        """The processes of the only round end with 0."""
        self.drill.finish()
        moments = self.drill.moments()
        self.assertEqual({self.round.key}, rounds.rounds_of(moments).keys(), self.drill.account())
        self.assertEqual({moment.pid for moment in self.round.moments},
                         {moment.pid for moment in moments})
        self.drill.judge(self)
        lines = self.drill.account().splitlines()
        for parts in self.expected:
            self.assertTrue(any(all(part in line for part in parts) for line in lines),
                            f"nobody said {parts}:\n{self.drill.account()}")

    def write(self, name, text):
        path = self.room / name
        path.write_text(text)
        path.chmod(0o600)  # as a secret must be
        return str(path)


class AtThePort(Strangers):
    """Connections to the port of a running job."""

    def setUp(self):
        super().setUp()
        self.start_job(*self.elastic("2:2"))

    def say(self, words):
        """The reply before the connection is closed."""
        answer = b""
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S) as stranger:
            with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                stranger.sendall(words)
                while block := stranger.recv(1 << 16):
                    answer += block
            return answer, "%s:%s" % stranger.getsockname()

    def test_a_strangers_bytes(self):
        for words, why in (
            (b"SSH-2.0-OpenSSH_9.2\r\n", "neither a c10d store client, nor an agent, nor HTTP"),
            (b"\x16\x03\x01\x02\x00\x01", "neither a c10d store client, nor an agent, nor HTTP"),
            (b"\x00" * 5, "closed: "),
            (b"\xddRN\x05" + b"\xff" * 4, "a frame of 4294967295 bytes; the limit is 65536"),
            (b"\xddRN\x05\x00\x00\x00\x02no", "message: it is not valid JSON"),
            (b"\xddRL\x05\x00\x00\x00\x02{}", "lifeline: hello.job is missing"),
        ):
            with self.subTest(words=words):
                _, who = self.say(words)
                self.expect_line(who, why)
        self.finish_unharmed()

    def test_garbage_in_http(self):
        for words in (b"GET /" + b"x" * 100_000, b"GET / HTTP/9.9\r\n\r\n", b"GET \x00\xff\r\n\r\n",
                      b"POST /status HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n"):
            with self.subTest(words=words[:40]):
                self.assertRegex(self.say(words)[0], rb"\AHTTP/1.1 [45]\d\d |\A\Z")
        self.finish_unharmed()

    def test_another_protocol_version(self):
        answer, who = self.say(b"\xddRN\x07")
        refusal = json.loads(answer[4:])
        self.assertEqual(("refuse", USAGE), (refusal["type"], refusal["exit_status"]))
        why = ("the caller speaks version 7 of the agents' protocol, and the node that it called version 5; "
               "start the same ddprun on every node")
        self.assertEqual(why, refusal["why"])
        self.expect_line(who, why)
        self.finish_unharmed()

    def test_another_job_id(self):
        self.assert_refused(
            self.run_alone(*self.elastic("2:2", rdzv_id="other")), USAGE,
            f"127.0.0.1:{self.port}: job 'job' runs there (on {socket.gethostname()}), not 'other'; "
            "give another endpoint, or the same --rdzv-id")
        self.finish_unharmed()

    def test_nodes_that_disagree(self):
        self.assert_refused(
            self.run_alone(*self.elastic("3")), USAGE, f"127.0.0.1:{self.port}: --nnodes 3:3 on ",
            ", but 2:2 on the leader ", "give the same on every node")
        self.finish_unharmed()

    # Else the next leader would use another budget, or other rules for which nodes live.
    def test_nodes_that_disagree_on_what_the_next_leader_goes_by(self):
        for flags, said in ((("--max-restarts", "7"), "--max-restarts 7 on "),
                            (("--lease", "2"), "--lease 2 on "),
                            (("--fence-dir", self.room), "--fence-dir on "),
                            (("--trust-replacement=on",), "--trust-replacement=on on ")):
            self.assert_refused(self.run_alone(*self.elastic("2", *flags)), USAGE, said,
                                "on the leader ", "give the same on every node")
        self.finish_unharmed()

    def test_more_agents_than_max_stand_by_and_are_told_so(self):
        host = socket.gethostname()
        spare = self.start_alone(*self.elastic("2:2"))
        line = spare.stdout.readline()
        self.assertIn("job 'job' already has all 2 nodes; this node stands by as a spare, and takes over when "
                      f"a node is lost ({host} leads, and runs ", line)
        self.assertIn(f"{options.round_worker} ", line)
        wanted = self.start_alone(*self.elastic("2:2", "--spares"))
        self.assertIn("stands by", wanted.stdout.readline())
        self.expect_line(f"node {host} runs ", f", and the leader {host}: ")  # other arguments
        self.finish_unharmed()
        said, _ = spare.communicate(timeout=PATIENCE_S)
        self.assertEqual(TRY_AGAIN, spare.returncode, said)
        self.assertIn("job 'job' is done, and this node has never taken part in it", said)
        self.assertEqual(("", 0), (wanted.communicate(timeout=PATIENCE_S)[0], wanted.returncode))


class SecondJob(Strangers):
    """Another program, or another role, at the endpoint of a job (second_job_drill.py: where nodes are
    lost as well)."""

    def other(self, name="second_job"):
        path = self.room / name
        path.parent.mkdir(exist_ok=True)
        path.symlink_to(options.round_worker)
        return str(path)

    def assert_names_both(self, ended, *parts):
        host = socket.gethostname()
        self.assert_refused(ended, USAGE, f"127.0.0.1:{self.port}: job 'job' of ", f" (on {host}: ",
                            " runs there, not ", "give a second job another --rdzv-endpoint", *parts)

    def test_another_program_is_refused_by_the_leader_and_by_who_follows(self):
        leader, follower = self.port, reserved_port(self)
        self.drill.start(0, *self.elastic(conf=",is_host=true"))
        self.drill.start(1, "--listen-port", str(follower), *self.elastic(conf=",is_host=false"))
        self.round = self.drill.await_round(workers=2)
        own = os.path.basename(options.round_worker)
        program = self.other()
        for self.port in (leader, follower):
            self.assert_names_both(self.run_alone(*self.elastic(), program=program),
                                   f"of {own} (on ", "not second_job (on ", program)
        self.finish_unharmed()

    def test_another_role_is_refused(self):
        self.start_job(*self.elastic())
        self.assert_names_both(self.run_alone(*self.elastic("2", "--role", "server")),
                               " with --role default ", " with --role server ")
        self.finish_unharmed()

    def test_the_program_is_the_same_in_another_directory(self):
        program = self.other("elsewhere/" + os.path.basename(options.round_worker))
        self.start_job(*self.elastic())
        spare = self.start_alone(*self.elastic("2", "--spares"), program=program)
        self.assertIn("stands by", spare.stdout.readline())
        self.finish_unharmed()
        self.assertEqual(("", 0), (spare.communicate(timeout=PATIENCE_S)[0], spare.returncode))

    def test_a_job_that_waits_for_its_nodes_refuses_those_of_another(self):
        with Drill(Terminals(), options.ddprun, self.other()) as second:
            for node, is_host in enumerate(("true", "false")):
                second.start(node, *self.elastic("3", conf=f",is_host={is_host}"))
            second.await_said(0, " joined: 2 of 3 nodes")
            self.assert_names_both(self.run_alone(*self.elastic("3")), "of second_job (on ")
            second.await_said(0, "called here and was refused: job 'job' of second_job")


class Joining(Strangers):
    """Nodes that do not find each other."""

    def static(self, rank, nodes="2", host="127.0.0.1"):
        own = () if rank is None else ("--node-rank", str(rank))
        return ("--nnodes", nodes, *own, "--master-addr", host, "--master-port", str(self.port), "--no-python")

    def test_a_duplicate_node_rank(self):
        for rank in range(2):
            self.drill.start(rank, *self.static(rank))
        self.round = self.drill.await_round(workers=2)
        self.assert_refused(self.run_alone(*self.static(1)), USAGE, f"127.0.0.1:{self.port}: ",
                            "--node-rank 1 is taken by ", "give each node a rank of its own")
        self.assert_refused(self.run_alone(*self.static(0)), USAGE, f"127.0.0.1:{self.port}: ",
                            "--node-rank 0 is taken by ", "give each node a rank of its own")
        self.finish_unharmed()

    def test_a_duplicate_node_rank_ends_all_while_the_job_gathers(self):
        forgotten = None  # which means 0
        for nodes, ranks in (("2", (0, 0)), ("2", (forgotten, forgotten)), ("3", (0, 1, 1))):
            with self.subTest(ranks=ranks):
                jobs = [self.start_alone(*self.static(rank, nodes)) for rank in ranks]
                for job in jobs:
                    said, _ = job.communicate(timeout=PATIENCE_S)  # the join timeout is longer
                    self.assertEqual(USAGE, job.returncode, said)
                    self.assertRegex(said, rf"--node-rank {ranks[-1] or 0} (is taken by|was given to) \S+.*; "
                                     "give each node a rank of its own")

    def test_a_join_timeout_names_the_addresses_of_those_who_came(self):
        flags = self.elastic("3", join_timeout=20)
        jobs = [self.start_alone(*flags) for _ in range(2)]
        said = [job.communicate(timeout=PATIENCE_S)[0] for job in jobs]
        self.assertEqual([TRY_AGAIN] * 2, [job.returncode for job in jobs], said)
        for text in said:
            self.assertRegex(text, r"only 2 of 3 nodes joined within \d+ s: .*\(127\.0\.0\.1:\d+\)")

    def test_a_node_that_is_told_to_stop_while_the_job_gathers_leaves_alone(self):
        for leaves, number in ((1, signal.SIGINT), (0, signal.SIGTERM)):
            for rank in range(2):
                if rank not in self.drill.jobs:
                    self.drill.start(rank, *self.static(rank, "3"))
            self.drill.await_said(0, "joined: 2 of 3 nodes")
            job = self.drill.jobs.pop(leaves)
            job.send_signal(number)
            self.assertEqual(128 + number, job.wait(PATIENCE_S), self.drill.account())
            self.drill.await_said(leaves, f"told to stop by {number.name}; no worker had started; exit status ")
        for rank in (0, 2):
            self.drill.start(rank, *self.static(rank, "3"))
        self.round = self.drill.await_round(workers=3)
        self.finish_unharmed()

    def test_a_second_signal_to_one_node_ends_the_workers_of_all_at_once(self):
        for rank in range(2):
            self.drill.start(rank, "--shutdown-timeout", "600", *self.static(rank),
                             "env", "--ignore-signal=INT,TERM")
        self.drill.await_round(workers=2)
        self.drill.jobs[1].send_signal(signal.SIGINT)
        self.drill.await_said(1, "told to stop by SIGINT: the workers may save and end, for 600 s; a "
                              "second signal ends them at once")
        for node in range(2):
            self.drill.await_said(node, "waiting for 1 of 1 workers on ")
        self.drill.jobs[1].send_signal(signal.SIGINT)
        for node in range(2):
            self.assertEqual(128 + signal.SIGINT, self.drill.jobs.pop(node).wait(PATIENCE_S))

    def test_a_signal_after_the_end_was_reported_is_not_reported_as_another_end(self):
        """Slurm signals every node, and the leader may be the last: its job had ended by the signal of another."""
        program = ("sh", "-c", "exec yes")
        leader, other = (subprocess.Popen(
            [options.ddprun, "--nproc-per-node", "2", *self.static(rank), *program], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            env=os.environ | {"TMPDIR": str(self.room)}) for rank in range(2))
        for job in (leader, other):
            self.addCleanup(job.stderr.close)
        self.addCleanup(leader.stdout.close)
        leader.stdout.read(1)  # its workers run; the rest of their output fills the pipe
        other.send_signal(signal.SIGTERM)
        said = leader.stderr.readline()
        while "was told to stop by SIGTERM" not in said:
            line = leader.stderr.readline()
            self.assertTrue(line, said)
            said += line
        leader.send_signal(signal.SIGTERM)  # it waits for room in the pipe, for a few seconds
        self.assertEqual(128 + signal.SIGTERM, leader.wait(PATIENCE_S))
        self.assertEqual(128 + signal.SIGTERM, other.wait(PATIENCE_S))
        said += leader.stderr.read()
        self.assertEqual(1, said.count("told to stop"), said)

    def test_a_node_that_leaves_an_elastic_job_says_that_its_workers_may_save(self):
        self.start_job(*self.elastic("1:2"))
        job = self.drill.jobs.pop(1)
        job.send_signal(signal.SIGINT)
        self.drill.await_said(1, "told to stop by SIGINT: the workers may save and end, for 30 s; a second signal "
                                 "ends them at once")
        self.assertEqual(128 + signal.SIGINT, job.wait(PATIENCE_S), self.drill.account())
        self.drill.await_round(workers=1)
        self.drill.finish()
        self.drill.judge(self)

    def test_one_node_rank_for_all_with_c10d(self):
        """torchrun uses the rank only with static, so people write 0 on every node."""
        for node in range(2):
            self.drill.start(node, *self.elastic(), "--node-rank", "0")
        self.round = self.drill.await_round(workers=2)
        self.finish_unharmed()

    def test_one_node_rank_for_all_says_nothing_of_who_is_missing(self):
        alone = self.run_alone(*self.elastic("3", "--node-rank", "0", join_timeout=1))
        self.assert_refused(alone, TRY_AGAIN, f": {socket.gethostname()} (node rank 0); check")

    def test_an_endpoint_that_never_answers(self):
        with socket.create_server(("127.0.0.1", self.port)):
            self.assert_refused(
                self.run_alone(*self.elastic(join_timeout=3, conf=",is_host=0")), TRY_AGAIN,
                f"job 'job' not found within 3 s: 127.0.0.1:{self.port} accepts connections but "
                "does not respond; check that ddprun runs there")

    def test_an_endpoint_where_nobody_listens(self):
        self.assert_refused(
            self.run_alone(*self.elastic(join_timeout=1, conf=",is_host=0")), TRY_AGAIN,
            f"cannot connect to 127.0.0.1:{self.port}: Connection refused; check that ddprun runs there")

    def used_by(self, program, pid):
        return (f"ddprun: port {self.port} is used by {program} (pid {pid}); stop that program, or "
                "choose another port (--rdzv-endpoint, --master-port)")

    def used_by_this_test(self):
        with open("/proc/self/comm") as name:
            return self.used_by(name.read().strip(), os.getpid())

    # Whatever that program does, the node that must listen there ends before the join timeout.
    def test_a_port_of_this_node_that_another_program_has(self):
        for family, host, endpoint in ((socket.AF_INET, "127.0.0.1", "127.0.0.1"), (socket.AF_INET, "", "127.0.0.1"),
                                       (socket.AF_INET6, "::1", "[::1]")):
            with self.subTest(host=host), socket.create_server((host, self.port), family=family):
                for words in (self.elastic(host=endpoint, join_timeout=600), self.static(0, host=endpoint)):
                    self.assert_refused(self.run_alone(*words), TRY_AGAIN, self.used_by_this_test())
        with self.greets(b"HTTP/1.0 200 OK\r\n\r\n{}"):
            self.assert_refused(self.run_alone(*self.elastic(join_timeout=600)), TRY_AGAIN,
                                self.used_by_this_test())

    def test_a_port_from_which_another_program_has_called(self):
        with socket.create_server(("127.0.0.1", 0)) as other, socket.socket() as caller:
            caller.connect(other.getsockname())
            self.port = caller.getsockname()[1]
            self.assert_refused(self.run_alone(*self.elastic(join_timeout=600)), TRY_AGAIN,
                                self.used_by_this_test())

    def start_job_of_one_node(self):
        """Another job, which has the port."""
        other = subprocess.Popen(
            [options.ddprun, "--master-port", str(self.port), "--no-python", "sh", "-c",
             "echo runs; exec sleep 600"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(other.stdout.close)
        self.addCleanup(other.wait)
        self.addCleanup(other.terminate)
        self.assertEqual("runs\n", other.stdout.readline())
        return other

    def test_a_port_of_this_node_that_a_job_of_one_node_has(self):
        self.start_job_of_one_node()
        self.assert_refused(self.run_alone(*self.elastic(join_timeout=600)), TRY_AGAIN,
                            f"ddprun: port {self.port} is used by ddprun-agent (pid ")

    # An agent calls there several times a second.
    def test_an_endpoint_that_a_job_of_one_node_has_which_says_once_who_calls(self):
        other = self.start_job_of_one_node()
        self.assert_refused(
            self.run_alone(*self.elastic(join_timeout=3, conf=",is_host=0")), TRY_AGAIN,
            f"127.0.0.1:{self.port}: ", "check that ddprun runs there")
        other.terminate()
        said, _ = other.communicate(timeout=PATIENCE_S)
        self.assertEqual(1, said.count("an agent; this port serves a store only"), said)

    def test_an_endpoint_that_another_program_has_which_is_said_once_a_line(self):
        with self.greets(b"SSH-2.0-OpenSSH_9.2\r\n"):
            waited = self.run_alone(*self.elastic(join_timeout=7, conf=",is_host=0"))
        self.assertEqual(TRY_AGAIN, waited.returncode, waited.stdout)
        cause = f"127.0.0.1:{self.port}: it does not speak as ddprun does"
        waits, ends = waited.stdout.splitlines()
        self.assertIn(f"still trying to reach job 'job': {cause} (timeout 7 s); another program may have that port",
                      waits)
        self.assertEqual(1, waits.count("another program"), waits)
        self.assertIn(f"not found within 7 s: {cause}; check that ddprun runs there", ends)

    @contextlib.contextmanager
    def greets(self, words):
        """Another program, which sends this on every connection."""
        with socket.create_server(("127.0.0.1", self.port)) as other:
            def greet():
                with contextlib.suppress(OSError):  # until it is closed
                    while True:
                        with other.accept()[0] as caller:
                            caller.sendall(words)
                            caller.shutdown(socket.SHUT_WR)
                            while caller.recv(1 << 16):
                                pass

            greeter = threading.Thread(target=greet, daemon=True)
            greeter.start()
            try:
                yield
            finally:
                other.shutdown(socket.SHUT_RDWR)
                greeter.join()

    def test_fewer_than_min_for_too_long(self):
        self.assert_refused(
            self.run_alone(*self.elastic("2:3", join_timeout=1)), TRY_AGAIN,
            f"only 1 of 2 nodes joined within 1 s: {socket.gethostname()}; check "
            f"that the missing nodes can reach 127.0.0.1:{self.port}; exit status 75")

    def test_who_is_missing_is_told_by_node_rank(self):
        self.assert_refused(
            self.run_alone("--nnodes", "3", "--node-rank", "0", "--master-addr", "127.0.0.1",
                           "--master-port", str(self.port), "--rdzv-conf", "join_timeout=1",
                           "--no-python"),
            TRY_AGAIN, "only 1 of 3 nodes joined within 1 s", "(node rank 0); missing node ranks: 1 2")

    def test_a_name_nobody_knows(self):
        ended = self.run_alone(*self.elastic(host="no-such-host.invalid", join_timeout=1))
        self.assertEqual(TRY_AGAIN, ended.returncode, ended.stdout)
        self.assertRegex(ended.stdout, "(?s)the endpoint's host 'no-such-host.invalid' cannot be "
                         "resolved: .*; trying again for 1 s.*\nddprun: job 'job' not "
                         "found within 1 s: .*'no-such-host.invalid' cannot be resolved: .*; check "
                         "that ddprun runs there, and that this host and port are right")

    def test_a_signal_does_not_wait_for_a_name(self):
        waiting = self.start_alone(*self.elastic(host="no-such-host.invalid", join_timeout=600))
        self.assertIn("cannot be resolved", waiting.stdout.readline())
        waiting.send_signal(signal.SIGTERM)
        self.assertEqual(128 + signal.SIGTERM, waiting.wait(PATIENCE_S))

    def test_several_jobs_on_one_host(self):
        self.start_job(*self.elastic())
        first, port = self.round, self.port
        self.port = reserved_port(self)
        with Drill(Terminals(), options.ddprun, options.round_worker) as second:
            for node in range(2):
                second.start(node, *self.elastic(rdzv_id="another"))
            second.await_round(workers=2)
            second.finish()
            second.judge(self)
        self.round, self.port = first, port
        self.finish_unharmed()


class Secrets(Strangers):
    def test_nodes_with_the_same_secret_connect_and_others_are_refused(self):
        secret = self.write("secret", "sixteen bytes or more\n")
        other = self.write("other", "something else, as long\n")
        self.start_job(*self.elastic("2:3", "--secret-file", secret))
        remedy = "give every node of the job the same --secret-file"
        self.assert_refused(self.run_alone(*self.elastic("2:3", "--secret-file", other)), USAGE,
                            "127.0.0.1:", "the secrets of the two nodes differ", remedy)
        self.assert_refused(self.run_alone(*self.elastic("2:3"), DDPRUN_SECRET="0123456789abcdef"),
                            USAGE, "the secrets of the two nodes differ", remedy)
        unproved = "the caller does not authenticate, and the node that it called has a secret"
        self.assert_refused(self.run_alone(*self.elastic("2:3")), USAGE, unproved, remedy)
        self.finish_unharmed()
        said = [self.drill.said(node).count(unproved) for node in range(2)]
        self.assertIn(said, ([0, 1], [1, 0], [1, 1]), "it called several times a second")

    def test_a_node_with_a_secret_is_refused_by_a_job_without(self):
        self.start_job(*self.elastic("2:3"))
        secret = self.write("secret", "sixteen bytes or more\n")
        self.assert_refused(self.run_alone(*self.elastic("2:3", "--secret-file", secret)), USAGE,
                            "the caller has a secret, and the node that it called does not authenticate",
                            "give every node of the job the same --secret-file")
        self.finish_unharmed()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddprun", required=True)
    parser.add_argument("--round-worker", required=True)
    _, rest = parser.parse_known_args(namespace=options)
    for name in ("ddprun", "round_worker"):
        setattr(options, name, os.path.abspath(getattr(options, name)))
    unittest.main(argv=[sys.argv[0], *rest])
