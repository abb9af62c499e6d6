"""`srun ddprun` on 1, 2, 4 and 8 nodes of a real Slurm trains as one machine does, bit for bit.

    train_cluster_test.py --ddprun PROGRAM --ddptrain PROGRAM --python INTERPRETER [unittest arguments]

Eight ranks each time. Their interpreter is a script that says where the rank runs, and becomes the real one.
"""

import argparse
import os
import pathlib
import re
import socket
import subprocess
import sys
import unittest

from cluster import Cluster, skip_without_cluster

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "integration/scripts/train_ddp.py"
WORLD = 8
NODES = (1, 2, 4, 8)
PATIENCE_S = 240  # eight interpreters load torch at once

options = argparse.Namespace()


def setUpModule():
    skip_without_cluster()


class Ended:
    """What a job printed: where its ranks ran, and what they came to."""

    def __init__(self, out):
        lines = out.splitlines()
        self.places = sorted((line.split()[1:] for line in lines if line.startswith("place ")),
                             key=lambda place: int(place[0]))
        # Not what ddptrain says of its speed.
        self.results = sorted(line for line in lines if re.match("rank [0-7] |final ", line))


class Training(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.enterClassContext(Cluster(max(NODES)))
        python = cls.that_says_its_place(options.python)
        # One thread per rank: the number decides the bits of the result.
        cls.environment = {"PYTHON_EXEC": python, "OMP_NUM_THREADS": "1",
                           "TMPDIR": str(cls.cluster.shared)}
        cls.ddptrain = cls.that_says_its_place(options.ddptrain)

    @classmethod
    def that_says_its_place(cls, program):
        script = cls.cluster.shared / pathlib.Path(program).name
        script.write_text(
            "#!/bin/sh\n"
            "echo place $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $GROUP_RANK $(hostname)\n"
            f'exec {os.path.abspath(program)} "$@"\n')
        script.chmod(0o755)
        return str(script)

    def alone(self, *job):
        """On this machine, outside Slurm."""
        with subprocess.Popen(
                [options.ddprun, "--standalone", f"--nproc-per-node={WORLD}", *job],
                env=os.environ | self.environment, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as started:
            try:
                out, err = started.communicate(timeout=PATIENCE_S)
            except BaseException:
                started.terminate()  # kill would leave the workers for a moment
                raise
        self.assertEqual(0, started.returncode, err)
        return Ended(out)

    def on_nodes(self, nodes, *job):
        return Ended(self.cluster.srun(
            f"--nodes={nodes}", "--ntasks-per-node=1", os.path.abspath(options.ddprun),
            f"--nproc-per-node={WORLD // nodes}", *job,
            env=self.environment, timeout=PATIENCE_S).stdout)

    def assert_places(self, hosts, places):
        here = WORLD // len(hosts)  # ranks of each host
        self.assertEqual(
            [[str(value) for value in (rank, WORLD, rank % here, here, rank // here)]
             + [hosts[rank // here]] for rank in range(WORLD)], places)

    def assert_the_same_anywhere(self, lines, *job):
        """`lines` of results, as on one machine."""
        alone = self.alone(*job)
        self.assertEqual(lines, len(alone.results))
        self.assertEqual(1, len(set(re.findall("[0-9a-f]{64}", "".join(alone.results)))))
        self.assert_places([socket.gethostname()], alone.places)
        for nodes in NODES:
            with self.subTest(nodes=nodes):
                ended = self.on_nodes(nodes, *job)
                self.assert_places(self.cluster.names[:nodes], ended.places)
                self.assertEqual(alone.results, ended.results)

    def test_python_ddp(self):
        """Of each rank the loss of 8 steps, and the weights."""
        self.assert_the_same_anywhere(WORLD * (8 + 1), str(SCRIPT))

    def test_ddptrain(self):
        self.assert_the_same_anywhere(
            1, self.ddptrain, "--dataset=fashion-mnist", "--batch-size=8",
            "--limit-train-samples=640", "--limit-test-samples=100")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("ddprun", "ddptrain", "python"):
        parser.add_argument(f"--{name}", required=True)
    _, rest = parser.parse_known_args(namespace=options)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
