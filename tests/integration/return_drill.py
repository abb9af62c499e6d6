"""Nodes that are lost in silence and come back: they are cut off, all their processes are killed, the network is
healed after a while, and the same command line is started there again.

    return_drill.py --ddprun PROGRAM --round-worker PROGRAM [--repeats N] [--jobs N] [--quick]
        [--kinds 2,1:3,…] [--lost 0,1,…] [--silences 0,0.3,…] [--backs new,late,moved]
        [--helps none,trust,fence] [--logs DIRECTORY]

Each case is a kind of job, which nodes are lost (0 leads), for how long, and how they are back:

    new     a machine that was reset: its kernel knows nothing of the run
    late    the machine lived on: its kernel sends the FINs of what was killed once it is heard again
    moved   a new pod: another machine, with another address under the old name

If there is no kernel to ask, --trust-replacement on or --fence-dir helps. expected() has the right result of each
case, as docs/failover.md has it: a round of all nodes, or a wait that names the missing nodes, and status 75 on
every node. The records of the workers are checked too: none of an older round beside one of a newer (rounds.py).
Times count from when the job could continue: the return, or the end of lease + margin if that is later. They are
printed, but not asserted, except that a job counts as stuck after a limit. Ends with 1 if anything was wrong.
"""

import argparse
import collections
import concurrent.futures
import itertools
import os
import re
import sys
import time

import drill_table
import netns
import rounds
from drill import Drill
from drill_table import SAID_AT_ONCE_S, Outcome
from stalls import Stalls

LEASE_S, MARGIN_S = 1, 0.45  # docs/failover.md
PROVED_IN_TIME_S = 0.3  # so silent a node may be proved dead before lease + margin, by its own kernel
BEGIN_S = 60
PATIENCE_S = 8  # after that it counts as stuck
WAIT_S = 8  # how much longer than the silence the join timeout of a wait is
PORT = 29400
FIRST_MOVED = 101  # the last number of an address that no node has had
SEEK_S = 30  # how long nodes of a world that may shrink look for each other
TRY_AGAIN = 75

Kind = collections.namedtuple("Kind", "name least most is_static")
KINDS = {kind.name: kind for kind in (
    Kind("2", 2, 2, False), Kind("2static", 2, 2, True), Kind("3", 3, 3, False),
    Kind("1:2", 1, 2, False), Kind("1:3", 1, 3, False), Kind("4", 4, 4, False),
    Kind("2:4", 2, 4, False), Kind("5", 5, 5, False))}
SILENCES = (0, 0.3, 0.9, 1.1, 3, 20)
BACKS = ("new", "late", "moved")
ALL, WAIT, EITHER = "all", "wait", "all or wait"

options = argparse.Namespace()


class Case(collections.namedtuple("Case", "kind lost silence back help", defaults=("none",))):
    """One line of the table. `lost`: indices of nodes."""

    def __str__(self):
        lost = "+".join(map(str, self.lost))
        helped = "" if self.help == "none" else f" {self.help}"
        return f"{self.kind.name:8} lost {lost:6} T {self.silence:<4g} {self.back}{helped}"


def expected(case):
    """The right result."""
    most, left = case.kind.most, case.kind.most - len(case.lost)
    majority = most // 2 + 1
    is_half = 2 * left == most
    may_run_as_half = is_half and case.kind.least <= left
    if left >= majority or (is_half and case.help == "fence"):
        return ALL
    if may_run_as_half and 0 not in case.lost:
        return ALL  # the tie is the leader's
    is_proved = case.back != "moved" or case.help == "trust"
    # Every quorum needs one of those left, or the node that is back proves that the tie is over.
    if is_proved and is_half and (not may_run_as_half or (most == 2 and case.help == "trust")):
        return ALL
    if case.back == "moved" or case.silence > LEASE_S + MARGIN_S:
        return WAIT
    return ALL if len(case.lost) == 1 and case.silence <= PROVED_IN_TIME_S else EITHER


