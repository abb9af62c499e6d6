"""Nodes that are cut off for a while, compared with what docs/failover.md says about `--lease`.

    cuts_drill.py --ddprun PROGRAM [--cuts N] [--leases 1,3,10] [--jobs J] [--seed S]
        [unittest arguments]

Short cuts: N single cuts of 0.1 to 0.8 leases, at random moments, of the leader and of a follower, in
jobs of two nodes and of three. Before each, every node had three heartbeats answered. None may cost a
round. Long cuts: of 1.3 to 2.5 leases; the messages about them are compared with when the kernel last
received anything on the connections (`ss`, lastrcv).

J jobs run at once: most of the time they wait. A cut whose end came later than 0.8 leases after its
beginning, because the machine was busy, is not counted.
"""

import argparse
import collections
import contextlib
import itertools
import multiprocessing
import os
import random
import re
import stat
import sys
import time
import traceback
import unittest

import netns
from drill import Drill

MARGIN_S = 0.45  # docs/failover.md
SHORT = (0.1, 0.8)  # leases
LONG = (1.3, 2.5)
PORT = 29400

# Of the form that Drill needs: LOG STOP NOTES. Stop is a FIFO that nobody writes to.
WORKER = """#!/bin/sh
echo "0 $DDPRUN_TERM $DDPRUN_ROUND $(uname -n) $RANK $$" >>"$3"
read -r nothing <"$2"
exit 0
"""

# Messages about a silence, with its duration.
SILENCE = re.compile(r"([^\n]*(?:not heard|were heard|was heard) for ([0-9.]+) s[^\n]*)\n")

options = argparse.Namespace()

Job = collections.namedtuple("Job", "lease nodes victim cuts seed")
Silence = collections.namedtuple("Silence", "lease nodes victim teller said told_s true_s text")
Found = collections.namedtuple("Found", "job made late lost silences trouble")


def setUpModule():
    netns.skip_without_namespaces()


class Cuts(Drill):
    """A job, and when each of its nodes printed what."""

    def __init__(self, network, job):
        self._script = os.path.join("/tmp", f"cuts_worker_{os.getpid()}")
        with open(self._script, "w") as script:
            script.write(WORKER)
        os.chmod(self._script, stat.S_IRWXU)
        super().__init__(network, options.ddprun, self._script)
        os.mkfifo(os.path.join(self.room, "stop"))
        self._told = []  # (node, moment, line)
        self._unended = collections.defaultdict(str)
        self.job = job

    def __exit__(self, *error):
        super().__exit__(*error)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._script)

    def begin(self):
        job = self.job
        for node in range(job.nodes):
            self.start(node, "--nnodes", f"2:{job.nodes}", "--rdzv-backend", "c10d",
                       "--rdzv-endpoint", f"{self.network[0].address}:{PORT}", "--rdzv-id", "job",
                       "--lease", str(job.lease), "--no-python",
                       "--rdzv-conf", "last_call_timeout=20")
        self.await_round(workers=job.nodes)

    def _read_voice(self, pipe):
        node = self._voices[pipe]
        before = len(self._said[node])
        super()._read_voice(pipe)
        text = self._unended[node] + self._said[node][before:].decode(errors="replace")
        *lines, self._unended[node] = text.split("\n")
        self._told += [(node, time.monotonic(), line + "\n") for line in lines]

    def wait(self, until):
        """Listens until then."""
        while time.monotonic() < until:
            self.listen(until)

    def begun(self):
        return sum(len(moments) for moments in self._begun.values())

    def silences(self):
        """(node, moment, seconds, line) of all messages about one."""
        for node, at, line in self._told:
            if found := SILENCE.search(line):
                yield node, at, float(found[2]), found[1]

    def last_heard(self, node, others):
        """When the kernel of `node` last received something from any of `others`; none: they have no
        connection."""
        addresses = [re.escape(self.network[other].address) for other in others]
        received = re.compile(rf"(?:{'|'.join(addresses)})\]?:[0-9]+\s*\n[^\n]*\blastrcv:([0-9]+)")
        said = self.network[node].run("ss", "-tinH", "state", "established")
        now = time.monotonic()
        ages = [int(age) / 1e3 for age in received.findall(said)]
        return now - min(ages) if ages else None


def short_cuts(drill, job, dice):
    """(made, late, lost) of job.cuts; ends with the first that is lost."""
    late = 0
    for made in range(job.cuts):
        # Three heartbeats, the first of which may have to wait for a new connection.
        drill.wait(time.monotonic() + job.lease * dice.uniform(0.5, 0.7))
        length = job.lease * dice.uniform(*SHORT) - 0.02  # what it takes to begin
        begun = time.monotonic()
        drill.network.isolate(job.victim)
        drill.wait(begun + length - 0.02)  # what it takes to heal
        drill.network.heal()
        took = time.monotonic() - begun
        is_late = took > job.lease * SHORT[1]
        late += is_late
        drill.wait(begun + job.lease + MARGIN_S + 0.2)
        if drill.begun() != job.nodes or any(drill.silences()):
            print(f"lost: lease {job.lease}, {job.nodes} nodes, n{job.victim} cut off for "
                  f"{took / job.lease:.3f} leases{' (not counted)' if is_late else ''}\n"
                  f"{drill.account()}", flush=True)
            return made + 1, late, 0 if is_late else 1
    return job.cuts, late, 0


