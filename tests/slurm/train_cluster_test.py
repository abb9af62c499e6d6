"""`srun ddprun` on 1, 2, 4 and 8 nodes of a real Slurm trains as one machine does, bit for bit; and so
does `srun ddptrain` without ddprun, however its tasks are spread.

    train_cluster_test.py --ddprun PROGRAM --ddpctl PROGRAM --ddptrain PROGRAM --python INTERPRETER ...

Eight ranks each time. Their interpreter is a script that prints where the rank runs, and then executes the real one.
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
SMALL = ("--dataset=fashion-mnist", "--batch-size=8", "--limit-train-samples=640",
         "--limit-test-samples=100")

options = argparse.Namespace()


def setUpModule():
    skip_without_cluster()


class Ended:
    """What a job printed: where its ranks ran, and their results."""

    def __init__(self, out):
        lines = out.splitlines()
        self.places = sorted((line.split()[1:] for line in lines if line.startswith("place ")),
                             key=lambda place: int(place[0]))
        # Without ddptrain's speed.
        self.results = sorted(line for line in lines if re.match("rank [0-7] |final ", line))


class OnACluster(unittest.TestCase):
    """The common part of the other tests; `nodes` are theirs."""

    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.enterClassContext(Cluster(cls.nodes))
        # One thread per rank, because the number of threads changes the bits of the result.
        cls.environment = {"OMP_NUM_THREADS": "1", "TMPDIR": str(cls.cluster.shared)}

    def alone(self, world, *job):
        """On this machine, outside Slurm."""
        with subprocess.Popen(
                [options.ddprun, "--standalone", f"--nproc-per-node={world}", *job],
                env=os.environ | self.environment, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as started:
            try:
                out, err = started.communicate(timeout=PATIENCE_S)
            except BaseException:
                started.terminate()  # kill would leave the workers for a moment
                raise
        self.assertEqual(0, started.returncode, err)
        return Ended(out)

    def srun(self, *words):
        return self.cluster.srun(*words, env=self.environment, timeout=PATIENCE_S).stdout


class Training(OnACluster):
    nodes = max(NODES)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.environment["PYTHON_EXEC"] = cls.that_says_its_place(options.python)
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

    def on_nodes(self, nodes, *job):
        return Ended(self.srun(
            f"--nodes={nodes}", "--ntasks-per-node=1", os.path.abspath(options.ddprun),
            f"--nproc-per-node={WORLD // nodes}", *job))

    def assert_places(self, hosts, places):
        here = WORLD // len(hosts)  # ranks of each host
        self.assertEqual(
            [[str(value) for value in (rank, WORLD, rank % here, here, rank // here)]
             + [hosts[rank // here]] for rank in range(WORLD)], places)

    def assert_the_same(self, numbers_of_nodes, lines, *job):
        """`lines` of results, as on one machine."""
        alone = self.alone(WORLD, *job)
        self.assertEqual(lines, len(alone.results))
        self.assertEqual(1, len(set(re.findall("[0-9a-f]{64}", "".join(alone.results)))))
        self.assert_places([socket.gethostname()], alone.places)
        for nodes in numbers_of_nodes:
            with self.subTest(nodes=nodes):
                ended = self.on_nodes(nodes, *job)
                self.assert_places(self.cluster.names[:nodes], ended.places)
                self.assertEqual(alone.results, ended.results)

    def test_python_ddp(self):
        """For each rank the loss of 8 steps, and the weights."""
        self.assert_the_same((2, 8), WORLD * (8 + 1), str(SCRIPT))

    def test_ddptrain(self):
        self.assert_the_same(NODES, 1, self.ddptrain, *SMALL)


class WithoutDdprun(OnACluster):
    """`srun ddptrain`: each task is a rank."""

    nodes = 2

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.program = os.path.abspath(options.ddptrain)

    def environments(self, *flags):
        """What each task derives from Slurm's variables, by rank."""
        out = self.srun("--label", *flags, self.program, "--distributed", "--print-env")
        tasks = {}
        for line in out.splitlines():
            task, _, said = line.partition(": ")
            name, _, value = said.split()[0].partition("=")
            tasks.setdefault(int(task), {})[name] = value
        return [tasks[rank] for rank in sorted(tasks)]

    def test_ranks_are_the_tasks(self):
        for flags, local in ((["-N2", "--ntasks-per-node=2"], ["0/2", "1/2", "0/2", "1/2"]),
                             (["-N2", "-n4"], ["0/3", "1/3", "2/3", "0/1"]),
                             (["-N2", "-n4", "-m", "cyclic"], ["0/3", "0/1", "1/3", "2/3"])):
            with self.subTest(flags=flags):
                told = self.environments(*flags)
                self.assertEqual(
                    [(str(rank), "4", place) for rank, place in enumerate(local)],
                    [(one["RANK"], one["WORLD_SIZE"],
                      f"{one['LOCAL_RANK']}/{one['LOCAL_WORLD_SIZE']}") for one in told])
                self.assertEqual({self.cluster.names[0]}, {one["MASTER_ADDR"] for one in told})
                self.assertEqual(1, len({one["MASTER_PORT"] for one in told}))

    def test_it_trains_as_on_one_machine(self):
        """For any distribution of the tasks; also if another job's store has its port, which the other ranks may
        reach before rank 0 has moved to the next port."""
        alone = self.alone(4, self.program, *SMALL).results
        self.assertEqual(1, len(alone))
        for flags in (["-N2", "--ntasks-per-node=2"], ["-N2", "-n4"],
                      ["-N2", "-n4", "-m", "cyclic"], ["-N1", "-n4"]):
            with self.subTest(flags=flags):
                out = self.srun("-K1", *flags, self.program, *SMALL)
                self.assertEqual(alone, Ended(out).results)
        with self.subTest("with a stranger at its port"):
            self.assertEqual(alone, Ended(self.beside_a_stranger()).results)

    def beside_a_stranger(self):
        """What a job prints if another job's store has its port at the start."""
        job = self.cluster.sbatch("-N2", "--ntasks-per-node=2", env=self.environment, script=f"""
            port=$((10000 + SLURM_JOB_ID % 10000))
            coproc {os.path.abspath(options.ddpctl)} store serve --port "$port"
            read -r said <&"${{COPROC[0]}}" && echo "$said"
            srun -K1 {self.program} {" ".join(SMALL)}
            status=$?
            kill "$COPROC_PID"
            exit "$status"
        """)
        state = self.cluster.wait_until_over(job, timeout=PATIENCE_S)["JobState"]
        output = self.cluster.output_of(job)
        self.assertEqual("COMPLETED", state, output)
        self.assertIn(f"listening on port {10000 + job % 10000}\n", output)
        return output

    def test_in_a_batch_script_nobody_says_the_rank(self):
        job = self.cluster.sbatch("-N2", "--ntasks-per-node=2",
                                  script=f"{self.program} --distributed\necho status $?")
        self.cluster.wait_until_over(job)
        self.assertRegex(self.cluster.output_of(job),
                         r"(?s)nothing says which rank .*'srun ddptrain' .*\nstatus 2\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("ddprun", "ddpctl", "ddptrain", "python"):
        parser.add_argument(f"--{name}", required=True)
    _, rest = parser.parse_known_args(namespace=options)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