def goes_on_meanwhile(case):
    """Whether those that are left must run again before the others return."""
    left = case.kind.most - len(case.lost)
    may = 2 * left > case.kind.most or (
        2 * left == case.kind.most and (0 not in case.lost or case.help == "fence"))
    # A leader that was left with half of the nodes is elected again, and nodes that heard it until the end of its
    # own lease may vote for it only after one more lease.
    leases = 2 if 2 * left == case.kind.most and left > 1 else 1
    needed_s = leases * (LEASE_S + MARGIN_S) + SAID_AT_ONCE_S / 2
    return may and case.kind.least <= left and case.silence > needed_s


def longest_wait_s(kind, join_timeout_s):
    """The wait of a job that will not run again. A node that is back waits as long as one that starts a job; nodes
    of an elastic job have another limit."""
    return join_timeout_s if kind.least == kind.most else max(join_timeout_s, SEEK_S)


def job_flags(kind, node, help_, fences, host="n0"):
    """How a node of such a job finds the others, and what helps it. `fences`: the directory of --fence-dir; `host`:
    the endpoint."""
    where = (("--node-rank", str(node), "--master-addr", host, "--master-port", str(PORT)) if kind.is_static else
             ("--rdzv-backend", "c10d", "--rdzv-endpoint", f"{host}:{PORT}", "--rdzv-id", "job"))
    nnodes = str(kind.most) if kind.least == kind.most else f"{kind.least}:{kind.most}"
    helped = {"none": (), "trust": ("--trust-replacement", "on"), "fence": ("--fence-dir", fences),
              "spare": ("--spares",)}[help_]
    return ("--nnodes", nnodes, *where, *helped)


