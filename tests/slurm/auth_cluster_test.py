"""Who may join a job on a real Slurm cluster, with real MUNGE and two real users: one runs the job, the other is on the
same cluster and may connect to its port.

    auth_cluster_test.py --ddprun PROGRAM --ddpctl PROGRAM [unittest arguments]
"""

import argparse
import json
import os
import pathlib
import random
import re
import struct
import subprocess
import sys
import unittest

from cluster import PATIENCE_S, Cluster, first, skip_without_cluster

options = argparse.Namespace()
HERE = pathlib.Path(__file__).parent
OWNER, STRANGER = "daemon", "nobody"  # every Linux has them
AGENT, LIFELINE = b"\xddRN\x05", b"\xddRL\x05"
USAGE = 2
NONCE = "0123456789abcdef" * 2


def setUpModule():
    skip_without_cluster()


def as_user(user, *words):
    return ("setpriv", f"--reuid={user}", f"--regid={'nogroup' if user == STRANGER else user}", "--clear-groups", *words)


def frame(body):
    body = body if isinstance(body, bytes) else body.encode()
    return struct.pack("!I", len(body)) + body


def frames_in(stream):
    """The bodies of the frames after an opening; the single bytes that follow the frame of a lifeline are none."""
    bodies, rest = [], stream[len(AGENT):]
    while len(rest) >= 4:
        size = struct.unpack_from("!I", rest)[0]
        bodies.append(rest[4:4 + size])
        rest = rest[4 + size:]
    return bodies