def long_cut(drill, job, dice):
    """All messages about the silence, compared with the truth."""
    others = [node for node in range(job.nodes) if node != job.victim]
    drill.wait(time.monotonic() + job.lease * dice.uniform(0.5, 0.7))
    begun = time.monotonic()
    drill.network.isolate(job.victim)
    drill.wait(begun + job.lease / 2)
    heard = {(node, job.victim): drill.last_heard(node, [job.victim]) for node in others}
    heard |= {(job.victim, node): drill.last_heard(job.victim, [node]) for node in others}
    drill.wait(begun + job.lease * dice.uniform(*LONG))
    drill.network.heal()

    def last_heard(teller, text):
        """Which node the line of a node is about: one by its name, or all that it hears."""
        if teller != job.victim:
            # A node without a connection to the victim repeats the leader's message.
            return heard[teller, job.victim] or heard[0, job.victim]
        named = re.search(r"node n(\d+)", text)
        about = [int(named[1])] if named else others
        return max(filter(None, (heard[teller, node] for node in about)))

    return [Silence(job.lease, job.nodes, job.victim, teller, at - begun, told,
                    at - last_heard(teller, text), text)
            for teller, at, told, text in drill.silences()]


def run_job(job):
    """A job of its own for each long cut (cuts of 0), and for each series of short ones."""
    dice = random.Random(job.seed)
    found = Found(job, 0, 0, 0, [], "")
    try:
        with netns.Network(job.nodes) as network, Cuts(network, job) as drill:
            drill.begin()
            if job.cuts == 0:
                return found._replace(silences=long_cut(drill, job, dice))
            made, late, lost = short_cuts(drill, job, dice)
            return found._replace(made=made, late=late, lost=lost)
    except Exception:  # told by the one process that may fail
        return found._replace(trouble=traceback.format_exc())


def run_all(jobs):
    """As many at once as were asked for, those that take longest first."""
    ordered = sorted(jobs, key=lambda job: -job.lease * max(1, job.cuts))
    with multiprocessing.Pool(options.jobs, maxtasksperchild=1) as pool:
        yield from pool.imap_unordered(run_job, ordered, chunksize=1)


class CutsDrill(unittest.TestCase):
    def worlds(self):
        """Leader and follower, of two nodes and of three."""
        return itertools.product(options.leases, (2, 3), (0, 1))

    def test_short_cuts_cost_nothing(self):
        kinds = list(self.worlds())
        series = max(1, options.cuts // len(kinds) // options.split)
        jobs = [Job(lease, nodes, victim, series, f"{options.seed}.{lease}.{nodes}.{victim}.{part}")
                for lease, nodes, victim in kinds for part in range(options.split)]
        sums = collections.defaultdict(lambda: [0, 0, 0])
        for found in run_all(jobs):
            self.assertFalse(found.trouble, found.trouble)
            kind = (found.job.lease, found.job.nodes, "follower" if found.job.victim else "leader")
            for index, count in enumerate((found.made, found.late, found.lost)):
                sums[kind][index] += count
        for (lease, nodes, victim), (made, late, lost) in sorted(sums.items()):
            print(f"lease {lease:g} s, {nodes} nodes, {victim} cut off: {lost} false losses of "
                  f"{made - late} cuts ({late} more took too long)", flush=True)
        made, late, lost = map(sum, zip(*sums.values()))
        print(f"all: {lost} false losses of {made - late} cuts", flush=True)
        self.assertEqual(0, lost)

    def test_long_cuts_are_told_as_they_were(self):
        jobs = [Job(lease, nodes, victim, 0, f"{options.seed}.{lease}.{nodes}.{victim}.{part}")
                for lease, nodes, victim in self.worlds() for part in range(options.longs)]
        off, over, count = 0.0, 0.0, 0
        for found in run_all(jobs):
            self.assertFalse(found.trouble, found.trouble)
            self.assertTrue(found.silences, f"nothing was said: {found.job}")
            for one in found.silences:
                count += 1
                off = max(off, abs(one.told_s - one.true_s))
                over = max(over, one.true_s - one.lease)
                print(f"lease {one.lease:g} s, {one.nodes} nodes, n{one.victim} cut off, n{one.teller} "
                      f"says {one.told_s:.1f} s, truth {one.true_s:.2f} s: {one.text}", flush=True)
        print(f"{count} lines of {len(jobs)} cuts: at most {off:.2f} s from the truth, at most "
              f"{over:.2f} s after the lease (margin {MARGIN_S} s)", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddprun", required=True)
    parser.add_argument("--cuts", type=int, default=4, help="short ones, of all leases together")
    parser.add_argument("--longs", type=int, default=1, help="long cuts of each kind")
    parser.add_argument("--leases", default="3", type=lambda text: [float(x) for x in text.split(",")])
    parser.add_argument("--split", type=int, default=1, help="jobs of each kind of short cuts")
    parser.add_argument("--jobs", type=int, default=8, help="at once")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    _, rest = parser.parse_known_args(namespace=options)
    print(f"--seed {options.seed}", flush=True)
    unittest.main(argv=[sys.argv[0], *rest])