class Run:
    """A case, once."""

    def __init__(self, case, network, drill):
        self.case, self.network, self.drill = case, network, drill
        self._dead = []  # ddprun of before
        self._meanwhile_s = None  # how long after lease + margin those left ran again

    def timeout_s(self):
        return 60 if expected(self.case) == ALL else self.case.silence + WAIT_S

    def flags(self, node):
        return (*job_flags(self.case.kind, node, self.case.help, self.drill.room), "--lease", str(LEASE_S),
                "--rdzv-conf", f"join_timeout={self.timeout_s():g}", "--no-python")

    def outcome(self):
        case = self.case
        for node in range(case.kind.most):
            self.drill.start(node, *self.flags(node))
        if not self.drill.await_fresh_round(case.kind.most, 0, time.monotonic() + BEGIN_S):
            return Outcome(case, False, "the first round did not begin", None,
                           f"{case}\n{self.drill.account()}")
        if case.help == "spare":  # of a job that has begun without it
            self.drill.start(case.kind.most, *self.flags(case.kind.most))
            self.listen_until(lambda: "stands by" in self.drill.said(case.kind.most))
        cut_s, cut_ns = self.lose()
        # Reads all output meanwhile, until the silence is over.
        while time.monotonic() < cut_s + case.silence:
            self.drill.listen(cut_s + case.silence)
        said = {node: len(self.drill.said(node)) for node in range(case.kind.most)}
        lonely = goes_on_meanwhile(case) and self.drill.await_fresh_round(
            case.kind.most - len(case.lost), cut_ns, time.monotonic())
        if lonely:
            self._meanwhile_s = (lonely.last_ns - cut_ns) / 1e9 - LEASE_S - MARGIN_S
        # Before the network heals: what its kernel still sends may let a spare start before this continues.
        back_s, back_ns = time.monotonic(), time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        self.network.heal()
        for node in case.lost:
            self.drill.start(node, *self.flags(node))
        answer, seconds, seen = self.answer(cut_s, cut_ns, back_s, back_ns, said)
        found = rounds.violations(self.drill.moments())
        if goes_on_meanwhile(case) and not lonely:
            found.insert(0, "those left did not continue by themselves")
        seen = "; ".join([seen, *found[:1]])
        # A busy machine may cause a silence, or see it late.
        took_s = back_s - cut_s
        is_late = took_s > case.silence + PROVED_IN_TIME_S / 2
        right = expected(case) + (expected(case._replace(silence=took_s)) if is_late else "")
        is_right = not found and answer is not None and answer in right
        account = "" if is_right else "\n".join([str(case), seen, *found[:10], self.drill.account()])
        return Outcome(case, is_right, seen, seconds, account, self._meanwhile_s)

    def listen_until(self, is_said):
        until = time.monotonic() + BEGIN_S
        while not is_said() and time.monotonic() < until:
            self.drill.listen(time.monotonic() + SAID_AT_ONCE_S)

    def lose(self):
        cut_s, cut_ns = time.monotonic(), time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        for node in self.case.lost:
            self.network.isolate(node)
        for node in self.case.lost:
            self.network[node].lose_power()
            self._dead.append(self.drill.jobs.pop(node))
        for node in self.case.lost:
            if self.case.back != "late":
                moved = FIRST_MOVED + node if self.case.back == "moved" else None
                self.network.renew(node, moved)
        for job in self._dead:
            job.wait(PATIENCE_S)
        return cut_s, cut_ns

    def answer(self, cut_s, cut_ns, back_s, back_ns, said):
        """(ALL, WAIT or None, seconds until the round of all, what was seen)."""
        most = self.case.kind.most
        could_s = max(back_s, cut_s + LEASE_S + MARGIN_S)
        patience = PATIENCE_S
        if expected(self.case) != ALL:
            patience += longest_wait_s(self.case.kind, self.timeout_s())
        fresh = self.drill.await_fresh_round(most, back_ns, could_s + patience)
        if fresh:
            seconds = (fresh.last_ns - back_ns) / 1e9 - (could_s - back_s)
            if self.case.help == "spare":  # else the job might be over before the spare hears who leads
                joins = re.compile(rf"joined: ({most + 1}|{most + 2}) of")  # with the one that is lost, or without it
                self.listen_until(lambda: any(joins.search(self.drill.said(node), said.get(node, 0))
                                              for node in range(most)))
            try:
                self.drill.finish()
            except (AssertionError, OSError) as error:
                return None, seconds, f"all, then {str(error).splitlines()[0]}"
            return ALL, seconds, "all"
        statuses = self.drill.await_ends(time.monotonic())
        nodes = sorted({moment.node for moment in self.drill.begun_since(cut_ns)})
        if nodes:
            return None, None, f"only a round of some, on {' '.join(nodes)}; {self.ended(statuses)}"
        if set(statuses.values()) != {TRY_AGAIN}:
            return None, None, self.ended(statuses) + self.leftover()
        silent = [f"n{node}" for node in range(most) if not self.says_for_whom(node, said[node])]
        if silent:
            return None, None, f"75, but {' '.join(silent)} did not report for which node it waits"
        return WAIT, None, "wait"

    def leftover(self):
        """Nodes whose workers run on in a round that was over when the node was lost."""
        now_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        nodes = {moment.node for moment in self.drill.moments() if now_ns - moment.ns < 500_000_000}
        return f"; workers of the dead round run on: {' '.join(sorted(nodes))}" if nodes else ""

    def ended(self, statuses):
        ran_on = [f"n{node}" for node, status in statuses.items() if status is None]
        ended = [f"n{node} {status}" for node, status in statuses.items() if status is not None]
        return " ".join([*(["stands still:", *ran_on] if ran_on else []),
                         *(["ended:", *ended] if ended else [])])

    def says_for_whom(self, node, since):
        """A node that was never away names those that are; one that is back, what it waits for."""
        of = [] if node in self.case.lost else [f"n{lost}" for lost in self.case.lost]
        said = self.drill.said(node)
        waits = [line for line in (said[since:] if not of else said).splitlines()
                 if re.search("wait", line)]
        return any(all(name in line for name in of) for line in waits)


