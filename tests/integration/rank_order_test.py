"""Which node gets which ranks: the same for every order in which nodes start, and the same after each restart.

    rank_order_test.py --ddprun PROGRAM --round-worker PROGRAM [--starts N] [--seed N]
        [unittest arguments]

Nodes are started in random order, some of them only when the one before has joined.
"""

import argparse
import os
import random
import signal
import sys
import unittest

import netns
from drill import Drill

# As text n10 comes before n2 and n9; as hosts of a cluster it does not.
WORKERS = {0: 2, 2: 1, 9: 1, 10: 2}  # node → how many
RANKS = sum(WORKERS.values())
RESTARTS = 5

options = argparse.Namespace()


def setUpModule():
    netns.skip_without_namespaces()
    print(f"--seed {options.seed}", flush=True)


class RankOrder(unittest.TestCase):
    def setUp(self):
        self.chance = random.Random(options.seed)
        self.network = self.enterContext(netns.Network(max(WORKERS) + 1))

    def static(self, order):
        """Flags of each node for this order, by --node-rank."""
        return {node: ("--node-rank", str(rank), "--nnodes", str(len(order)),
                       "--master-addr", self.network[order[0]].address, "--master-port", "29400")
                for rank, node in enumerate(order)}

    def elastic(self, first):
        flags = ("--nnodes", f"{len(WORKERS)}:{len(WORKERS)}", "--rdzv-backend", "c10d",
                 "--rdzv-endpoint", f"{self.network[first].address}:29400")
        return {node: flags for node in WORKERS}

    def start(self, drill, flags, first):
        """All nodes in random order. `first` is the one that leads."""
        nodes = list(WORKERS)
        self.chance.shuffle(nodes)
        for number, node in enumerate(nodes):
            drill.start(node, *flags[node], "--rdzv-id", "job", "--no-python", "--max-restarts",
                        str(RESTARTS), "--nproc-per-node", str(WORKERS[node]))
            joins = node != first and first in nodes[:number] and number + 1 < len(nodes)
            if joins and self.chance.random() < 0.5:
                drill.await_said(first, f"node n{node} (")
        return nodes

    def assert_order(self, order, flags):
        """In whatever order they start, the nodes' ranks are in this order, contiguous on each."""
        expected = [node for node in order for _ in range(WORKERS[node])]
        for number in range(options.starts):
            with Drill(self.network, options.ddprun, options.round_worker) as drill:
                started = self.start(drill, flags, order[0])
                self.assertEqual(expected, drill.await_round(workers=RANKS).nodes, f"start {number}: {started}")
                drill.finish()
                drill.judge(self)

    def test_node_ranks_decide_in_a_static_job(self):
        order = (9, 0, 10, 2)
        self.assert_order(order, self.static(order))

    def test_the_endpoints_node_and_then_host_names_decide_in_an_elastic_job(self):
        self.assert_order((9, 0, 2, 10), self.elastic(9))

    def test_node_ranks_go_before_host_names_in_an_elastic_job(self):
        order = (2, 10, 9, 0)
        flags = {node: (*flags, "--node-rank", str(order.index(node)))
                 for node, flags in self.elastic(2).items()}
        self.assert_order(order, flags)

    def assert_kept(self, flags, first):
        with Drill(self.network, options.ddprun, options.round_worker) as drill:
            self.start(drill, flags, first)
            begun = drill.await_round(workers=RANKS)
            before = begun.nodes
            for _ in range(RESTARTS):
                os.kill(begun.pid_of(rank=self.chance.randrange(RANKS)), signal.SIGKILL)
                begun = drill.await_round(workers=RANKS)
                self.assertEqual(before, begun.nodes)
            drill.finish()
            drill.judge(self)

    def test_ranks_stay_on_their_nodes_through_restarts(self):
        self.assert_kept(self.static((10, 2, 0, 9)), 10)
        self.assert_kept(self.elastic(0), 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("ddprun", "round-worker"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--starts", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    _, rest = parser.parse_known_args(namespace=options)
    unittest.main(argv=[sys.argv[0], *rest])