class Auth(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.enterClassContext(Cluster(3))

    def setUp(self):
        self.port = random.randrange(20_000, 30_000)
        self.stop = self.cluster.shared / f"stop{self.port}"
        self.said = self.cluster.shared / f"said{self.port}"

    # The job. -----------------------------------------------------------------------------------

    def start_job(self, *flags):
        """The owner's job of two nodes, which runs until finish()."""
        up = self.cluster.shared / f"up{self.port}"
        up.mkdir()
        up.chmod(0o777)
        with open(self.said, "w") as said:
            self.job = self.cluster.popen(
                *as_user(OWNER, "srun", *first(2), "-n2", options.ddprun, "--nproc-per-node=1",
                         f"--master-port={self.port}", *flags, "--no-python", "sh", "-c",
                         f"touch {up}/$RANK; until [ -e {self.stop} ]; do sleep 0.05; done"),
                stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        self.addCleanup(self.end_job)
        self.cluster.wait_until(lambda: len(list(up.iterdir())) == 2 or self.job.poll() is not None, "the job runs")

    def end_job(self):
        self.job.kill()
        self.job.wait()

    def finish(self):
        """The job ends well: what was done to it has changed nothing. Yields what it has printed."""
        self.stop.touch()
        self.assertEqual(0, self.job.wait(PATIENCE_S), self.said.read_text())
        return self.said.read_text()

    def status(self, *flags, user=OWNER, check=True):
        return self.cluster.run(*as_user(user, options.ddpctl, "status", f"node0:{self.port}", *flags), check=check)

    def facts(self):
        """What no stranger may change."""
        status = json.loads(self.status("--json").stdout)
        kept = ("state", "term", "round", "attempt", "restarts_used")
        nodes = [(node["host"], node["incarnation"], node["state"], node["workers"]) for node in status["nodes"]]
        return {name: status[name] for name in kept} | {"nodes": nodes}

    # The other user. ----------------------------------------------------------------------------

    def connect_as_stranger(self, *streams):
        """What the leader answers to each of `streams` until it closes the connection."""
        with self.cluster.popen(*as_user(STRANGER, sys.executable, "-B", HERE / "stranger.py", "node0", str(self.port)),
                                node="node2", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as stranger:
            out, _ = stranger.communicate("".join(stream.hex() + "\n" for stream in streams), timeout=PATIENCE_S)
        answers = [bytes.fromhex(line) for line in out.splitlines()]
        self.assertEqual(len(streams), len(answers))
        return answers

    def assert_refused(self, ended, *said):
        self.assertEqual((USAGE, ""), (ended.returncode, ended.stdout), ended.stderr)
        for words in said:
            self.assertIn(words, ended.stderr)

    def join(self, user, *flags):
        """Another node of the job, started by `user` outside of Slurm."""
        return self.cluster.run(
            *as_user(user, options.ddprun, "--nnodes=2", "--node-rank=1", "--master-addr=node0",
                     f"--master-port={self.port}", "--nproc-per-node=1", *flags, "--no-python", "true"),
            node="node2", check=False)

    # The stories. -------------------------------------------------------------------------------

    def test_the_same_user_notices_nothing(self):
        self.start_job()
        shown = self.status().stdout
        self.assertIn("node0", shown)
        self.assertIn("node1", shown)
        self.assertNotIn("authenticate", self.finish())

    def test_another_user_cannot_join(self):
        self.start_job()
        facts = self.facts()
        self.assert_refused(self.join(STRANGER), f"node0:{self.port}: peer did not authenticate: MUNGE: ",
                            "start every node as the same user")
        self.assertEqual(facts, self.facts())
        self.finish()

    def test_another_user_reads_only_the_state(self):
        self.start_job()
        answer, _ = self.connect_as_stranger(b"GET /status HTTP/1.1\r\n\r\n", b"GET /healthz HTTP/1.1\r\n\r\n")
        header, body = answer.split(b"\r\n\r\n", 1)
        self.assertTrue(header.startswith(b"HTTP/1.1 200 "), header)
        self.assertEqual({"state": "running", "is_one_node": False,
                          "hint": "the job's user sees the rest by: ddpctl status HOST:PORT"}, json.loads(body))
        refused = self.status(user=STRANGER, check=False)
        self.assertNotEqual(0, refused.returncode)
        self.assertEqual("", refused.stdout)
        self.assertIn("the job runs, and shows only its user more: MUNGE: ", refused.stderr)
        self.finish()

    def test_another_user_cannot_read_by_the_proof_that_it_is_sent(self):
        self.start_job()
        answer, = self.connect_as_stranger(b"GET /status HTTP/1.1\r\n\r\n")
        credential = re.search(rb'credential="(MUNGE:[^"]*)"', answer).group(1)
        opened = self.cluster.run(*as_user(STRANGER, "sh", "-c",
                                           f"printf %s {credential.decode()} | "
                                           f"unmunge --socket={self.cluster.directory}/run/munge.socket"), check=False)
        self.assertNotEqual(0, opened.returncode, opened)
        self.assertNotIn("ddprun ", opened.stdout)
        nonce = re.search(rb'nonce="([0-9a-f]{32})"', answer).group(1)
        forged = b"GET /status HTTP/1.1\r\nAuthorization: DDPRUN " + nonce + b" " + b"0" * 64 + b"\r\n\r\n"
        answer, = self.connect_as_stranger(forged)
        self.assertNotIn(b"node0", answer)
        self.finish()

    def test_another_user_cannot_evict_or_end_by_an_incarnation_that_it_knows(self):
        self.start_job()
        facts = self.facts()
        node1 = facts["nodes"][1][1]
        leader = facts["nodes"][0][1]
        leaving = '{"type":"leaving","signal":15,"whole_job":true}'
        hello = json.dumps({"type": "hello", "job": "x", "node": {"incarnation": node1}})
        line = json.dumps({"job": "x", "incarnation": node1,
                           "leadership": {"term": facts["term"], "leader": leader}, "proof": ""})
        challenge = f"challenge munge {NONCE}"
        answers = self.connect_as_stranger(
            AGENT + frame(hello), AGENT + frame(leaving),
            AGENT + frame(challenge) + frame("proof " + "0" * 64) + frame(leaving),
            AGENT + frame(challenge) + frame(leaving),
            LIFELINE + frame(line))
        for answer in answers[:4]:
            self.assertIn(b'"type":"refuse"', answer)
        self.assertEqual(frame(b"nonce ")[4:], answers[4][4:10])
        self.assertEqual(facts, self.facts())
        self.finish()

    def test_recorded_connections_change_nothing_when_they_are_sent_again(self):
        sniffer = self.cluster.popen(sys.executable, "-B", HERE / "sniffer.py", str(self.port), node="node0",
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(sniffer.wait)
        self.addCleanup(sniffer.kill)
        self.assertEqual("ready\n", sniffer.stdout.readline())
        self.start_job()
        out, _ = sniffer.communicate(timeout=PATIENCE_S)
        recorded = [bytes.fromhex(line) for line in out.splitlines()]
        agents = [stream for stream in recorded if stream.startswith(AGENT)]
        lifelines = [stream for stream in recorded if stream.startswith(LIFELINE)]
        self.assertTrue(agents and lifelines, recorded)
        self.assertTrue(any(b'"type":"hello"' in stream for stream in agents), agents)
        facts = self.facts()
        again = agents + lifelines
        for kind, streams in ((AGENT, agents), (LIFELINE, lifelines)):
            again += [kind + frame(body) for stream in streams for body in frames_in(stream)]
        answers = self.connect_as_stranger(*again)
        for sent, answer in zip(again, answers):
            self.assertNotIn(b'"type":"welcome"', answer, sent)
        self.assertEqual(facts, self.facts())
        self.finish()

    def test_a_node_that_proves_nothing_is_refused_with_both_ways_named(self):
        self.start_job()
        self.assert_refused(self.join(OWNER, "--auth=none"), "the caller does not authenticate, and the node that it "
                            "called authenticates with MUNGE; see that munged runs on every node")
        said = self.finish()
        self.assertEqual(1, said.count("the caller does not authenticate"), said)

    def test_a_job_without_proofs_refuses_a_node_with_munge(self):
        self.start_job("--auth=none")
        self.assert_refused(self.join(OWNER), "the caller authenticates with MUNGE, and the node that it called does "
                            "not authenticate; see that munged runs on every node")
        self.assertIn("node1", self.status(user=STRANGER).stdout)
        self.finish()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddprun", required=True, type=os.path.abspath)
    parser.add_argument("--ddpctl", required=True, type=os.path.abspath)
    _, rest = parser.parse_known_args(namespace=options)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
