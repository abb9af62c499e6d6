"""Pods that are lost and come back, in real containers.

    pods_drill.py --pods PROGRAM --ddprun PROGRAM --round-worker PROGRAM [--repeats N] [--lease S] [--jobs N]
        [--kinds 2,1:2,…] [--lost 0,1,…] [--losses kill,lose] [--backs place,pod] [--after 0,6]
        [--helps none,trust,fence] [--logs DIRECTORY]

PROGRAM of --pods (or $PODS) runs containers with a name service, an address of their own for every start and
a PID 1: `pods start NAME [OPTION]… -- COMMAND…`, `kill`, `restart`, `remove`, `address`, `sh`. It needs root.
Each case is a kind of job, the pod that is lost, and how, when and where it is back:

    kill    all its processes are killed, its network lives on: a container that is killed in place
    lose    its link is cut, and then it is killed; no FIN, no RST
    place   the same container again, under the same name; if it was lost, with another address
    pod     a new pod under the old name, with another address

The right results are those of return_drill.py, which has the reasons. A pod that is killed with its kernel
alive is proved dead at once. Ends with 1 if anything was wrong.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import time

import drill_table
import return_drill
import rounds
from drill_table import Outcome
from return_drill import ALL, KINDS, TRY_AGAIN, WAIT
from stalls import Stalls

MARGIN_S = return_drill.MARGIN_S
BEGIN_S = 40  # pods start one after the other
PATIENCE_S = 10
WAIT_S = 10
COMMAND_S = 60

options = argparse.Namespace()
numbers = itertools.count()  # of the networks


class Case(collections.namedtuple("Case", "kind lost loss back after help")):
    """One line of the table."""

    def __str__(self):
        helped = "" if self.help == "none" else f" {self.help}"
        return (f"{self.kind.name:8} pod{self.lost} {self.loss} "
                f"{f'after {self.after:g} s' if self.after else 'at once'} {self.back}{helped}")


def expected(case):
    """The right result."""
    if case.loss == "kill":
        return ALL  # its ends of the lifelines end with it
    # A silence is of that lease; starting a container takes time of its own.
    silence = (case.after + 0.2) / options.lease
    return return_drill.expected(
        return_drill.Case(case.kind, (case.lost,), silence, "moved", case.help))


class Pods:
    """The pods of one job, in a network of their own."""

    def __init__(self, number):
        self.room = tempfile.mkdtemp(prefix="ddprun_pods_")
        os.chmod(self.room, 0o777)
        mount = " ".join({os.path.dirname(options.ddprun), os.path.dirname(options.round_worker)})
        self._environment = os.environ | {"PODS_NET": f"drill{number}", "PODS_MOUNT": mount}

    def __enter__(self):
        self.do("setup")
        return self

    def __exit__(self, *error):
        with contextlib.suppress(subprocess.SubprocessError):
            self.do("clean")
        shutil.rmtree(self.room, ignore_errors=True)

    def do(self, *words):
        ended = subprocess.run([options.pods, *words], env=self._environment, text=True,
                               stdin=subprocess.DEVNULL, capture_output=True, timeout=COMMAND_S)
        if ended.returncode != 0:
            raise RuntimeError(f"pods {' '.join(words[:2])}: {ended.stderr.strip()}")
        return ended.stdout

    def link(self, name):
        """Our end of the pod's link."""
        other_end = int(self.do("sh", name, "/bin/cat", "/sys/class/net/eth0/iflink"))
        for link in os.listdir("/sys/class/net"):
            with contextlib.suppress(OSError), open(f"/sys/class/net/{link}/ifindex") as index:
                if int(index.read()) == other_end:  # those of other jobs come and go
                    return link
        raise RuntimeError(f"{name}: its link has no other end here")

    def pin(self, name):
        """A bridge takes the lowest hardware address of its links for its own. When a pod comes or goes,
        that may change, and for up to a minute others cannot reach the name service behind it."""
        bridge = os.path.basename(os.readlink(f"/sys/class/net/{self.link(name)}/master"))
        with open(f"/sys/class/net/{bridge}/address") as address:
            subprocess.run(["ip", "link", "set", bridge, "address", address.read().strip()], check=True)

    def unplug(self, name):
        """Drops what the pod sends, so that its kernel cannot report its end. Returns its link."""
        link = self.link(name)
        subprocess.run(["ip", "link", "set", link, "down"], check=True)
        return link

    def path(self, name):
        return os.path.join(self.room, name)

    def read(self, name):
        with contextlib.suppress(FileNotFoundError), open(self.path(name)) as file:
            return file.read()
        return ""


