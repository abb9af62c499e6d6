"""`srun ddprun` on a real Slurm: nothing to type that Slurm knows.

    launch_cluster_test.py --ddprun PROGRAM [unittest arguments]
"""

import argparse
import os
import signal
import sys
import unittest

from cluster import Cluster, skip_without_cluster

options = argparse.Namespace()
SAY = "echo $RANK/$WORLD_SIZE $LOCAL_RANK $(hostname) $MASTER_ADDR $TORCHELASTIC_RUN_ID"


def setUpModule():
    skip_without_cluster()


class Launch(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.enterClassContext(Cluster(4, gpus=2))

    def srun(self, *words, script=SAY, flags=(), check=True):
        return self.cluster.srun(*words, "-K0", "-W0", os.path.abspath(options.ddprun), *flags,
                                 "--no-python", "sh", "-c", script, check=check)

    def ranks(self, *words, **more):
        """[[RANK/WORLD_SIZE, LOCAL_RANK, host, MASTER_ADDR]], by rank; all of one job."""
        lines = [line.split() for line in self.srun(*words, **more).stdout.splitlines()]
        self.assertEqual(1, len({line[4] for line in lines}))
        return sorted((line[:4] for line in lines), key=lambda line: int(line[0].split("/")[0]))

    def test_ranks_follow_slurms_nodes(self):
        for nodes in (1, 2, 4):
            with self.subTest(nodes=nodes):
                expected = [[f"{2 * node + local}/{2 * nodes}", str(local), f"node{node}",
                             "127.0.0.1" if nodes == 1 else "node0"]
                            for node in range(nodes) for local in range(2)]
                self.assertEqual(expected, self.ranks(
                    f"-N{nodes}", "--ntasks-per-node=1", flags=("--nproc-per-node", "2")))

    def test_a_worker_for_each_gpu(self):
        self.assertEqual(4, len(self.ranks("-N2", "--ntasks-per-node=1", "--gpus-per-node=2")))

    def test_the_last_node_stands_by(self):
        found = self.ranks("-N3", "--ntasks-per-node=1",
                           flags=("--nnodes", "2", "--nproc-per-node", "1"))
        self.assertEqual([["0/2", "0", "node0", "node0"], ["1/2", "0", "node1", "node0"]], found)

    def test_more_nodes_than_there_are(self):
        refused = self.srun("-N2", "--ntasks-per-node=1", flags=("--nnodes", "4"), check=False)
        self.assertEqual(2, refused.returncode)
        self.assertIn("--nnodes '4': this step of Slurm's has 2 nodes", refused.stderr)

    def test_several_agents_on_a_node(self):
        refused = self.srun("-N2", "-n4", check=False)
        self.assertEqual(2, refused.returncode)
        self.assertIn("srun --nodes=2 --ntasks=2 --ntasks-per-node=1", refused.stderr)

    def test_a_signal_to_one_node_is_for_the_job(self):
        """As preemption and scancel come to nodes at different times."""
        step = self.cluster.popen(
            "srun", "-N2", "--ntasks-per-node=1", "-K0", "-W0", os.path.abspath(options.ddprun),
            "--nnodes", "1:2", "--nproc-per-node", "1", "--no-python", "sh", "-c",
            "echo up; exec sleep 1000", stdout=-1, stderr=-1, text=True)
        self.assertEqual(["up\n", "up\n"], [step.stdout.readline(), step.stdout.readline()])
        self.cluster.run("pkill", "-TERM", "-x", "-o", "ddprun", node="node1")
        out, err = step.communicate(timeout=60)
        self.assertEqual(128 + signal.SIGTERM, step.returncode, err)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddprun", required=True)
    _, rest = parser.parse_known_args(namespace=options)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
