"""Two nodes of two workers each end with the weights of one node with four.

    two_nodes_test.py --ddprun PROGRAM --ddptrain PROGRAM --python INTERPRETER [unittest arguments]

Two ddprun on the loopback, as a person starts them in two terminals; in a network of their own, so that
the usual ports are free.
"""

import argparse
import os
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile
import unittest

import netns

SCRIPTS = pathlib.Path(__file__).resolve().parent / "scripts"
PATIENCE_S = 240
IMAGES = {"train": 128, "t10k": 32}

options = argparse.Namespace()


def setUpModule():
    netns.skip_without_namespaces()


def write_images(directory):
    """Random data in the form of MNIST, the same each time."""
    chance = random.Random(7)
    for name, count in IMAGES.items():
        pixels = struct.pack(">IIII", 0x803, count, 28, 28) + chance.randbytes(count * 28 * 28)
        labels = struct.pack(">II", 0x801, count) + bytes(chance.choices(range(10), k=count))
        (directory / f"{name}-images-idx3-ubyte").write_bytes(pixels)
        (directory / f"{name}-labels-idx1-ubyte").write_bytes(labels)


class TwoNodes(unittest.TestCase):
    def setUp(self):
        self.room = pathlib.Path(self.enterContext(
            tempfile.TemporaryDirectory(prefix="ddprun_test_")))
        (self.machine,) = self.enterContext(netns.Network(1)).nodes

    def start(self, *words):
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        job = self.machine.popen(
            [options.ddprun, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
            env={**kept, "PYTHON_EXEC": options.python, "OMP_NUM_THREADS": "1",
                 "GLOO_SOCKET_IFNAME": "lo", "TMPDIR": str(self.room)})
        self.addCleanup(job.wait)
        self.addCleanup(job.terminate)  # kill would leave the workers for a moment
        return job

    def weights(self, *jobs):
        """What the ranks of a job print that consists of these, each of which must end well."""
        ended = [(*job.communicate(timeout=PATIENCE_S), job.returncode) for job in jobs]
        for _, err, status in ended:
            self.assertEqual(0, status, "\n".join(err for _, err, _ in ended))
        return sorted(re.findall(r"[0-9a-f]{64}", "".join(out for out, _, _ in ended)))

    def assert_the_same(self, ranks, *script):
        """`ranks` of four print their result."""
        alone = self.weights(self.start("--standalone", "--nproc-per-node=4", *script))
        self.assertEqual(ranks, len(alone))
        self.assertEqual(1, len(set(alone)))
        static = self.weights(*(
            self.start("--nnodes=2", f"--node-rank={node}", "--master-addr=127.0.0.1",
                       "--nproc-per-node=2", *script)
            for node in range(2)))
        self.assertEqual(alone, static)
        elastic = self.weights(*(
            self.start("--nnodes=2:2", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost",
                       "--rdzv-id=two", "--nproc-per-node=2", *script)
            for _ in range(2)))
        self.assertEqual(alone, elastic)

    def test_python_ddp_ends_with_the_weights_of_one_node(self):
        self.assert_the_same(4, str(SCRIPTS / "train_ddp.py"))

    def test_ddptrain_ends_with_the_weights_of_one_node(self):
        write_images(self.room)
        self.assert_the_same(
            1, "--no-python", options.ddptrain, "--dataset=mnist", f"--data-dir={self.room}",
            "--epochs=2", "--batch-size=8", "--seed=3")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("ddprun", "ddptrain", "python"):
        parser.add_argument(f"--{name}", required=True)
    _, rest = parser.parse_known_args(namespace=options)
    unittest.main(argv=[sys.argv[0], *rest])
