"""Random faults at random times, in jobs whose nodes are started again whenever they end: no two rounds may run at
once, and after the last fault all nodes must run in one round.

    chaos_drill.py --ddprun PROGRAM --round-worker PROGRAM [--seeds 1:100] [--jobs N] [--logs DIRECTORY]

A seed chooses the kind of job, what helps it (--fence-dir, --trust-replacement or nothing), and 3 to 12 troubles:
machines that lose power and are back as return_drill.py has it, cuts both ways and one way, a worker, an agent or
all processes of a node killed. The seed decides what happens, but not exactly when: processes are real. With
--logs, what happened and what all nodes said is kept, of each run that was wrong or was slow to come together.
Ends with 1 if a run was wrong.
"""

import argparse
import concurrent.futures
import contextlib
import os
import random
import signal
import sys
import time

import netns
import return_drill
import rounds
import seeds
from drill import Drill
from return_drill import FIRST_MOVED, LEASE_S, Kind

JOIN_TIMEOUT_S = 15
# Nodes that may not continue without a lost node end after the join timeout, not all at once, and start again.
PATIENCE_S = 6 * JOIN_TIMEOUT_S
SLOW_S = 2 * JOIN_TIMEOUT_S
LATELY_NS = 300_000_000  # each worker writes every few milliseconds

KINDS = (*return_drill.KINDS.values(), Kind("3static", 3, 3, True), Kind("3:5", 3, 5, False))
HELPS = ("none", "none", "fence", "trust")
BACKS = ("new", "new", "late", "moved")
GAPS_S = (0, 0.05, 0.3, 0.9, 1.2, 1.7, 3, 6)
TROUBLES = ("lose_power",) * 3 + ("return_power",) * 2 + ("heal",) * 2 + (
    "cut", "cut_one_way", "kill_worker", "kill_agent", "kill_all", "wait")

options = argparse.Namespace()