class Run:
    """A case, once."""

    def __init__(self, case, pods):
        self.case, self.pods = case, pods

    def timeout_s(self):
        return 60 if expected(self.case) == ALL else self.case.after + WAIT_S

    def command(self, node):
        """A shell is PID 1, so that the rest can be killed and the network live on. What ddprun says and
        ended with is in a file of each life."""
        flags = " ".join(return_drill.job_flags(self.case.kind, node, self.case.help, "/room", "pod0"))
        ddprun = (f"{options.ddprun} {flags} --lease {options.lease:g} "
                  f"--rdzv-conf join_timeout={self.timeout_s():g} --log-dir /tmp/log --no-python "
                  f"{options.round_worker} /room/log /room/stop /room/notes")
        return ("trap : TERM; life=$(ls /room | grep -c ^said.$HOSTNAME.); "
                f"{ddprun} >/room/said.$HOSTNAME.$life 2>&1; "
                "echo $? >/room/ended.$HOSTNAME.$life; while :; do sleep 1000; done")

    def start(self, node):
        # The name service loses queries while pods come and go, and workers report their start once they
        # have found the store: 5 s later, by default, for each query that was lost.
        self.pods.do("start", f"pod{node}", "-v", f"{self.pods.room}:/room", "-e", "LOGLEVEL=INFO",
                     "-e", "ROUND_WORKER_PERIOD_MS=5", "-e", f"HOSTNAME=pod{node}",
                     "-e", "RES_OPTIONS=timeout:1 attempts:5",
                     "--", "/bin/sh", "-c", self.command(node))

    def begun(self, since_ns=0):
        """The moments in which workers have begun since then, of each round."""
        return rounds.rounds_by_token([moment for moment in rounds.parse(self.pods.read("notes"))
                                       if moment.ns > since_ns])

    def await_all(self, since_ns, deadline):
        """The moments of a round of all; none if there is none until then."""
        while time.monotonic() < deadline:
            for moments in self.begun(since_ns):
                if len({moment.rank for moment in moments}) == self.case.kind.most:
                    return moments
            if len(self.ended()) == self.case.kind.most:
                return []
            time.sleep(0.02)  # no events for a file across mounts; nothing depends on the time
        return []

    def lives(self, node):
        """How often ddprun was started in the pod."""
        return sum(name.startswith(f"said.pod{node}.") for name in os.listdir(self.pods.room))

    def ended(self):
        """{node: status} of the newest life of each pod."""
        statuses = {}
        for node in range(self.case.kind.most):
            with contextlib.suppress(ValueError):
                statuses[node] = int(self.pods.read(f"ended.pod{node}.{self.lives(node) - 1}"))
        return statuses

    def lose(self):
        name = f"pod{self.case.lost}"
        cut_s = time.monotonic()
        if self.case.loss == "kill":
            # All but PID 1 and itself; PID 1 continues to sleep.
            self.pods.do("sh", name, "/bin/sh", "-c", "trap : TERM; kill -KILL -1")
        else:
            link = self.pods.unplug(name)
            self.pods.do("kill", name)
            # Its network is taken down after that. A container that starts earlier gets it again, unplugged.
            deadline = time.monotonic() + COMMAND_S
            while os.path.exists(f"/sys/class/net/{link}"):
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{name} was killed, but its link {link} is still there")
                time.sleep(0.01)
        if self.case.back == "pod":
            self.pods.do("remove", name)
        return cut_s

    def come_back(self):
        name = f"pod{self.case.lost}"
        if self.case.back == "pod":
            self.start(self.case.lost)
        elif self.case.loss == "lose":
            self.pods.do("restart", name)
        else:
            self.pods.do("sh", name, "/bin/sh", "-c",
                         f"({self.command(self.case.lost)}) </dev/null >/dev/null 2>&1 &")

    def outcome(self):
        case = self.case
        self.start(0)
        self.pods.pin("pod0")
        for node in range(1, case.kind.most):
            self.start(node)
        if not self.await_all(0, time.monotonic() + BEGIN_S):
            return Outcome(case, False, "the first round did not begin", None, self.account())
        cut_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        cut_s = self.lose()
        time.sleep(max(0, cut_s + case.after - time.monotonic()))  # the silence is the case
        back_s, back_ns = time.monotonic(), time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        self.come_back()
        answer, seconds, seen = self.answer(cut_s, cut_ns, back_s, back_ns)
        found = rounds.violations(rounds.parse(self.pods.read("log")))
        seen = "; ".join([seen, *found[:1]])
        is_right = not found and answer is not None and answer in expected(case)
        account = "" if is_right else "\n".join([str(case), seen, *found[:10], self.account()])
        return Outcome(case, is_right, seen, seconds, account)

    def answer(self, cut_s, cut_ns, back_s, back_ns):
        case, most = self.case, self.case.kind.most
        could_s = back_s if case.loss == "kill" else max(back_s, cut_s + options.lease + MARGIN_S)
        patience = PATIENCE_S
        if expected(case) != ALL:
            patience += return_drill.longest_wait_s(case.kind, self.timeout_s())
        moments = self.await_all(back_ns, could_s + patience)
        if moments:
            seconds = (max(m.ns for m in moments) - back_ns) / 1e9 - (could_s - back_s)
            open(self.pods.path("stop"), "w").close()
            deadline = time.monotonic() + PATIENCE_S
            while len(self.ended()) < most and time.monotonic() < deadline:
                time.sleep(0.02)
            if set(self.ended().values()) == {0} and len(self.ended()) == most:
                return ALL, seconds, "all"
            return None, seconds, f"all, then {self.told()}"
        some = {m.node for each in self.begun(cut_ns) for m in each}
        if some:
            return None, None, f"only a round of some, on {' '.join(sorted(some))}; {self.told()}"
        if len(self.ended()) < most or set(self.ended().values()) != {TRY_AGAIN}:
            return None, None, self.told()
        silent = [f"pod{node}" for node in range(most) if not self.says_for_whom(node)]
        if silent:
            return None, None, f"75, but {' '.join(silent)} did not report for which node it waits"
        return WAIT, None, "wait"

    def says_for_whom(self, node):
        name = "" if node == self.case.lost else f"pod{self.case.lost}"
        said = self.pods.read(f"said.pod{node}.{self.lives(node) - 1}")
        return any("wait" in line and name in line for line in said.splitlines())

    def told(self):
        statuses = self.ended()
        runs = [f"pod{node}" for node in range(self.case.kind.most) if node not in statuses]
        return " ".join([*(["stands still:", *runs] if runs else []),
                         *(f"pod{node} ended with {status}" for node, status in statuses.items())])

    def account(self):
        last = {moment.process: str(moment) for moment in rounds.parse(self.pods.read("log"))}
        return "\n".join(last.values()) + "\n" + "".join(
            f"{name}:\n{self.pods.read(name)}" for name in sorted(os.listdir(self.pods.room))
                       if name.startswith(("said", "ended", "notes")))


