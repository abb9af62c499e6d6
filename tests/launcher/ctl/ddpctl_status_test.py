"""`ddpctl status` as a program: nodes and programs that answer or do not, and its output.

    ddpctl_status_test.py --ddpctl PROGRAM [unittest arguments]
"""

import argparse
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request

options = argparse.Namespace()
PATIENCE_S = 60

NODE = {"host": "n0", "address": "127.0.0.1:1", "incarnation": "00000000000000ff",
        "state": "running", "is_leader": True, "group_rank": 0, "heartbeat_age_s": None, "unfit": "",
        "workers": [{"rank": 0, "local_rank": 0, "pid": 812, "state": "running"}]}
STATUS = {"job": "run7", "version": "0.1.0", "state": "running", "term": 1, "round": 5,
          "attempt": 2, "restarts_used": 1, "restarts_max": 3, "nodes_min": 1, "nodes_max": 2,
          "lease_s": 3.0, "reason": "", "exit_status": None, "nodes": [NODE], "later": 1}


def ddpctl(*arguments, **more):
    return subprocess.run([options.ddpctl, "status", *arguments], capture_output=True, text=True,
                          timeout=PATIENCE_S, **more)


def http(status, body=b"", **headers):
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@contextlib.contextmanager
def server(*answers, piece=1 << 20):
    """Answers one connection with each of `answers`, in pieces; returns HOST:PORT and the requests."""
    listener = socket.create_server(("127.0.0.1", 0))
    address = "127.0.0.1:%d" % listener.getsockname()[1]
    requests = []

    def serve():
        for answer in answers:
            client, _ = listener.accept()
            with client, contextlib.suppress(OSError):  # it may have closed the connection
                requests.append(client.recv(4096).decode())
                answer = answer.replace(b"SELF", address.encode())
                for at in range(0, len(answer), piece):
                    client.sendall(answer[at:at + piece])

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield address, requests
    finally:
        thread.join(PATIENCE_S)
        listener.close()


