"""Manual rendezvous on a real Slurm: two terminals, a step for each node, steps that must not mix.

    rendezvous_cluster_test.py --ddprun PROGRAM [--repeats N] [--pairs N] [--seed N] [unittest arguments]
"""

import argparse
import contextlib
import os
import random
import sys
import time
import unittest

from cluster import PATIENCE_S, POLL_S, Cluster, skip_without_cluster
from terminal import Terminal

options = argparse.Namespace()
SAY = "echo said $RANK/$WORLD_SIZE on $(hostname)"
STATIC = ("--node_rank={rank}", "--master_addr=node0", "--master_port={port}")
C10D = ("--rdzv_backend=c10d", "--rdzv_endpoint=node0:{port}")
# From the batch script of a public workshop, except for the program's name.
LOOP = """
export OMP_NUM_THREADS=1
nodes_array=($(scontrol show hostnames "$SLURM_JOB_NODELIST"))
head_node=${{nodes_array[0]}}
master_ip=$(srun -n 1 -N 1 -w $head_node /bin/hostname -I | cut -d " " -f 2)
master_port=$(python3 -c 'import socket; s=socket.socket(); s.bind(("",0)); print(s.getsockname()[1]); s.close()')
for (( i=0; i< ${{SLURM_NNODES}}; i++ ))
do
     srun -n 1 -N 1 -c ${{SLURM_CPUS_PER_TASK}} -w ${{nodes_array[i]}} \\
      {ddprun} --use_env --nproc_per_node=2 --nnodes=${{SLURM_NNODES}} --node_rank=${{i}} \\
     --master_addr=${{master_ip}} --master_port=${{master_port}} \\
     {train} --epochs=3 --num-workers=${{SLURM_CPUS_PER_TASK}} &
done
wait
"""


def setUpModule():
    skip_without_cluster()


