"""`srun ddpctl doctor` on a real Slurm: nodes check themselves and each other.

    doctor_cluster_test.py --ddpctl PROGRAM [unittest arguments]
"""

import argparse
import json
import os
import re
import pathlib
import sys
import tempfile
import unittest

from cluster import Cluster, skip_without_cluster

options = argparse.Namespace()
PATIENT = ("--limit=60", "--wait=60")  # long enough for a busy machine; the doctors end as soon as all are connected
SHORT = ("--limit=10", "--wait=15")  # for nodes that cannot be reached anyway
PORT = 4242  # of a network that no other process sees
LISTEN = ("import socket, sys\n"
          f"with socket.create_server(('', {PORT})):\n"
          "    print('listens', flush=True)\n"
          "    sys.stdin.read()\n")


def setUpModule():
    skip_without_cluster()


class Doctor(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.enterClassContext(Cluster(3, gpus=2))

    def examine(self, *flags, limits=PATIENT, srun=("-N3", "--ntasks-per-node=1"), status=0):
        """{node: {subject: finding}}, without findings about the machine itself."""
        words = (os.path.abspath(options.ddpctl), "doctor", "--json", "--skip=clock",
                 "--skip=limit", "--min-free=1M", *limits, *flags)
        # A file for each task: srun cuts what is longer than 1 KiB, and mixes the pieces.
        room = pathlib.Path(tempfile.mkdtemp(dir=self.cluster.shared))
        step = self.cluster.srun(*srun, "-K0", "-W0", f"--output={room}/report-%t",
                                 f"--error={room}/said-%t", *words, check=False)
        told = {file.name: file.read_text() for file in room.iterdir()}
        self.assertEqual(status, step.returncode, f"{told} {step.stderr}")
        reports = [json.loads(text) for name, text in told.items() if name.startswith("report-")]
        return {report["node"]: {found["subject"]: found for found in report["findings"]}
                for report in reports}

    def assert_wrong(self, found, seen, remedy):
        self.assertFalse(found["is_well"], found)
        self.assertIn(seen, found["seen"])
        self.assertIn(remedy, found["remedy"])

    def test_all_is_well_on_healthy_nodes(self):
        nodes = self.examine()
        self.assertEqual({"node0", "node1", "node2"}, set(nodes))
        self.assertTrue(nodes["node0"]["reach node[1-2]"]["is_well"])
        self.assertTrue(nodes["node1"]["reach node[0,2]"]["is_well"])
        self.assertIn("'node[0-2]' is 3 hosts", nodes["node2"]["hostlist"]["seen"])

    def test_each_line_of_several_nodes_names_its_node(self):
        step = self.cluster.srun("-N2", "--ntasks-per-node=1", os.path.abspath(options.ddpctl),
                                 "doctor", check=False)
        lines = step.stdout.splitlines()
        names = {re.fullmatch(r"\[[^]]*\] *(\S+) .*", line).group(1) for line in lines}
        self.assertEqual({"node0", "node1"}, names, step.stdout)

    def test_two_nodes_that_cannot_reach_each_other_are_named_by_both(self):
        self.cluster.isolate("node1", "node2")
        self.addCleanup(self.cluster.heal, "node1")
        self.addCleanup(self.cluster.heal, "node2")
        nodes = self.examine(limits=SHORT, status=1)
        self.assertTrue(nodes["node0"]["reach node[1-2]"]["is_well"])
        for node, other in (("node1", "node2"), ("node2", "node1")):
            self.assertTrue(nodes[node]["reach node0"]["is_well"])
            self.assert_wrong(nodes[node][f"reach {other}"], "it does not answer",
                              "exclude it (--exclude)")

    def test_a_port_that_is_taken_on_one_node(self):
        stranger = self.cluster.popen(sys.executable, "-c", LISTEN, node="node1", stdin=-1,
                                      stdout=-1, text=True)
        self.assertEqual("listens\n", stranger.stdout.readline())
        nodes = self.examine(f"--port={PORT}", limits=SHORT, status=1)
        stranger.communicate()
        self.assert_wrong(nodes["node1"][f"port {PORT}"], "taken by python", "another port")
        self.assert_wrong(nodes["node0"]["reach node1"], "no reply", f"TCP port {PORT}")
        self.assertTrue(nodes["node0"]["reach node2"]["is_well"])

    def test_masked_gpus(self):
        nodes = self.examine(srun=("-N1", "--ntasks-per-node=2", "--gpus-per-task=1"), status=1)
        (node,) = nodes.values()
        self.assert_wrong(node["gpus"], "sees 1 of the step's 2", "--gpu-bind=none")
        self.assert_wrong(node["slurm"], "2 tasks on 1 node", "--ntasks-per-node=1")

    @unittest.skipIf(os.path.exists("/dev/nvidia0"), "there is a driver here")
    def test_gpus_without_a_driver(self):
        """As here, where Slurm's GPUs are links to /dev/null."""
        (node,) = self.examine(srun=("-N1", "--ntasks-per-node=1", "--gpus-per-node=2"),
                               status=1).values()
        self.assert_wrong(node["gpus"], "/dev/nvidia0 does not exist", "load the driver")

    def test_in_a_job_but_in_no_step(self):
        job = self.cluster.sbatch("-N2", script=(
            f"{os.path.abspath(options.ddpctl)} doctor --json --skip=clock --skip=limit\n"))
        self.cluster.wait_until_over(job)
        findings = {found["subject"]: found
                    for found in json.loads(self.cluster.output_of(job))["findings"]}
        self.assertIn(f"in job {job}, but not in a step", findings["slurm"]["seen"])
        self.assertIn("is 2 hosts", findings["hostlist"]["seen"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddpctl", required=True)
    _, rest = parser.parse_known_args(namespace=options)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
