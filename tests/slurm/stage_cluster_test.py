"""`srun ddpctl stage` on a real Slurm: once on each node, however many tasks ask for it.

    stage_cluster_test.py --ddpctl PROGRAM [unittest arguments]

The nodes here have one disk, so each stages into a folder with its name.
"""

import argparse
import hashlib
import io
import os
import sys
import tarfile
import unittest

from cluster import Cluster, skip_without_cluster

options = argparse.Namespace()
BAD_FILE = 78
LARGE = bytes(1_000_000)
STAGE = 'exec "$0" stage "$@" "$DISKS/$SLURMD_NODENAME/data"'


def setUpModule():
    skip_without_cluster()


class Stage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.enterClassContext(Cluster(2))

    def setUp(self):
        self.disks = self.cluster.shared / self._testMethodName
        self.disks.mkdir()
        self.archive = self.disks / "data.tar.gz"
        with tarfile.open(self.archive, "w:gz") as archive:
            for name, content in (("a.txt", b"alpha"), ("large", LARGE)):
                info = tarfile.TarInfo(name)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
        self.digest = hashlib.sha256(self.archive.read_bytes()).hexdigest()

    def stage(self, *words, before="", check=True):
        """With two tasks on each of two nodes. Quiet: srun prints a line if an earlier step still has the nodes."""
        return self.cluster.srun(
            "--quiet", "-N2", "-n4", "--ntasks-per-node=2", "bash", "-c", before + STAGE,
            os.path.abspath(options.ddpctl), "--sha256", self.digest, str(self.archive), *words,
            check=check, env={"DISKS": str(self.disks)})

    def assert_staged(self, ended):
        """Each node prints it once."""
        lines = sorted(ended.stdout.splitlines())
        self.assertEqual(["node0: staged 2 files", "node1: staged 2 files"],
                         [line.split(",")[0] for line in lines], ended)
        for node in ("node0", "node1"):
            self.assertEqual(["data"], os.listdir(self.disks / node))
            data = self.disks / node / "data"
            self.assertEqual((b"alpha", LARGE),
                             ((data / "a.txt").read_bytes(), (data / "large").read_bytes()))

    def test_once_on_each_node(self):
        self.assert_staged(self.stage())
        again = self.stage()
        self.assertEqual(("", ""), (again.stdout, again.stderr))

    def test_a_corrupt_archive_is_refused_everywhere(self):
        damaged = bytearray(self.archive.read_bytes())
        damaged[-20] ^= 1
        self.archive.write_bytes(damaged)
        refused = self.stage(check=False)
        self.assertEqual((BAD_FILE, ""), (refused.returncode, refused.stdout))
        self.assertEqual(4, refused.stderr.count(f", expected {self.digest}; copy it again"))
        for node in ("node0", "node1"):
            self.assertEqual([], os.listdir(self.disks / node))

    def test_killed_it_leaves_no_marker_and_the_next_one_starts_again(self):
        killed = self.stage(before="ulimit -c 0 -f 100; ", check=False)  # SIGXFSZ, in the large file
        self.assertNotEqual(0, killed.returncode)
        self.assertEqual("", killed.stdout)
        for node in ("node0", "node1"):
            self.assertEqual(["data.staging"], os.listdir(self.disks / node))
            self.assertEqual([], list(self.disks.rglob(".ddprun-staged")))
        self.assert_staged(self.stage())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddpctl", required=True)
    _, rest = parser.parse_known_args(namespace=options)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
