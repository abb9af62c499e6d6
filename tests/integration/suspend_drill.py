"""Every process of every node is stopped and resumed later, as by `scontrol suspend` and `resume` or gang
scheduling: no node was replaced, so the job must continue, at worst after one restart that is not charged.

    suspend_drill.py --ddprun PROGRAM --round-worker PROGRAM [--repeats N] [--times N] [--lease S]
                     [--pauses S,S,...] [--apart S,S,...] [--jobs N] [unittest arguments]

Each job of 2, 3, 1:3 and 2:3 nodes is suspended --times times, for one of the pauses, and its nodes resume up to one
of --apart seconds from one another, in random order. Asserts that after each pause workers of all nodes
run in one round, that no two rounds overlap, that no restart was charged (--max-restarts 0) and that every
ddprun ends with 0. Prints how long it took from the last node's resumption to a round of all.
"""

import argparse
import concurrent.futures
import itertools
import random
import sys
import time
import unittest

import netns
import rounds
from drill import Drill
from failover_drill import now_ns

SETTLED_S = 0.5
LATELY_NS = 400_000_000  # each worker writes every few milliseconds
PATIENCE_S = 60

options = argparse.Namespace()


def setUpModule():
    netns.skip_without_namespaces()


class Run:
    def __init__(self, nodes, pause_s, apart_s, seed):
        self.name = f"{nodes:4} pause {pause_s:<5} apart {apart_s:<4}"
        self._nodes, self._pause_s, self._apart_s = nodes, pause_s, apart_s
        self._most = int(nodes.rpartition(":")[2])
        self._chance = random.Random(seed)

    def judge(self):
        """(seconds after each resumption, what was wrong, an account)"""
        waits, wrong = [], []
        with netns.Network(self._most, names=True) as network, \
                Drill(network, options.ddprun, options.round_worker) as drill:
            for node in range(self._most):
                drill.start(node, "--nnodes", self._nodes, "--rdzv-backend", "c10d", "--rdzv-endpoint", "n0:29400",
                            "--rdzv-id", "job", "--lease", str(options.lease), "--max-restarts", "0", "--no-python",
                            "--rdzv-conf", "join_timeout=60")
            try:
                drill.await_round(workers=self._most)
                for _ in range(options.times):
                    waits.append(self._suspend(network, drill))
                drill.finish()
            except (AssertionError, TimeoutError, OSError) as error:
                wrong.append(str(error).splitlines()[0])
            # A round in another instance may have the numbers of an earlier one.
            wrong += [found for found in rounds.violations(drill.moments()) if not found.startswith("R1")][:5]
            return waits, wrong, drill.account()

    def _suspend(self, network, drill):
        self._listen(drill, SETTLED_S * self._chance.uniform(1, 2))
        order = self._chance.sample(range(self._most), self._most)
        for node in order:
            network[node].freeze()
        time.sleep(self._pause_s)
        self._chance.shuffle(order)
        for node in order:
            network[node].thaw()
            self._listen(drill, self._apart_s * self._chance.uniform(0, 1) / max(1, self._most - 1))
        since_ns = now_ns()
        begun = time.monotonic()
        while time.monotonic() < begun + PATIENCE_S:
            self._listen(drill, 0.05)
            if any(job.poll() is not None for job in drill.jobs.values()):
                break
            if self._all_run(drill, since_ns):
                return time.monotonic() - begun
        raise AssertionError("no round of all after a pause")

    def _all_run(self, drill, since_ns):
        """Whether workers of one round have written lately on all nodes."""
        since = max(since_ns, now_ns() - LATELY_NS)
        late = {}
        for moment in drill.moments():
            if moment.ns > since:
                late.setdefault(moment.key, set()).add(moment.node)
        return any(len(nodes) == self._most for nodes in late.values())

    @staticmethod
    def _listen(drill, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            drill.listen(end)


class Suspended(unittest.TestCase):
    def test_a_job_continues_after_each_pause(self):
        cases = list(itertools.product(options.nodes.split(","), options.pauses, options.apart, range(options.repeats)))
        random.Random(1).shuffle(cases)
        runs = [Run(nodes, pause_s, apart_s, f"{nodes} {pause_s} {apart_s} {number}")
                for nodes, pause_s, apart_s, number in cases]
        found = {}
        with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
            for run, (waits, wrong, account) in zip(runs, pool.map(Run.judge, runs)):
                found.setdefault(run.name, []).append((waits, wrong))
                if wrong:
                    print(f"wrong: {run.name}: {'; '.join(wrong)}\n{account}", flush=True)
        for name, results in sorted(found.items()):
            waits = sorted(wait for waits, _ in results for wait in waits)
            right = sum(not wrong for _, wrong in results)
            times = f"median {waits[len(waits) // 2]:.2f} max {waits[-1]:.2f} s" if waits else ""
            print(f"{name} {right} of {len(results)} {times}", flush=True)
        self.assertFalse([name for name, results in found.items() if any(wrong for _, wrong in results)])


def numbers(text):
    return [float(word) for word in text.split(",")]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddprun", required=True)
    parser.add_argument("--round-worker", required=True)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--times", type=int, default=2)
    parser.add_argument("--lease", type=float, default=1)
    parser.add_argument("--nodes", default="2,3,1:3,2:3")
    parser.add_argument("--pauses", type=numbers, default=[0.3, 0.9, 1.1, 1.4, 3])
    parser.add_argument("--apart", type=numbers, default=[0, 0.5, 2])
    parser.add_argument("--jobs", type=int, default=4)
    _, rest = parser.parse_known_args(namespace=options)
    unittest.main(argv=[sys.argv[0], *rest])
