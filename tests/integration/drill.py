"""A job on several nodes whose workers write down when they ran.

    with netns.Network(3) as network, Drill(network, ddprun, round_worker) as drill:
        for node in range(3):
            drill.start(node, "--nnodes", "3", ...)
        first = drill.await_round(workers=3)       # all have begun
        os.kill(first.pid_of(rank=1), signal.SIGKILL)
        second = drill.await_round(workers=3)      # of a later round
        drill.finish()                             # every worker exits 0
        drill.judge(self)                          # never two rounds at once

The workers report what happened, and nothing waits for a fixed time: the one deadline only ends a
drill that hangs.
"""

import contextlib
import os
import select
import shutil
import tempfile
import time

import rounds

PATIENCE_S = 120


class Round:
    """A round in which `workers` have reported their start."""

    def __init__(self, moments):
        self.moments = moments
        self.key = moments[0].key
        self.first_ns = min(moment.ns for moment in moments)
        self.last_ns = max(moment.ns for moment in moments)  # when the last one began

    def _one(self, rank):
        return next(moment for moment in self.moments if moment.rank == rank)

    @property
    def nodes(self):
        """That of each rank."""
        return [self.node_of(rank) for rank in range(len(self.moments))]

    def pid_of(self, rank):
        return self._one(rank).pid

    def node_of(self, rank):
        return int(self._one(rank).node.removeprefix("n"))


class Drill:
    def __init__(self, network, ddprun, round_worker):
        self.network = network
        self._ddprun = os.path.abspath(ddprun)
        self._worker = os.path.abspath(round_worker)
        self.room = tempfile.mkdtemp(prefix="ddprun_drill_")
        self._log, self._stop, notes = (
            os.path.join(self.room, name) for name in ("log", "stop", "notes"))
        os.mkfifo(notes)
        # Open for both, so that it has no end when no worker runs, and none waits for us.
        self._notes = os.open(notes, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._unread = b""
        self._voices = {}  # pipe from a ddprun → its node
        self._newest_voice = {}  # node → that of its newest ddprun; one before may run on there
        self._said = {}  # node → bytes
        self._begun = {}  # key of a round → its first moments
        self._awaited = (0, 0)  # the newest round that was yielded
        self.jobs = {}  # node → its ddprun

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for node in self.jobs:
            self.network[node].kill()
        for job in self.jobs.values():
            job.wait(PATIENCE_S)
        for pipe in (self._notes, *self._voices):
            os.close(pipe)
        shutil.rmtree(self.room, ignore_errors=True)

    def start(self, node, *flags, within=()):
        """Starts ddprun on a node, in place of one that has ended there. `within`: a command that runs
        it, if any."""
        words = [*within, self._ddprun, "--log-dir", os.path.join(self.room, f"n{node}"), *flags,
                 self._worker, self._log, self._stop, os.path.join(self.room, "notes")]
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PET_", "DDPRUN_SECRET"))}
        voice, said = os.pipe()
        self._voices[voice] = node
        self._newest_voice[node] = voice
        self._said.setdefault(node, b"")
        with open(said, "wb") as said:
            self.jobs[node] = self.network[node].popen(
                words, stdout=said, stderr=said, env=kept | {"LOGLEVEL": "INFO"})
        return self.jobs[node]

    def said(self, node):
        """What ddprun printed on a node, on both streams: all of it, if it has ended."""
        deadline = time.monotonic() + PATIENCE_S
        while self.listen(0):
            pass
        has_ended = node not in self.jobs or self.jobs[node].poll() is not None
        while has_ended and self._newest_voice.get(node) in self._voices and self.listen(deadline):
            pass
        return self._said.get(node, b"").decode(errors="replace")

    def await_said(self, node, text):
        """Waits until ddprun on that node has printed it."""
        deadline = time.monotonic() + PATIENCE_S
        while text.encode() not in self._said[node]:
            if not self.listen(deadline):
                raise TimeoutError(f"n{node} has not said {text!r}:\n{self.account()}")

    def await_round(self, workers):
        """The next round in which `workers` have begun. Skips rounds that never had so many."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            for key in sorted(self._begun):
                if key > self._awaited and len(self._begun[key]) >= workers:
                    self._awaited = key
                    return Round(self._begun[key])
            self._await_more(deadline)

    def begun_since(self, ns):
        """The first moment of each worker that is known to have begun since then."""
        return [moment for begun in self._begun.values() for moment in begun if moment.ns > ns]

    def await_begun(self, workers):
        """The first moments of so many workers or more, of whatever rounds, since the drill began."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            moments = self.begun_since(0)
            if len(moments) >= workers:
                return moments
            self._await_more(deadline)

    def await_fresh_round(self, workers, since_ns, deadline):
        """A round that so many workers have begun since then, whatever its numbers. None if there is
        no such round by the deadline, or every ddprun has ended."""
        while True:
            for moments in rounds.rounds_by_token(self.begun_since(since_ns)):
                if len({moment.rank for moment in moments}) >= workers:
                    return Round(moments)
            if all(job.poll() is not None for job in self.jobs.values()):
                return None
            if not self.listen(deadline):
                return None

    def await_ends(self, deadline):
        """{node: exit status} of every ddprun; None of those that run on at the deadline."""
        while any(job.poll() is None for job in self.jobs.values()) and self.listen(deadline):
            pass
        return {node: job.poll() for node, job in self.jobs.items()}

    def _await_more(self, deadline):
        if not self.listen(deadline):
            raise TimeoutError(f"no further round has begun in {PATIENCE_S} s:\n{self.account()}")

    def listen(self, deadline):
        """Reads what workers and ddprun write next. False if they write nothing by the deadline."""
        ready, _, _ = select.select([self._notes, *self._voices], [], [],
                                    max(0, deadline - time.monotonic()))
        for pipe in ready:
            self._read_notes() if pipe == self._notes else self._read_voice(pipe)
        return bool(ready)

    def _read_voice(self, pipe):
        said = os.read(pipe, 1 << 16)
        self._said[self._voices[pipe]] += said
        if not said:
            node = self._voices.pop(pipe)
            if self._newest_voice.get(node) == pipe:
                del self._newest_voice[node]
            os.close(pipe)

    def _read_notes(self):
        self._unread += os.read(self._notes, 1 << 16)
        whole, end, self._unread = self._unread.rpartition(b"\n")
        for moment in rounds.parse((whole + end).decode()):
            self._begun.setdefault(moment.key, []).append(moment)

    def account(self):
        """The output of all, for a test that fails."""
        return "".join(f"n{node} ({'runs' if job.poll() is None else job.returncode}):\n"
                       f"{self.said(node)}" for node, job in sorted(self.jobs.items()))

    def finish(self, expected=0):
        """Lets every worker exit with 0. Fails unless each ddprun ends with `expected`."""
        self.finish_with(dict.fromkeys(self.jobs, expected))

    def finish_with(self, expected):
        """The same, with a status for each node."""
        open(self._stop, "w").close()
        statuses = {node: job.wait(PATIENCE_S) for node, job in self.jobs.items()}
        if statuses != expected:
            raise AssertionError(f"ended with {statuses}:\n{self.account()}")

    def moments(self):
        with contextlib.suppress(FileNotFoundError), open(self._log) as log:
            return rounds.parse(log.read())
        return []

    def stopped_ns(self, key):
        """When the last worker of a round ran for the last time."""
        return rounds.rounds_of(self.moments())[key][-1].ns

    def judge(self, test):
        found = rounds.violations(self.moments())
        test.assertEqual([], found, "\n".join([*found[:10], self.account()]))
