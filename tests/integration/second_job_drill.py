"""A second job is started at the endpoint of a running one: it is refused, or named, and never becomes part of
the first job; and no ddprun ends with 0 if its workers never ran.

    second_job_drill.py --ddprun PROGRAM --round-worker PROGRAM [--repeats N] [--seed N]
        [unittest arguments]

The first job has nodes 0 and 1. The second has the same machines or two others, the same id or another,
the same program (in another directory) or another; one node of the first job may be lost before it
comes, or once it was heard. Without --repeats each case that went wrong once is tried, once; with it
so many of all cases, by chance.
"""

import argparse
import collections
import itertools
import os
import random
import signal
import sys
import tempfile
import time
import unittest

import netns
from drill import PATIENCE_S, Drill

PORT = 29400
REFUSED, TRY_AGAIN = 2, 75

Case = collections.namedtuple("Case", "backend same_id same_program same_hosts lost lost_first")

ALL = [Case(*case) for case in itertools.product(
    ("c10d", "static"), (True, False), (True, False), (True, False), (None, 0, 1), (True, False))]
SHORT = [
    Case("c10d", True, False, True, None, False),  # stood by and ended with 0
    Case("c10d", True, True, False, None, False),
    Case("c10d", True, False, False, 1, False),  # became rank 1 of the first job's world
    Case("c10d", True, False, True, 0, True),  # begins at the endpoint of the first job
    Case("static", True, False, True, 1, False),
    Case("c10d", False, False, False, 0, False),
]

options = argparse.Namespace()


def setUpModule():
    netns.skip_without_namespaces()
    print(f"--seed {options.seed}", flush=True)


class SecondJob(unittest.TestCase):
    def setUp(self):
        self.network = self.enterContext(netns.Network(4))

    def worker(self, name):
        """The round worker under this name, in a directory of its own."""
        room = self.enterContext(tempfile.TemporaryDirectory())
        path = os.path.join(room, name)
        os.symlink(os.path.abspath(options.round_worker), path)
        return path

    def flags(self, case, job_id, rank):
        address = self.network[0].address
        # A fixed job waits for its lost node; without its leader the elastic one continues alone.
        nodes = "1:2" if case.lost == 0 and case.backend == "c10d" else "2"
        endpoint = (("--rdzv-backend", "c10d", "--rdzv-endpoint", f"{address}:{PORT}")
                    if case.backend == "c10d" else
                    ("--node-rank", str(rank), "--master-addr", address, "--master-port", str(PORT)))
        return ("--nnodes", nodes, *endpoint, "--rdzv-id", job_id, "--lease", "1", "--rdzv-conf",
                "join_timeout=5,last_call_timeout=0.2", "--no-python")

    def lose(self, first, node):
        first.jobs[node].send_signal(signal.SIGKILL)
        self.lost.append(first.jobs.pop(node))
        self.lost[-1].wait(PATIENCE_S)

    def await_settled(self, second, but=()):
        """Each ddprun of the second job has ended, or stands by; `but` for those of these nodes."""
        deadline = time.monotonic() + PATIENCE_S
        for node, job in second.jobs.items():
            if f"n{node}" in but:
                continue
            while node in second._voices.values() and b"stands by" not in second._said[node]:
                self.assertTrue(second.listen(deadline), second.account())
            if node not in second._voices.values():
                job.wait(PATIENCE_S)

    def run_case(self, case, first, second):
        self.lost = []
        for node in range(2):
            first.start(node, *self.flags(case, "job", node))
        first.await_round(workers=2)
        if case.lost is not None and case.lost_first:
            self.lose(first, case.lost)
        for rank in range(2):
            node = rank if case.same_hosts else 2 + rank
            second.start(node, *self.flags(case, "job" if case.same_id else "another", rank))
        if case.lost is None or not case.lost_first:
            self.await_settled(second)
            if case.lost is not None:
                self.lose(first, case.lost)
        if case.lost == 1 and not (case.same_id and case.same_program):
            first.start(1, *self.flags(case, "job", 1))
            first.await_round(workers=2)
        elif case.lost == 1 and (case.backend == "c10d" or case.lost_first):
            began = second.await_begun(workers=1)  # as a node that comes back would
            # Else the job may be over before the other one has called it.
            self.await_settled(second, but={moment.node for moment in began})
        for drill in (first, second):
            open(drill._stop, "w").close()
        for job in (*first.jobs.values(), *second.jobs.values(), *self.lost):
            job.wait(PATIENCE_S)

    def named(self, case, node):
        """What a ddprun prints that did not take part: which job is there instead of its own."""
        return r"job '|port 29400|--node-rank [01] (is taken|was given)"

    def judge(self, case, first, second):
        account = f"{case}\nfirst job:\n{first.account()}second job:\n{second.account()}"
        ran = {moment.node for moment in second.moments()}
        for node, job in second.jobs.items():
            if job.returncode == 0:
                self.assertIn(f"n{node}", ran, f"n{node} ended with 0 and never ran: {account}")
            elif f"n{node}" not in ran:
                self.assertIn(job.returncode, (REFUSED, TRY_AGAIN), account)
                self.assertRegex(second.said(node), self.named(case, node), account)
        if case.same_id and not case.same_program and case.lost is None and case.backend == "c10d":
            for node in second.jobs:
                for part in ("job 'job' of first_job", "n0: ", "second_job", f"(on n{node}: "):
                    self.assertIn(part, second.said(node), account)
        if case.lost is None:
            self.assertEqual({0}, {job.returncode for job in first.jobs.values()}, account)
        if case.same_id and case.same_program:
            return  # it cannot be told from a node that comes back
        if case.lost != 0:  # else it may have found no node at the endpoint, and run as its own job
            self.assertEqual(set(), ran, account)
        ranks = collections.defaultdict(set)
        for moment in second.moments():
            ranks[moment.key].add(moment.rank)
        for key, found in ranks.items():
            self.assertIn(0, found, f"round {key} is not the second job's own: {account}")
        first.judge(self)

    def test_it_is_refused_or_named_and_never_mixed_in(self):
        chance = random.Random(options.seed)
        cases = [chance.choice(ALL) for _ in range(options.repeats)] or SHORT
        for case in cases:
            with self.subTest(case=case):
                program = "first_job" if case.same_program else "second_job"
                with Drill(self.network, options.ddprun, self.worker("first_job")) as first, \
                     Drill(self.network, options.ddprun, self.worker(program)) as second:
                    self.run_case(case, first, second)
                    self.judge(case, first, second)
        print(f"{len(cases)} second jobs", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("ddprun", "round-worker"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--repeats", type=int, default=0)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    _, rest = parser.parse_known_args(namespace=options)
    unittest.main(argv=[sys.argv[0], *rest])