def run_once(case):
    try:
        with Pods(next(numbers)) as pods:
            return Run(case, pods).outcome()
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        return Outcome(case, False, f"broken: {str(error).splitlines()[0]}", None, str(error))


def cases():
    """Each pod by itself; help only if there is no kernel to ask and no majority left."""
    for name in options.kinds:
        kind = KINDS[name]
        for lost, loss, back, after, help_ in itertools.product(
                options.lost, options.losses, options.backs, options.after, options.helps):
            is_asked_for = help_ == "none" or (loss == "lose" and kind.most == 2)
            if lost < kind.most and is_asked_for:
                yield Case(kind, lost, loss, back, after, help_)


def main():
    with Pods(next(numbers)):  # installs what is needed, before several do
        pass
    with Stalls() as stalls, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        runs = drill_table.submit(
            cases(), options.repeats,
            lambda case: pool.submit(drill_table.undisturbed, run_once, case, stalls), options.logs)
        return drill_table.report(runs, expected)


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pods", default=os.environ.get("PODS"), required="PODS" not in os.environ)
    for name in ("ddprun", "round-worker"):
        parser.add_argument(f"--{name}", required=True, type=os.path.abspath)
    drill_table.add_flags(parser, jobs=1)
    parser.add_argument("--lease", type=float, default=1)
    parser.add_argument("--kinds", type=drill_table.listed(str), default=["2", "2static", "3", "1:2", "1:3"])
    parser.add_argument("--lost", type=drill_table.listed(int), default=[0, 1, 2])
    parser.add_argument("--losses", type=drill_table.listed(str), default=["kill", "lose"])
    parser.add_argument("--backs", type=drill_table.listed(str), default=["place", "pod"])
    parser.add_argument("--after", type=drill_table.listed(float), default=[0, 6])
    parser.add_argument("--helps", type=drill_table.listed(str), default=["none", "trust", "fence"])
    parser.parse_args(namespace=options)


if __name__ == "__main__":
    parse()
    sys.exit(main())
