"""Whoever does not belong to a job, and whatever keeps its nodes from meeting: what is said, the exit
status, and that the job which runs goes on unharmed.

    strangers_test.py --ddprun PROGRAM --round-worker PROGRAM [unittest arguments]

Several ddprun on the loopback, as in several terminals; namespaces only where addresses matter.
"""

import argparse
import contextlib
import os
import pathlib
import socket
import subprocess
import sys
import unittest

import rounds
from drill import PATIENCE_S, Drill

USAGE, TRY_AGAIN = 2, 75

options = argparse.Namespace()


def free_port():
    """Nodes have to agree on one, so ddprun cannot choose it; it is let go just before."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Terminals:
    """What Drill needs of a Network, on this very machine: ddprun kills all that is its own."""

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
        self.port = free_port()
        self.drill = self.enterContext(
            Drill(Terminals(), options.ddprun, options.round_worker))
        self.room = pathlib.Path(self.drill.room)

    def elastic(self, nodes="2", *more, rdzv_id="job", host="127.0.0.1", join_timeout=60):
        return ("--nnodes", nodes, "--rdzv-backend", "c10d",
                "--rdzv-endpoint", f"{host}:{self.port}", "--rdzv-id", rdzv_id, "--rdzv-conf",
                f"join_timeout={join_timeout},last_call_timeout=0.2", "--no-python", *more)

    def start_job(self, *flags):
        """A job of two nodes, running."""
        for node in range(2):
            self.drill.start(node, *flags)
        self.round = self.drill.await_round(workers=2)

    def run_alone(self, *flags, **environment):
        """One ddprun that is not to belong to the job, until it has ended."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PET_", "DDPRUN_SECRET"))}
        return subprocess.run(
            [options.ddprun, *flags, options.round_worker, str(self.room / "strange"),
             str(self.room / "stop")],
            env={**kept, **environment, "TMPDIR": str(self.room)}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE_S)

    def assert_refused(self, ended, status, *parts):
        """One line, with all of `parts`; no worker has run."""
        self.assertEqual(status, ended.returncode, ended.stdout)
        self.assertEqual(1, ended.stdout.count("\n"), ended.stdout)
        for part in parts:
            self.assertIn(part, ended.stdout)
        self.assertFalse((self.room / "strange").exists(), "a worker has run")

    def finish_unharmed(self):
        """The very processes of the one round there was end with 0."""
        self.drill.finish()
        moments = self.drill.moments()
        self.assertEqual({self.round.key}, rounds.rounds_of(moments).keys(), self.drill.account())
        self.assertEqual({moment.pid for moment in self.round.moments},
                         {moment.pid for moment in moments})
        self.drill.judge(self)

    def write(self, name, text):
        path = self.room / name
        path.write_text(text)
        return str(path)


class Secrets(Strangers):
    def test_nodes_with_the_same_secret_meet_and_others_are_refused(self):
        secret = self.write("secret", "sixteen bytes or more\n")
        other = self.write("other", "something else, as long\n")
        self.start_job(*self.elastic("2:3", "--secret-file", secret))
        remedy = "give every node of the job the same --secret-file"
        self.assert_refused(self.run_alone(*self.elastic("2:3", "--secret-file", other)), USAGE,
                            f"127.0.0.1:{self.port}", "the secrets of the two nodes differ", remedy)
        self.assert_refused(self.run_alone(*self.elastic("2:3"), DDPRUN_SECRET="0123456789abcdef"),
                            USAGE, "the secrets of the two nodes differ", remedy)
        self.assert_refused(self.run_alone(*self.elastic("2:3")), USAGE,
                            "no proof came that the job's secret is known", remedy)
        self.finish_unharmed()

    def test_a_node_with_a_secret_is_refused_by_a_job_without(self):
        self.start_job(*self.elastic("2:3"))
        secret = self.write("secret", "sixteen bytes or more\n")
        self.assert_refused(self.run_alone(*self.elastic("2:3", "--secret-file", secret)), USAGE,
                            "the caller has a secret, and who was called has none",
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
