"""Checks that the cluster works, and that nothing is left of it.

    cluster_test.py [unittest arguments]
"""

import os
import pathlib
import select
import signal
import subprocess
import sys
import unittest

from cluster import PATIENCE_S, Cluster, skip_without_cluster

HOLD_A_CLUSTER = """
from cluster import Cluster
with Cluster(2) as cluster:
    job = cluster.sbatch("-N2", script="srun sleep infinity")
    cluster.wait_for(job, "RUNNING")
    print(cluster.directory, flush=True)
    input()
"""

CONNECT = """
import socket, sys
socket.create_connection((sys.argv[1], 6818), float(sys.argv[2]))
"""


def setUpModule():
    skip_without_cluster()


def processes_of(directory):
    """The processes of a cluster: its programs have its directory in their environment or their arguments."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            told = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
        except OSError:  # it has ended
            continue
        if os.fsencode(directory) in told:
            found.append(int(entry.name))
    return found


def await_end_of(pids):
    for pid in pids:
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        with os.fdopen(fd):
            poll = select.poll()
            poll.register(fd, select.POLLIN)
            if not poll.poll(PATIENCE_S * 1000):
                raise AssertionError(f"process {pid} does not end")


class ACluster(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.enterClassContext(Cluster(3, gpus=2, names="b7,gpu-a[01-02]"))

    def test_has_nodes_with_names_and_addresses_of_their_own(self):
        self.assertEqual(["b7", "gpu-a01", "gpu-a02"], self.cluster.names)
        told = self.cluster.srun("-N3", "--label", "hostname").stdout
        self.assertEqual(["0: b7", "1: gpu-a01", "2: gpu-a02"], sorted(told.split("\n")[:-1]))
        for name in self.cluster.names:
            slurmd = f"/dev/tcp/{name}/6818"
            self.cluster.run("bash", "-c", f"exec 3<>{slurmd}", node="b7")

    def test_keeps_exit_status_and_environment(self):
        ended = self.cluster.run("sh", "-c", "echo $MARK; exit 7", check=False, env={"MARK": "x"})
        self.assertEqual((7, "x\n"), (ended.returncode, ended.stdout))

    def test_hands_a_signal_to_srun(self):
        with self.cluster.popen("srun", "-N2", "sh", "-c", "trap 'exit 9' USR1; echo up; "
                                "while :; do sleep 0.1; done", stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL) as srun:
            for _ in range(2):
                self.assertEqual(b"up\n", srun.stdout.readline())
            srun.send_signal(signal.SIGUSR1)
            self.assertEqual(9, srun.wait(PATIENCE_S))

    def test_tells_how_a_job_ended(self):
        job = self.cluster.sbatch("-N2", script="srun echo here\nexit 3\n")
        self.assertEqual("3:0", self.cluster.wait_for(job, "FAILED")["ExitCode"])
        self.assertEqual("here\nhere\n", self.cluster.output_of(job))
        with self.assertRaisesRegex(AssertionError, "is FAILED, not RUNNING"):
            self.cluster.wait_for(job, "RUNNING")


class Troubles(unittest.TestCase):
    def test_end_when_they_are_told_to(self):
        with Cluster(3) as cluster:
            def connect(name, timeout):
                words = (sys.executable, "-c", CONNECT, name, str(timeout))
                return cluster.run(*words, node="node1", check=False).returncode == 0

            def node1_reaches(name):
                return connect(name, PATIENCE_S)

            def node1_loses(name):
                return not connect(name, 1)  # lost packets cause silence, without an error

            cluster.isolate("node0", "node1")
            self.assertTrue(node1_loses("node0"))
            self.assertTrue(node1_reaches("node2"))
            cluster.isolate("node1")
            self.assertTrue(node1_loses("node2"))
            cluster.heal("node1")
            self.assertTrue(node1_reaches("node0"))
            self.assertTrue(node1_reaches("node2"))

            cluster.kill_node("node0")
            self.assertTrue(node1_loses("node0"))
            cluster.start_node("node0")
            self.assertTrue(node1_reaches("node0"))
            self.assertEqual("node0\n", cluster.srun("-wnode0", "-N1", "hostname").stdout)


class NothingIsLeft(unittest.TestCase):
    def test_after_a_cluster_with_a_dead_node_and_a_running_job(self):
        with Cluster(2) as cluster:
            directory = cluster.directory
            job = cluster.sbatch("-N2", "--no-kill", script="srun --no-kill sleep infinity")
            cluster.wait_for(job, "RUNNING")
            cluster.kill_node("node1")
            self.assertTrue(processes_of(directory))
        self.assertEqual([], processes_of(directory))
        self.assertFalse(directory.exists())

    def test_after_a_test_that_was_killed(self):
        words = [sys.executable, "-c", HOLD_A_CLUSTER]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              cwd=pathlib.Path(__file__).parent) as test:
            directory = pathlib.Path(test.stdout.readline().strip())
            self.assertTrue(directory.name.startswith("ddprun-slurm-"), directory)
            left = processes_of(directory)
            self.assertTrue(left)
            test.kill()
        await_end_of(left)
        await_end_of(processes_of(directory))  # which removes the files
        self.assertFalse(directory.exists())


if __name__ == "__main__":
    unittest.main()