class Run:
    """The case of one seed."""

    def __init__(self, seed):
        self._chance = random.Random(seed)
        self._kind = self._chance.choice(KINDS)
        self._most = self._kind.most
        self._help = self._chance.choice(HELPS)
        self._begin_s = time.monotonic()
        self._due_s = {}  # node → when it is started again
        self._off = set()  # nodes without power
        self._unheard = set()  # nodes that are cut off; those without power too
        self._moved = FIRST_MOVED
        self._history = []
        self._network = self._drill = None

    def __str__(self):
        return f"{self._kind.name} {self._help}"

    def judge(self):
        """(seconds from when all was well until all ran, or None; what was wrong; an account)"""
        with netns.Network(self._most, names=True) as self._network, \
                Drill(self._network, options.ddprun, options.round_worker) as self._drill:
            self._begin()
            for _ in range(self._chance.randint(3, 12)):
                getattr(self, "_" + self._chance.choice(TROUBLES))()
                self._pass(self._chance.choice(GAPS_S) * self._chance.uniform(0.8, 1.2))
            seconds = self._come_together()
            wrong = [found for found in rounds.violations(self._drill.moments())
                     if not found.startswith("R1")]  # a job that has ended with 75 everywhere starts again
            if seconds is None:
                wrong.insert(0, f"no round of all within {PATIENCE_S} s")
            else:
                try:
                    self._drill.finish()
                except (AssertionError, OSError) as error:
                    wrong.append(str(error).splitlines()[0])
            return seconds, wrong, "\n".join([*self._history, *wrong[:10], self._drill.account()])

    def _note(self, what):
        self._history.append(f"{time.monotonic() - self._begin_s:7.3f} {what}")

    def _begin(self):
        for node in self._chance.sample(range(self._most), self._most):
            self._start(node)
            self._pass(self._chance.choice((0, 0, 0.3, 2)))
        self._pass(self._chance.choice((0, 2, 2, 2)))

    def _start(self, node):
        self._note(f"n{node} starts")
        self._drill.start(node, *return_drill.job_flags(self._kind, node, self._help, self._drill.room),
                          "--lease", str(LEASE_S), "--max-restarts", "1000", "--no-python",
                          "--rdzv-conf", f"join_timeout={JOIN_TIMEOUT_S},last_call_timeout=1")
        self._due_s.pop(node, None)

    def _pass(self, seconds):
        """Restarts ddprun on nodes where it has ended, as an operator would."""
        end_s = time.monotonic() + seconds
        while True:
            for node, job in self._drill.jobs.items():
                if job.poll() is not None and node not in self._due_s and node not in self._off:
                    self._note(f"n{node} has ended with {job.returncode}")
                    self._due_s[node] = time.monotonic() + self._chance.uniform(0, 1.5)
            due = [node for node, at_s in self._due_s.items() if at_s <= time.monotonic()]
            for node in due:
                self._start(node)
            now_s = time.monotonic()
            if now_s >= end_s:
                return
            self._drill.listen(min(end_s, now_s + 0.05, *self._due_s.values()))

    def _come_together(self):
        self._heal()
        for node in sorted(self._off):
            self._power_on(node)
        well_s = time.monotonic()
        while time.monotonic() < well_s + PATIENCE_S:
            self._pass(0.1)
            now_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
            lately = rounds.rounds_by_token(
                [moment for moment in self._drill.moments() if moment.ns > now_ns - LATELY_NS])
            are_up = all(job.poll() is None for job in self._drill.jobs.values())
            if are_up and len(lately) == 1 and len({moment.node for moment in lately[0]}) == self._most:
                return time.monotonic() - well_s
        return None

    # Troubles. ---------------------------------------------------------------------------------

    def _one_with_power(self):
        powered = [node for node in range(self._most) if node not in self._off]
        return self._chance.choice(powered) if powered else None

    def _lose_power(self):
        node, back = self._one_with_power(), self._chance.choice(BACKS)
        if node is None:
            return
        self._note(f"n{node} loses power, is to be back as {back}")
        self._unheard.add(node)
        self._network.isolate(node)
        self._network[node].lose_power()
        self._drill.jobs[node].wait()
        self._off.add(node)
        self._due_s.pop(node, None)
        if back == "new":
            self._network.renew(node)
        elif back == "moved":
            self._network.renew(node, self._moved)
            self._moved += 1

    def _return_power(self):
        if self._off:
            self._power_on(self._chance.choice(sorted(self._off)))

    def _power_on(self, node):
        self._note(f"n{node} has power again")
        self._off.discard(node)
        self._unheard.discard(node)
        self._cut_off_again()
        self._start(node)

    def _cut_off_again(self):
        """The nodes that are to run, and no others."""
        self._network.heal()
        for node in self._unheard:
            self._network.isolate(node)

    def _cut(self):
        node = self._one_with_power()
        if node is not None:
            self._note(f"n{node} is cut off")
            self._unheard.add(node)
            self._network.isolate(node)

    def _cut_one_way(self):
        sender, receiver = self._chance.sample(range(self._most), 2)
        self._note(f"n{sender} is not heard by n{receiver}")
        self._network.cut(sender, receiver)

    def _heal(self):
        self._note("healed")
        self._unheard = set(self._off)
        self._cut_off_again()

    def _kill_worker(self):
        self._kill("round_worker")

    def _kill_agent(self):
        self._kill("ddprun-agent")

    def _kill_all(self):
        self._kill("ddprun", "ddprun-agent", "round_worker")

    def _kill(self, *names):
        node = self._one_with_power()
        for pid in [] if node is None else self._network[node].pids():
            with contextlib.suppress(OSError), open(f"/proc/{pid}/comm") as name:
                if name.read().strip() in names:
                    self._note(f"{pid} of n{node} is killed, one of {', '.join(names)}")
                    os.kill(pid, signal.SIGKILL)

    def _wait(self):
        pass


def run(seed):
    """A line, and whether all was right. Runs in a separate process, whose descriptors hold the network."""
    one = Run(seed)
    try:
        seconds, wrong, account = one.judge()
    except (OSError, RuntimeError) as error:
        seconds, wrong, account = None, [f"broken: {str(error).splitlines()[0]}"], str(error)
    if options.logs and (wrong or seconds > SLOW_S):
        seeds.keep(options.logs, seed, f"{one}\n{account}")
    said = wrong[0] if wrong else f"all ran {seconds:.1f} s after all was well"
    return f"{'WRONG' if wrong else 'ok   '} seed {seed:<4} {str(one):18} {said}", not wrong


def main():
    with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
        right = 0
        for line, is_right in pool.map(run, options.seeds):
            print(line, flush=True)
            right += is_right
    return seeds.verdict(right, options.seeds)


def parse():
    parser = argparse.ArgumentParser()
    for name in ("ddprun", "round-worker"):
        parser.add_argument(f"--{name}", required=True, type=os.path.abspath)
    seeds.add_flags(parser, default="1:100", jobs=2)
    parser.parse_args(namespace=options)


if __name__ == "__main__":
    parse()
    sys.exit(main())