class Rendezvous(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.enterClassContext(Cluster(4))

    def setUp(self):
        self.port = random.randrange(20_000, 30_000)

    def allocate(self, nodes):
        """A job without a shell; its id."""
        told = self.cluster.run("salloc", "--no-shell", f"--nodes={nodes}", f"--nodelist=node[0-{nodes - 1}]")
        job = told.stderr.split("job allocation ")[1].split()[0]
        self.addCleanup(self.cluster.run, "scancel", job, check=False)
        return job

    def in_two_terminals(self, *flags, shell):
        """`shell(node)` opens one on that node, where its line of the two is typed."""
        for _ in range(options.repeats):
            self.setUp()
            terminals = [shell(f"node{rank}") for rank in range(2)]
            try:
                for rank, terminal in enumerate(terminals):
                    words = [options.ddprun, "--nproc_per_node=4", "--nnodes=2",
                             *(flag.format(rank=rank, port=self.port) for flag in flags), "--no-python", "sh", "-c"]
                    terminal.type(f"exec {' '.join(words)} '{SAY}'")
                self.assertEqual([0, 0], [terminal.wait() for terminal in terminals],
                                 [terminal.said for terminal in terminals])
                for rank, terminal in enumerate(terminals):
                    said = {line.strip() for line in terminal.said.splitlines() if line.startswith("said ")}
                    if rank == 0 or flags == STATIC:
                        self.assertEqual({f"said {4 * rank + local}/8 on node{rank}" for local in range(4)}, said)
                    self.assertEqual(4, len(said), terminal.said)
            finally:
                for terminal in terminals:
                    terminal.close()

    def in_each_way(self, shell):
        for flags in (STATIC, C10D):
            with self.subTest(flags=flags):
                self.in_two_terminals(*flags, shell=shell)

    def test_two_terminals_each_a_job_of_its_own(self):
        self.in_each_way(lambda node: Terminal(self.cluster, "srun", "-N1", "-n1", f"--nodelist={node}", "--pty",
                                               "bash", "--norc"))

    def test_two_terminals_each_a_step_of_one_job(self):
        job = self.allocate(2)
        self.in_each_way(lambda node: Terminal(self.cluster, "srun", f"--jobid={job}", "-N1", "-n1",
                                               f"--nodelist={node}", "--pty", "bash", "--norc"))

    def test_two_terminals_outside_of_slurm(self):
        self.in_each_way(lambda node: Terminal(self.cluster, "bash", "--norc", node=node))

    def test_a_terminal_in_a_step_and_one_outside_of_slurm(self):
        def shell(node):
            words = ("srun", "-N1", "-n1", f"--nodelist={node}", "--pty") if node == "node0" else ()
            return Terminal(self.cluster, *words, "bash", "--norc", node=None if words else node)

        self.in_each_way(shell)

    def test_two_batch_jobs(self):
        train = self.cluster.shared / "train.sh"
        train.write_text(f"#!/bin/sh\n{SAY}\n")
        train.chmod(0o755)
        for flags in (STATIC, C10D) * options.repeats:
            self.setUp()
            jobs = []
            for rank in range(2):
                words = " ".join(flags).format(rank=rank, port=self.port)
                jobs.append(self.cluster.sbatch(
                    "-N1", f"--nodelist=node{rank}",
                    script=f"srun {options.ddprun} --nproc_per_node=2 --nnodes=2 {words} --no-python {train}\n"))
            said = []
            for job in jobs:
                self.cluster.wait_for(job, "COMPLETED")
                said += [line for line in self.cluster.output_of(job).splitlines() if line.startswith("said ")]
            self.assertEqual([f"said {rank}/4 on node{rank // 2}" for rank in range(4)], sorted(said))

    def test_a_step_for_each_node_in_the_background(self):
        train = self.cluster.shared / "train.py"
        train.write_text("import os, sys\n"
                         "os.write(1, b'said %s %s %s\\n' % (os.environb[b'RANK'], os.environb[b'WORLD_SIZE'],\n"
                         "                                  repr(sys.argv[1:]).encode()))\n")
        for _ in range(options.repeats):
            job = self.cluster.sbatch("-N2", "--ntasks=2", "--tasks-per-node=1", "--cpus-per-task=4",
                                      script=LOOP.format(ddprun=options.ddprun, train=train))
            self.cluster.wait_for(job, "COMPLETED")
            self.assertEqual([f"said {rank} 4 ['--epochs=3', '--num-workers=4']" for rank in range(4)],
                             sorted(line for line in self.cluster.output_of(job).splitlines()
                                    if line.startswith("said ")), self.cluster.output_of(job))


class Steps(unittest.TestCase):
    """Two steps of one job, with one id and one endpoint: unless --nnodes counts the nodes of both, one runs and the
    other is refused, in whatever order they start."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.enterClassContext(Cluster(4))
        told = cls.cluster.run("salloc", "--no-shell", "-N4").stderr
        cls.job = told.split("job allocation ")[1].split()[0]

    def pair(self, number):
        chance = random.Random(f"{options.seed}:{number}")
        port = 20_000 + number
        stop = self.cluster.shared / f"stop{number}"
        nodes = chance.choice((("node[0-1]", "node[0-1]"), ("node[0-1]", "node[2-3]"), ("node[2-3]", "node[0-1]")))
        host = chance.choice(("node0", self.cluster.run("hostname", "-I", node="node0").stdout.split()[0]))
        endpoints = [("--rdzv-backend=c10d", f"--rdzv-endpoint={host}:{port}"),
                     (f"--master-addr={host}", f"--master-port={port}"),
                     (f"--master-port={port}",)]
        # The last one means the first node of each step.
        place = chance.choice(endpoints if nodes[0] == nodes[1] == "node[0-1]" else endpoints[:2])
        count = chance.choice(((), ("--nnodes=2",)))  # of each
        steps = []
        for name, where in zip("ab", nodes):
            steps.append(self.cluster.popen(
                "srun", f"--jobid={self.job}", "--overlap", "-K0", "-W0", "-N2", "-n2", f"--nodelist={where}",
                options.ddprun, "--rdzv-id=same", *count, *place, "--rdzv-conf=join_timeout=60",
                "--nproc-per-node=1", "--no-python", "sh", "-c",
                f"echo {name} $RANK/$WORLD_SIZE; until [ -e {stop} ]; do sleep 0.05; done",
                stdin=-3, stdout=-1, stderr=-1, text=True))
            time.sleep(chance.uniform(0, 0.4))
        with steps[0], steps[1], contextlib.ExitStack() as at_the_end:
            for step in steps:  # before `with` waits for it, even if an assertion fails
                at_the_end.callback(step.kill)
            deadline = time.monotonic() + PATIENCE_S
            while all(step.poll() is None for step in steps):
                self.assertLess(time.monotonic(), deadline, "neither step is refused")
                time.sleep(POLL_S)
            refused, runs = sorted(range(2), key=lambda step: steps[step].poll() is None)
            out, err = steps[refused].communicate()
            about = f"pair {number}: {nodes} by {*count, *place}\n{err}"
            self.assertEqual((2, ""), (steps[refused].returncode, out), about)
            both = (r"job 'same' of Slurm step (\d+\.\d+) runs there \(on node0\), and has all its nodes in that step, "
                    r"as step (?!\1)\d+\.\d+ has; " if count else
                    r"job 'same@\w+' of Slurm step (\d+\.\d+) runs there \(on node0\), not 'same@\w+' of step "
                    r"(?!\1)\d+\.\d+; ")
            self.assertRegex(err, both, about)
            stop.touch()
            out, err = steps[runs].communicate(timeout=PATIENCE_S)
            self.assertEqual(0, steps[runs].returncode, about + err)
            self.assertEqual([f"{'ab'[runs]} 0/2", f"{'ab'[runs]} 1/2"], sorted(out.splitlines()), about + err)

    def test_steps_with_one_id_and_endpoint_never_mix(self):
        for number in range(options.pairs):
            self.pair(number)

    def test_steps_that_say_nnodes_are_one_job(self):
        steps = [self.cluster.popen(
            "srun", f"--jobid={self.job}", "--overlap", "-N2", "-n2", f"--nodelist={where}", options.ddprun,
            "--nnodes=4", "--rdzv-id=same", "--rdzv-backend=c10d", "--rdzv-endpoint=node0:29444",
            "--nproc-per-node=1", "--no-python", "sh", "-c", SAY, stdout=-1, stderr=-1, text=True)
            for where in ("node[0-1]", "node[2-3]")]
        ended = [(*step.communicate(timeout=PATIENCE_S), step.returncode) for step in steps]
        self.assertEqual([0, 0], [status for *_, status in ended], ended)
        self.assertEqual({f"{rank}/4" for rank in range(4)},
                         {line.split()[1] for out, *_ in ended for line in out.splitlines()}, ended)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddprun", required=True, type=os.path.abspath)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--pairs", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    _, rest = parser.parse_known_args(namespace=options)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