class DdpctlStatus(unittest.TestCase):
    def assert_refused(self, ended, status, *parts):
        self.assertEqual((status, ""), (ended.returncode, ended.stdout), ended.stderr)
        self.assertEqual(1, ended.stderr.count("\n"), ended.stderr)
        self.assertTrue(ended.stderr.startswith("ddpctl: "), ended.stderr)
        for part in parts:
            self.assertIn(part, ended.stderr)

    def ask(self, *answers, piece=1 << 20):
        with server(*answers, piece=piece) as (address, _):
            return ddpctl(address), address

    def test_prints_the_job_for_people(self):
        with server(http("200 OK", json.dumps(STATUS).encode())) as (address, requests):
            ended = ddpctl(address)
        self.assertEqual(0, ended.returncode, ended.stderr)
        self.assertIn("job run7 runs: round 5, attempt 2, 1 of 3 restarts used\n", ended.stdout)
        self.assertIn("n0                       running                 -  0:812\n", ended.stdout)
        self.assertTrue(requests[0].startswith("GET /status HTTP/1.1\r\n"), requests)

    def test_prints_what_the_leader_sent_with_json(self):
        body = json.dumps(STATUS)
        with server(http("200 OK", body.encode()), piece=1) as (address, _):
            ended = ddpctl(address, "--json")
        self.assertEqual((0, body), (ended.returncode, ended.stdout), ended.stderr)

    def test_follows_the_name_of_the_leader(self):
        away = http("307 Temporary Redirect", Location="http://SELF/status")
        ended, _ = self.ask(away, http("200 OK", json.dumps(STATUS).encode()))
        self.assertEqual(0, ended.returncode, ended.stderr)

    def test_does_not_follow_for_ever(self):
        away = http("307 Temporary Redirect", Location="http://SELF/status")
        ended, address = self.ask(*[away] * 5)
        self.assert_refused(ended, 75, address, "every node names another as the leader")

    def test_follows_nothing_but_the_name_of_a_leader(self):
        for location in ("https://127.0.0.1:1/status", "http://127.0.0.1/status", "/else", "x" * 9999):
            ended, address = self.ask(http("307 Temporary Redirect", Location=location))
            self.assert_refused(ended, 75, address, f"names '{location[:200]}' as the leader")

    def test_refuses_bad_usage(self):
        self.assert_refused(ddpctl("node"), 2, "'node': give HOST:PORT")
        self.assert_refused(ddpctl("node:99999"), 2, "from 0 to 65535")
        self.assert_refused(ddpctl("node:1", "--timeout", "0"), 2, "--timeout")
        self.assert_refused(ddpctl("a" * 300 + ":1"), 2, "a" * 300)

    def environment(self, **more):
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith(("PET_", "SLURM_", "XDG_RUNTIME"))}
        return {**kept, "TMPDIR": self.enterContext(tempfile.TemporaryDirectory()), **more}

    def start_job(self, env, name):
        """A job whose worker tells that it runs, and ends when its stdin does."""
        job = subprocess.Popen(
            [options.ddprun, f"--rdzv-id={name}", "--no-python", "sh", "-c", "echo up; cat", "sh", name],
            env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(job.communicate)
        self.addCleanup(job.kill)
        self.assertEqual("up\n", job.stdout.readline())
        return job

    def list_two(self, env):
        """A separate thread writes the file of a job, which may come after the first output of a worker."""
        deadline = time.monotonic() + PATIENCE_S
        while len(listed := json.loads(ddpctl("--json", env=env).stdout)) < 2 and time.monotonic() < deadline:
            pass
        return listed

    def test_lists_the_jobs_of_this_user_without_an_address(self):
        for variable in ("TMPDIR", "XDG_RUNTIME_DIR"):
            env = self.environment(LOGLEVEL="INFO")
            env[variable] = self.enterContext(tempfile.TemporaryDirectory())
            self.assertIn("no job of this user runs on this host", ddpctl(env=env).stdout)
            jobs = [self.start_job(env, name) for name in ("one", "two")]
            listed = self.list_two(env)
            self.assertEqual(["one", "two"], sorted(job["job"] for job in listed))
            for job in listed:
                self.assertEqual(f"sh -c 'echo up; cat' sh {job['job']}".split()[0], job["command"].split()[0])
                self.assertIn(job["address"], ddpctl(env=env).stdout)
                self.assertIn(f"job {job['job']} runs", ddpctl(job["address"]).stdout)
            jobs[0].kill()  # the guard; its agent ends with it
            jobs[0].communicate(timeout=PATIENCE_S)
            err = jobs[1].communicate(timeout=PATIENCE_S)[1]
            address = next(job["address"] for job in listed if job["job"] == "two")
            self.assertIn(f" master={address}", err)
            self.assertEqual("[]\n", ddpctl("--json", env=env).stdout)

    def test_a_job_with_a_secret_shows_more_than_its_state_only_to_who_knows_it(self):
        with tempfile.TemporaryDirectory() as room:
            known, other = os.path.join(room, "secret"), os.path.join(room, "other")
            for path, secret in ((known, "sixteen bytes or more"), (other, "another secret, as long")):
                with open(path, "w") as file:
                    file.write(secret)
                os.chmod(path, 0o600)
            with subprocess.Popen([options.ddprun, "--auth=secret", "--secret-file", known, "--no-python", "sh", "-c",
                                   "echo $MASTER_PORT; read line"], env={**os.environ, "TMPDIR": room},
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as job:
                address = "127.0.0.1:" + job.stdout.readline().strip()
                shown = ddpctl(address, "--json", "--secret-file", known)
                self.assertEqual(0, shown.returncode, shown.stderr)
                self.assertEqual(1, len(json.loads(shown.stdout)["nodes"]))
                shown = ddpctl(address, env={**os.environ, "DDPRUN_SECRET_FILE": known})
                self.assertEqual(0, shown.returncode, shown.stderr)
                hidden = f"{address}: the job runs, and shows only its user more: "
                self.assert_refused(ddpctl(address), 2, hidden + "the job has a secret; give its --secret-file")
                self.assert_refused(ddpctl(address, "--secret-file", other), 2,
                                    hidden + "the secret is not that of the job")
                with urllib.request.urlopen(f"http://{address}/status", timeout=PATIENCE_S) as response:
                    public = json.load(response)
                self.assertEqual({"state", "is_one_node", "hint"}, public.keys())
                self.assertEqual(("running", True), (public["state"], public["is_one_node"]))
                job.communicate("end\n", timeout=PATIENCE_S)
                self.assertEqual(0, job.returncode)

    def test_believes_no_directory_that_others_may_write_to(self):
        env = self.environment()
        directory = os.path.join(env["TMPDIR"], f"ddprun-{os.geteuid()}")
        os.mkdir(directory)
        os.chmod(directory, 0o777)
        self.assert_refused(ddpctl(env=env), 75, directory, "is not a directory of this user alone")
        job = self.start_job(env, "one")
        job.communicate(timeout=PATIENCE_S)
        self.assertEqual((0, []), (job.returncode, os.listdir(directory)))

    def test_says_that_nobody_is_there(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        ended = ddpctl(f"127.0.0.1:{port}")
        self.assert_refused(ended, 75, f"127.0.0.1:{port}", "Connection refused")

    def test_does_not_wait_for_ever(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            address = "127.0.0.1:%d" % silent.getsockname()[1]
            ended = ddpctl(address, "--timeout", "0.1")
        self.assert_refused(ended, 75, address, "no reply by the deadline")

    def test_refuses_what_is_no_status(self):
        whole = http("200 OK", json.dumps(STATUS).encode())
        for answer, why in (
            (b"SSH-2.0-OpenSSH\r\n", "does not speak HTTP"),
            (b"HTTP/1.1 200 OK\r\n\r\n", "does not speak HTTP"),
            (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "does not speak HTTP"),
            (b"HTTP/1.1 200 OK\r\nX: " + b"x" * (1 << 20), "does not speak HTTP"),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", "more than 33554432 bytes"),
            (whole[:-1], "closed the connection"),
            (whole[:20], "closed the connection"),
            (b"", "closed the connection"),
            (http("200 OK", b"hello"), "cannot understand its reply: it is not valid JSON"),
            (http("200 OK", b'{"job":1}'), "cannot understand its reply: job is not text"),
            (http("503 Service Unavailable", b"no leader now\nx"), "it answers 503: no leader now\n"),
        ):
            ended, address = self.ask(answer)
            self.assert_refused(ended, 75, address, why)

    def test_a_store_that_stands_alone_has_no_status(self):
        serve = subprocess.Popen([options.ddpctl, "store", "serve", "--host", "127.0.0.1"],
                                 stdout=subprocess.PIPE, text=True)
        try:
            port = serve.stdout.readline().split()[-1]
            self.assert_refused(ddpctl(f"127.0.0.1:{port}"), 75, "it answers 404")
        finally:
            serve.terminate()
            serve.communicate(timeout=PATIENCE_S)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddpctl", required=True)
    parser.add_argument("--ddprun", required=True)
    options, rest = parser.parse_known_args()
    options.ddpctl = os.path.abspath(options.ddpctl)
    unittest.main(argv=[sys.argv[0], *rest])
