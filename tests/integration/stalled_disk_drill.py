"""The disk of the log directory of one of three nodes does not respond for a while: no lease is lost, no agent dies,
the logs of the other ranks are whole, and the exit status stays.

    stalled_disk_drill.py --ddprun PROGRAM --round-worker PROGRAM [--stall S] [--repeats N] [--jobs N]
                          [unittest arguments]

The disk is a file system of its own, which is frozen (fsfreeze(8)): whoever writes there waits inside the kernel, where
no signal reaches him, as on a network file system whose server is gone. It stalls for --stall seconds

    at the start     from before the first worker of the round is started
    at a restart     from before a worker on another node is killed
    in full output   while every worker prints more than a pipe holds (-t 3)
    at the end       from before the workers end, until ddprun has ended

on the node that leads and on one that follows. Each of those nodes is asked for its status all the time. Prints for
each case how many runs were right, and how long the answers took.
"""

import argparse
import concurrent.futures
import contextlib
import http.client
import itertools
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import netns
import rounds
from drill import PATIENCE_S, Drill
from failover_drill import now_ns

NODES = 3
PORT = 29400
POINTS = ("start", "restart", "output", "end")
TALKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "scripts", "talking_round_worker.sh")
EXIT_S = 5  # after the last worker

options = argparse.Namespace()


class Disk:
    """A file system of its own whose writers can be made to wait."""

    def __init__(self):
        self._room = tempfile.mkdtemp(prefix="ddprun_disk_")
        image, self.path = os.path.join(self._room, "image"), os.path.join(self._room, "mount")
        os.mkdir(self.path)
        with open(image, "wb") as file:
            file.truncate(64 << 20)
        self._frozen = False
        try:
            self._run("mke2fs", "-q", "-F", "-t", "ext4", image)
            self._run("mount", "-o", "loop", image, self.path)
        except Exception:
            shutil.rmtree(self._room)
            raise

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.thaw()
        # Lazily: an agent that the drill has left may still be ending.
        self._run("umount", "--lazy", self.path)
        shutil.rmtree(self._room, ignore_errors=True)

    def freeze(self):
        self._run("fsfreeze", "--freeze", self.path)
        self._frozen = True

    def thaw(self):
        if self._frozen:
            self._run("fsfreeze", "--unfreeze", self.path)
        self._frozen = False

    @staticmethod
    def _run(*words):
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode != 0:
            raise OSError(f"{' '.join(words)}: {done.stderr.strip()}")


def setUpModule():
    netns.skip_without_namespaces()
    try:
        with Disk():
            pass
    except OSError as error:
        print(f"SKIPPED: no file system can be made and mounted: {error}", flush=True)
        raise unittest.SkipTest(str(error))


def listening_port(node):
    """The port on which the agent of a node listens."""
    asked = node.popen(["ss", "-ltnH"], stdout=subprocess.PIPE, text=True)
    said, _ = asked.communicate(timeout=PATIENCE_S)
    ports = {int(line.split()[3].rpartition(":")[2]) for line in said.splitlines()}
    return PORT if PORT in ports else min(ports)


def ask_for_ever(host, port):
    """Asks for the status again and again, until stdin ends. Then prints how long each answer took."""
    taken = []
    while not select.select([sys.stdin], [], [], 0.02)[0]:
        begin = time.monotonic()
        try:
            connection = http.client.HTTPConnection(host, port, timeout=10)
            connection.request("GET", "/status")
            connection.getresponse().read()
            connection.close()
        except OSError as error:
            if taken:  # it has ended, or does not answer
                print("refused", error, file=sys.stderr)
            break
        taken.append(time.monotonic() - begin)
    print(*taken)