def run_once(case):
    """Runs in a separate process, whose descriptors hold the network."""
    try:
        nodes = case.kind.most + (case.help == "spare")
        with netns.Network(nodes, names=True) as network, \
                Drill(network, options.ddprun, options.round_worker) as drill:
            return Run(case, network, drill).outcome()
    except (AssertionError, OSError, RuntimeError) as error:
        return Outcome(case, False, f"broken: {str(error).splitlines()[0]}", None, str(error))


def losses(kind, asked):
    every = [(0,), (1,)]
    if kind.most > 2:
        every += [(0, 1), (1, 2)]
    if kind.most > 4:
        every += [(0, 1, 2), (1, 2, 3)]
    return [lost for lost in every if not asked or lost in asked]


def helps(help_, kind, lost, back):
    """Whether that help makes a difference in such a case."""
    if help_ == "none":
        return True
    if help_ == "spare":
        return kind.name == "2" and back != "moved"
    return 2 * len(lost) == kind.most and (back == "moved" or help_ == "fence")


def cases():
    asked = [tuple(map(int, each.split("+"))) for each in options.lost]
    for kind in map(KINDS.__getitem__, options.kinds):
        for lost, silence, back, help_ in itertools.product(
                losses(kind, asked), options.silences, options.backs, options.helps):
            if helps(help_, kind, lost, back):
                yield Case(kind, lost, silence, back, help_)


def quick_cases():
    """A case of each sort, for every change: some half a minute."""
    yield Case(KINDS["2"], (0,), 0.3, "new")
    yield Case(KINDS["2"], (0,), 3, "new")
    yield Case(KINDS["2"], (0,), 0.3, "new", "spare")
    yield Case(KINDS["2static"], (1,), 3, "late")
    yield Case(KINDS["1:2"], (1,), 3, "new")
    yield Case(KINDS["1:2"], (0,), 3, "new")
    yield Case(KINDS["1:3"], (0,), 0.3, "new")
    yield Case(KINDS["3"], (0,), 3, "moved")
    yield Case(KINDS["2"], (1,), 0.3, "moved", "trust")
    yield Case(KINDS["1:2"], (0,), 0.3, "moved", "fence")


def words(account):
    """The last of each agent, for the table; all of them are in --logs."""
    kept = []
    for line in account.splitlines():
        if re.match(r"n\d+ \((runs|-?\d+)\):$", line):
            kept.append([line])
        elif kept:
            kept[-1].append(line)
    return "\n".join("    " + line for each in kept for line in [each[0], *each[1:][-3:]])


def main():
    reason = netns.why_not()
    if reason:
        print(f"SKIPPED: {reason}")
        return 0
    # Many workers that write each millisecond would be what is measured.
    os.environ["ROUND_WORKER_PERIOD_MS"] = "5"
    chosen = list(quick_cases() if options.quick else cases())

    def tell(outcome):
        if not options.terse:
            print(words(outcome.account), flush=True)

    with Stalls() as stalls, concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
        runs = drill_table.submit(
            chosen, options.repeats,
            lambda case: pool.submit(drill_table.undisturbed, run_once, case, stalls), options.logs)
        return drill_table.report(runs, expected, tell)


def parse():
    parser = argparse.ArgumentParser()
    for name in ("ddprun", "round-worker"):
        parser.add_argument(f"--{name}", required=True)
    drill_table.add_flags(parser, jobs=2 * len(os.sched_getaffinity(0)))
    parser.add_argument("--quick", action="store_true", help="a few cases only")
    parser.add_argument("--terse", action="store_true", help="no last words")
    parser.add_argument("--kinds", type=drill_table.listed(str), default=list(KINDS))
    parser.add_argument("--lost", type=drill_table.listed(str), default=[], help="0, 1, 0+1, …")
    parser.add_argument("--silences", type=drill_table.listed(float), default=list(SILENCES))
    parser.add_argument("--backs", type=drill_table.listed(str), default=list(BACKS))
    parser.add_argument("--helps", type=drill_table.listed(str), default=["none", "trust", "fence", "spare"])
    parser.parse_args(namespace=options)


if __name__ == "__main__":
    parse()
    sys.exit(main())