class Questions:
    """Asks a node for its status while it lives."""

    def __init__(self, node):
        self._asker = node.popen(
            [sys.executable, os.path.abspath(__file__), "--ask", node.address, str(listening_port(node))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def end(self):
        said, _ = self._asker.communicate(timeout=PATIENCE_S)
        return [float(word) for word in said.split()]


def is_waiting_for_a_disk(pid):
    """Whether a thread of the process waits where no signal ends the wait."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/stat") as stat:
            if stat.read().rpartition(")")[2].split()[0] == "D":
                return True
    return False


class Run:
    def __init__(self, point, node, number):
        self.name = f"{point:8} {'leader' if node == 0 else 'follower'}"
        self._point, self._node, self._number = point, node, number

    def judge(self):
        """(how long answers took, what was wrong, an account)"""
        with Disk() as disk, netns.Network(NODES) as network, Drill(network, options.ddprun, TALKER) as drill:
            self._disk, self._network, self._drill = disk, network, drill
            self._talk = os.path.join(drill.room, "talk")
            os.symlink(disk.path, os.path.join(drill.room, f"n{self._node}"))
            self._answers = []
            wrong = []
            try:
                getattr(self, self._point)()
                wrong += rounds.violations(drill.moments())[:5]
            except (AssertionError, TimeoutError, OSError, subprocess.SubprocessError) as error:
                wrong.append(str(error).splitlines()[0])
            finally:
                with contextlib.suppress(OSError):
                    disk.thaw()
            return self._answers, wrong, drill.account()

    def _begin(self, node):
        self._drill.start(
            node, "--nnodes", str(NODES), "--rdzv-backend", "c10d", "--rdzv-endpoint",
            f"{self._network[0].address}:{PORT}", "--rdzv-id", "job", "--max-restarts", "1", "--tee", "3",
            "--local-ranks-filter", "9", "--no-python",
            # LeakSanitizer would wait at the end for threads that wait for the disk.
            within=("env", "ASAN_OPTIONS=detect_leaks=0", f"TALK={self._talk}", f"ROUND_WORKER={options.round_worker}"))

    def _begin_all(self):
        for node in range(NODES):
            self._begin(node)
        return self._drill.await_round(workers=NODES)

    def _log(self, node):
        base = os.path.join(self._drill.room, f"n{node}")
        (launch,) = (name for name in os.listdir(base) if name.startswith("job_"))
        return os.path.join(base, launch)

    @contextlib.contextmanager
    def _stalled(self, lasts=None):
        """Freezes the disk, and asks its node for its status until it is thawed."""
        questions = Questions(self._network[self._node])
        self._disk.freeze()
        self._until = time.monotonic() + (options.stall if lasts is None else lasts)
        yield
        while time.monotonic() < self._until:
            self._drill.listen(self._until)
        for node, job in self._drill.jobs.items():
            if job.poll() is not None:
                raise AssertionError(f"n{node} ended with {job.poll()} while the disk stalled")
        self._answers += questions.end()
        self._disk.thaw()

    def _others_have_begun(self, since_ns):
        """The workers of the other nodes run, although that one's cannot be started yet."""
        deadline = time.monotonic() + PATIENCE_S
        while len({moment.node for moment in self._drill.begun_since(since_ns)}) < NODES - 1:
            if not self._drill.listen(deadline):
                raise TimeoutError("the other workers did not begin")

    def start(self):
        late = next(node for node in reversed(range(NODES)) if node != self._node)
        for node in range(NODES):
            if node != late:
                self._begin(node)
        # It has its directory, and waits for the last node.
        deadline = time.monotonic() + PATIENCE_S
        while not os.listdir(self._disk.path) or not any(
                name.startswith("job_") for name in os.listdir(self._disk.path)):
            if not self._drill.listen(min(deadline, time.monotonic() + 0.05)) and time.monotonic() > deadline:
                raise TimeoutError("no log directory")
        self._await_port()
        with self._stalled():
            since = now_ns()
            self._begin(late)
            self._others_have_begun(since)
        self._drill.await_round(workers=NODES)
        self._drill.finish()

    def _await_port(self):
        deadline = time.monotonic() + PATIENCE_S
        while True:
            with contextlib.suppress(ValueError):
                return listening_port(self._network[self._node])
            if time.monotonic() > deadline:
                raise TimeoutError("the agent does not listen")
            self._drill.listen(time.monotonic() + 0.05)

    def restart(self):
        first = self._begin_all()
        victim = next(rank for rank in range(NODES) if first.node_of(rank) != self._node)
        with self._stalled():
            since = now_ns()
            os.kill(first.pid_of(victim), signal.SIGKILL)
            self._others_have_begun(since)
        self._drill.await_round(workers=NODES)
        self._drill.finish()

    def output(self):
        self._begin_all()
        with self._stalled():
            open(self._talk, "w").close()
            for node in range(NODES):
                if node != self._node:
                    self._await_log(node)
        self._await_log(self._node)
        self._drill.finish()
        for node in range(NODES):
            with open(self._stdout_of(node)) as log:
                lines = log.read().splitlines()
            if sum(len(line) + 1 for line in lines) < 4_000_000:
                raise AssertionError(f"the log of n{node} is not whole")

    def _stdout_of(self, node):
        return os.path.join(self._log(node), "attempt_0", "0", "stdout.log")

    def _await_log(self, node):
        deadline = time.monotonic() + PATIENCE_S
        while True:
            with open(self._stdout_of(node), "rb") as log:
                log.seek(max(0, os.fstat(log.fileno()).st_size - 100))
                if b"has said all" in log.read():
                    return
            if time.monotonic() > deadline:
                raise TimeoutError(f"the output of n{node} is not in its log")
            self._drill.listen(time.monotonic() + 0.05)

    def end(self):
        """ddprun ends although its last events cannot be written."""
        self._begin_all()
        questions = Questions(self._network[self._node])
        self._disk.freeze()
        # Something to be written: the logs and the events.
        open(self._talk, "w").close()
        others = [node for node in range(NODES) if node != self._node]
        for node in others:
            self._await_log(node)
        stop = os.path.join(self._drill.room, "stop")
        open(stop, "w").close()
        deadline = time.monotonic() + PATIENCE_S
        # The worker's own thread that notes its end is not on that disk, but its output is.
        statuses = self._await_all(deadline)
        self._answers += questions.end()
        last = max(moment.ns for moment in self._drill.moments())
        took = (now_ns() - last) / 1e9
        if set(statuses.values()) != {0}:
            raise AssertionError(f"ended with {statuses}")
        if took > EXIT_S:
            raise AssertionError(f"ended {took:.1f} s after the last worker")

    def _await_all(self, deadline):
        """As Drill.await_ends, but an agent that its guard has left keeps its end of the pipe open, so nothing
        tells that the last one has ended."""
        while any(job.poll() is None for job in self._drill.jobs.values()):
            if not self._drill.listen(min(deadline, time.monotonic() + 0.1)) and time.monotonic() > deadline:
                break
        return {node: job.poll() for node, job in self._drill.jobs.items()}


class StalledDisk(unittest.TestCase):
    @staticmethod
    def launch(disk):
        return subprocess.Popen(
            [options.ddprun, "--standalone", "--log-dir", disk.path, "--no-python", "true"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env=os.environ | {"ASAN_OPTIONS": "detect_leaks=0"})

    def test_a_signal_ends_a_launch_whose_log_directory_cannot_be_made(self):
        with Disk() as disk:
            disk.freeze()
            job = self.launch(disk)
            with job.stdout as said:
                self.assertIn("does not respond", said.readline())
                job.send_signal(signal.SIGINT)
                self.assertEqual(128 + signal.SIGINT, job.wait(PATIENCE_S))

    def test_a_signal_before_a_person_is_told_ends_it_without_that_line(self):
        with Disk() as disk:
            disk.freeze()
            job = self.launch(disk)
            with job.stdout as said:
                while not any(is_waiting_for_a_disk(agent) for agent in netns.children_of(job.pid)):
                    self.assertIsNone(job.poll())
                    time.sleep(0.01)
                job.send_signal(signal.SIGINT)
                self.assertEqual(128 + signal.SIGINT, job.wait(PATIENCE_S))
                disk.thaw()  # or the agent keeps the pipe open
                self.assertNotIn("the job starts once it does", said.read())

    def test_a_stalled_log_disk_costs_no_lease_no_agent_and_no_status(self):
        points = [point for point in POINTS if point in options.points]
        runs = [Run(*case) for case in itertools.product(points, (0, 1), range(options.repeats))]
        found = {}
        with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
            for run, (answers, wrong, account) in zip(runs, pool.map(Run.judge, runs)):
                found.setdefault(run.name, []).append((answers, wrong))
                if wrong:
                    print(f"wrong: {run.name}: {'; '.join(wrong)}\n{account}", flush=True)
        for name, results in found.items():
            answers = sorted(answer for taken, _ in results for answer in taken)
            times = ""
            if answers:
                times = f"{len(answers)} answers, p99 {1e3 * answers[len(answers) * 99 // 100]:.1f} ms, " \
                        f"longest {1e3 * answers[-1]:.1f} ms"
            print(f"{name:18} {sum(not wrong for _, wrong in results)} of {len(results)}  {times}", flush=True)
        self.assertFalse([name for name, results in found.items() if any(wrong for _, wrong in results)])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--ask"]:
        sys.exit(ask_for_ever(sys.argv[2], int(sys.argv[3])))
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddprun", required=True)
    parser.add_argument("--round-worker", required=True, type=os.path.abspath)
    parser.add_argument("--stall", type=float, default=4)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--points", default=",".join(POINTS))
    parser.add_argument("--jobs", type=int, default=4)
    _, rest = parser.parse_known_args(namespace=options)
    unittest.main(argv=[sys.argv[0], *rest])
