"""The command lines of five public texts on distributed training, typed on a real Slurm as they are printed there,
with `ddprun` for torchrun and its like, and `ddptrain` for the Python script. docs/command_lines.md has the table.

    command_lines_cluster_test.py --ddprun PROGRAM --ddptrain PROGRAM [unittest arguments]

What a text's script has in its code, such as its model, is in a configuration here, with less to train.
"""

import argparse
import os
import pathlib
import random
import re
import sys
import unittest

from cluster import PATIENCE_S, Cluster, skip_without_cluster
from terminal import Terminal

options = argparse.Namespace()
FASHION_MNIST = pathlib.Path("/usr/share/datasets/fashion-mnist")
SMALL = """
dataset: fake
fake-train-samples: 32
fake-test-samples: 8
image-size: 32
model: resnet18
"""
CONFIGURATIONS = {
    "kaust": SMALL + "optimizer: sgd\nmomentum: 0.9\nevaluate-every-epochs: 1\nlog-style: kaust\n",
    "openacc": SMALL + "optimizer: sgd\nlog-style: openacc\n",
    "mila": SMALL + "optimizer: adamw\nevaluate-every-epochs: 1\nlog-style: mila-imagenet\n",
    "crusoe": "dataset: mnist\nmodel: simple_conv_net\nfirst-epoch: 1\nlog-style: crusoe\n"
              "limit-train-samples: 512\nlimit-test-samples: 64\n",
}


def setUpModule():
    skip_without_cluster()


class CommandLines(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.enterClassContext(Cluster(2, gpus=4))
        programs = cls.cluster.shared / "bin"
        programs.mkdir()
        for program in (options.ddprun, options.ddptrain):
            (programs / pathlib.Path(program).name).symlink_to(pathlib.Path(program).resolve())
        cls.environment = {"PATH": f"{programs}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1",
                           "PYTHON_EXEC": sys.executable}
        for name, text in CONFIGURATIONS.items():
            (cls.cluster.shared / f"{name}.yaml").write_text(text)

    def setUp(self):
        self.room = self.cluster.shared / self._testMethodName
        self.room.mkdir()
        (self.room / "main.py").write_text(
            "import os, sys\n"
            "words = [os.environ[name] for name in ('RANK', 'WORLD_SIZE', 'LOCAL_RANK')]\n"
            "os.write(1, ('said %s %s\\n' % ('/'.join(words), sys.argv[1:])).encode())\n")

    # Verbs. -------------------------------------------------------------------------------------

    def ddptrain(self, text):
        """A program in place of the script of a text."""
        return f"ddptrain --config {self.cluster.shared}/{text}.yaml"

    def submit(self, script, *flags):
        """The output of the batch job of these lines, after its success."""
        job = self.cluster.sbatch(*flags, f"--chdir={self.room}", script=f"set -e\n{script}", env=self.environment)
        ended = self.cluster.wait_until_over(job, timeout=2 * PATIENCE_S)
        output = self.cluster.output_of(job)
        self.assertEqual(("COMPLETED", "0:0"), (ended["JobState"], ended["ExitCode"]), output)
        return output

    def typed(self, line, node=None, check=True):
        return self.cluster.run("bash", "-c", line, cwd=self.room, env=self.environment, node=node, check=check,
                                timeout=2 * PATIENCE_S)

    def typed_at_a_terminal(self, line, *shell):
        """What the terminal shows."""
        terminal = Terminal(self.cluster, "env", "-C", self.room,
                            *(f"{name}={value}" for name, value in self.environment.items()), *shell, "bash", "--norc")
        self.addCleanup(terminal.close)
        terminal.type(f"exec {line}")
        return terminal

    def assert_said(self, output, world, each, arguments=()):
        """Trains with main.py on every rank, of which each node has so many."""
        said = {line for line in output.splitlines() if line.startswith("said ")}
        self.assertEqual({f"said {rank}/{world}/{rank % each} {list(arguments)}" for rank in range(world)}, said, output)

    def assert_lines(self, output, *patterns):
        for pattern in patterns:
            self.assertRegex(output, re.compile(pattern, re.MULTILINE))

    # KAUST: Tiny-ImageNet, a step for each node. ------------------------------------------------

    KAUST_FLAGS = "--epochs=3 --num-workers=${SLURM_CPUS_PER_TASK} --lr=0.001 --batch-size=512"

    def test_kaust_on_several_nodes(self):
        output = self.submit(rf"""
            nodes_array=($(scontrol show hostnames "$SLURM_JOB_NODELIST"))
            head_node=${{nodes_array[0]}}
            master_ip=$(srun -n 1 -N 1 --gpus=1 -w ${{head_node}} /bin/hostname -I | cut -d " " -f 2)
            master_port=$(python3 -c 'import socket; s=socket.socket(); s.bind(("",0)); print(s.getsockname()[1]); s.close()')
            export OMP_NUM_THREADS=1
            for (( i=0; i< ${{SLURM_NNODES}}; i++ ))
            do
                 srun -n 1 -N 1 -c ${{SLURM_CPUS_PER_TASK}} -w ${{nodes_array[i]}} --gpus=${{SLURM_GPUS_PER_NODE}}  \
                  ddprun --use_env \
                 --nproc_per_node=${{SLURM_GPUS_PER_NODE}} --nnodes=${{SLURM_NNODES}} --node_rank=${{i}} \
                 --master_addr=${{master_ip}} --master_port=${{master_port}} \
                 {self.ddptrain("kaust")} {self.KAUST_FLAGS} &
            done
            wait
            """, "--nodes=2", "--ntasks=2", "--tasks-per-node=1", "--gpus-per-node=2", "--cpus-per-task=4")
        self.assert_lines(output, r"World size: 4$", r"^Epoch \[3/3\] LR: 0.001000 .* Throughput: [\d.]+ img/s$",
                          r"^Finished Training$", r"^Total execution time = [\d.]+ sec$")

    def test_kaust_on_one_node(self):
        output = self.submit(
            f"srun ddprun --use_env --nproc_per_node=${{SLURM_GPUS_PER_NODE}} {self.ddptrain('kaust')} {self.KAUST_FLAGS}\n",
            "--nodes=1", "--ntasks=1", "--gpus-per-node=2", "--cpus-per-task=4")
        self.assert_lines(output, r"World size: 2$", r"^Finished Training$")

    # OpenACC: the bootcamp's notebook. ----------------------------------------------------------

    def test_openacc_in_two_terminals(self):
        address = self.cluster.run("hostname", "-I", node="node0").stdout.split()[0]
        flags = "--num_epochs=2 --batch_size=4 --learning_rate=0.1 --random_seed=0 --model_dir=saved --model_filename=net.pth"
        terminals = [self.typed_at_a_terminal(
            f"ddprun  --nproc_per_node=4 --nnodes=2 --node_rank={rank} --master_addr=\"{address}\" --master_port=1234 "
            f"{self.ddptrain('openacc')} {flags}",
            "srun", "-N", "1", "--gres=gpu:4", f"--nodelist=node{rank}", "--pty") for rank in range(2)]
        for rank, terminal in enumerate(terminals):
            self.assertEqual(0, terminal.wait(), terminal.said)
            self.assert_lines(terminal.said, *(rf"Local Rank: {local}, Epoch: 1, Training \.\.\.\s*$" for local in range(4)))
        self.assertTrue((self.room / "saved/net.pth").is_file())
        again = self.typed(f"{self.ddptrain('openacc')} {flags} --resume")
        self.assertIn("ddptrain: ", again.stderr)  # which weights fitted
        self.assertNotEqual(0, self.typed(f"{self.ddptrain('openacc')} --resume", check=False).returncode)

    def test_openacc_in_a_job_of_several_tasks_on_each_node(self):
        output = self.submit(f"""
            head_node=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
            head_node_ip=$(srun --nodes=1 --ntasks=1 -w "$head_node" hostname -I | cut -d ' ' -f 1)
            srun ddprun --nproc_per_node=4 --nnodes=2 --rdzv_backend c10d --rdzv_endpoint $head_node_ip:29500 main.py
            echo and without a launcher
            MASTER_PORT=12340 srun {self.ddptrain("openacc")} --num_epochs=1 --batch_size=4
            """, "--nodes=2", "--ntasks-per-node=4", "--cpus-per-task=4", "--threads-per-core=1", "--gres=gpu:4")
        with_ddprun, alone = output.split("and without a launcher")
        self.assert_said(with_ddprun, 8, 4)
        self.assertEqual(1, with_ddprun.count("the first task of each node takes part, and the others exit with 0"))
        self.assert_lines(alone, *(rf"^Local Rank: {local}, Epoch: 0, Training \.\.\.$" for local in range(4)))

    def test_openacc_on_one_node(self):
        line = "srun -N 1 --gres=gpu:4 ddprun --nnodes=1 --nproc-per-node=4 main.py"
        self.assert_said(self.typed(line).stdout, 4, 4)
        in_a_job_of_many_tasks = self.submit(line, "--nodes=2", "--ntasks-per-node=4", "--cpus-per-task=2", "--gres=gpu:4")
        self.assert_said(in_a_job_of_many_tasks, 4, 4)
        self.assertEqual(1, in_a_job_of_many_tasks.count("this step has 8 tasks on 1 node, but ddprun needs one per node"))

    def test_a_script_that_is_given_its_local_rank(self):
        ended = self.typed("ddprun --nproc_per_node=2 main.py '--local-rank=${local_rank}'")
        self.assertEqual({f"said {rank}/2/{rank} ['--local-rank={rank}']" for rank in range(2)},
                         set(ended.stdout.splitlines()))
        ended = self.typed("ddprun --no-use-env --nproc_per_node=2 main.py --num_epochs=1")
        self.assertEqual({f"said {rank}/2/{rank} ['--local_rank={rank}', '--num_epochs=1']" for rank in range(2)},
                         set(ended.stdout.splitlines()))
        ended = self.typed(f"ddprun --no-use-env --nproc_per_node=2 {self.ddptrain('openacc')} --num_epochs=1")
        self.assert_lines(ended.stdout, r"^Local Rank: 1, Epoch: 0, Training \.\.\.$")

    # Mila: ImageNet on several nodes, CIFAR-10 on several GPUs. ----------------------------------

    MILA_SETTINGS = """
            export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
            export MASTER_PORT=$(expr 10000 + $(echo -n $SLURM_JOB_ID | tail -c 4))
            export WORLD_SIZE=$SLURM_NTASKS
            """

    def test_mila_with_tasks_for_ranks(self):
        output = self.submit(self.MILA_SETTINGS + rf"""
            srun bash -c "RANK=\$SLURM_PROCID LOCAL_RANK=\$SLURM_LOCALID {self.ddptrain("mila")} --dataset_path=\$SLURM_TMPDIR/data \
                --epochs=1 --batch_size=8 --use_fake_data --val_seed=0 --checkpoint_interval_epochs=1 --no_wandb"
            """, "--nodes=2", "--ntasks-per-node=2")
        self.assert_lines(output, r"^Epoch 0: Val loss: [\d.]+ accuracy: [\d.]+% samples/sec: [\d.]+$", r"Done in [\d.]+ seconds")
        self.assertEqual({"epoch_0.pt", "epoch_1.pt"}, {file.name for file in (self.room / "checkpoints").iterdir()})

    def test_mila_with_a_launcher_on_each_node(self):
        """With 2 instead of `gpu`: there is no GPU here, which ddprun would report."""
        both = r"""
            srun --ntasks-per-node=1 bash -c "ddprun --node-rank=\$SLURM_NODEID --nnodes=\$SLURM_STEP_NUM_NODES \
                --master-addr=$MASTER_ADDR --master-port=$MASTER_PORT --nproc-per-node=2 main.py $@"
            echo and with the flags of Accelerate
            srun --ntasks-per-node=1 --ntasks=$SLURM_NNODES bash -c "ddprun --machine_rank \$SLURM_NODEID \
                --main_process_ip $MASTER_ADDR --main_process_port $MASTER_PORT --num_machines $SLURM_NNODES --num_processes 4 main.py $@"
            """
        output = self.submit(self.MILA_SETTINGS + both, "--nodes=2", "--ntasks-per-node=1", "--gpus-per-node=2")
        for part in output.split("and with the flags of Accelerate"):
            self.assert_said(part, 4, 2)

    def test_mila_at_a_terminal(self):
        terminal = self.typed_at_a_terminal(
            f"srun --ntasks=2 --pty {self.ddptrain('mila')} --epochs=1 --limit_train_samples=50_000 --limit_val_samples=2000 "
            "--batch_size=512 --use_amp --compile=default --run_name=1024_amp_compile_default")
        self.assertEqual(0, terminal.wait(), terminal.said)
        self.assert_lines(terminal.said, r"ddptrain: --compile has no effect", r"Epoch 0: Val loss: ")

    def test_mila_with_another_model(self):
        """Without --pretrained, whose file would have to be downloaded; a message says so."""
        flags = "--checkpoint_interval_epochs=1 --no_wandb --use_fake_data --model_name=vit_b_32 --val_seed=0 --epochs=1"
        ended = self.typed(f"srun {self.ddptrain('mila')} {flags} --batch_size=8")
        self.assert_lines(ended.stdout, r"Epoch 0: Val loss: ")
        refused = self.typed(f"HOME={self.room} srun {self.ddptrain('mila')} {flags} --pretrained", check=False)
        self.assertNotEqual(0, refused.returncode)
        self.assert_lines(refused.stderr, r"--pretrained without a file needs the one that torchvision downloads")

    def test_mila_in_an_interactive_job(self):
        ended = self.typed(f"salloc --nodes=1-2 --ntasks=4 --gpus-per-task=1 --cpus-per-task=1 "
                           f"srun {self.ddptrain('mila')} --epochs=1 --batch_size=8")
        self.assert_lines(ended.stdout, r"Epoch 0: Val loss: ")

    def test_mila_from_a_shell_on_a_node(self):
        ended = self.typed(f"srun --ntasks=4 --nodes=2 {self.ddptrain('mila')} --epochs=1 --batch_size=8", node="node0")
        self.assert_lines(ended.stdout, r"Epoch 0: Val loss: ")

    def test_mila_with_tasks_that_share_their_gpus(self):
        """Slurm 22.05 does not know the text's value; its own equivalent does the same."""
        flag = "--gres-flags=allow-task-sharing"
        if "nvalid" in self.typed(f"srun {flag} true", check=False).stderr:
            flag = "--gpu-bind=none"
        output = self.submit(f"""
            export MASTER_PORT=$(expr 10000 + $(echo -n $SLURM_JOBID | tail -c 4)); export MASTER_ADDR="127.0.0.1"
            srun {flag} {self.ddptrain("mila")} --epochs=1 --batch_size=8
            """, "--nodes=1", "--ntasks=2", "--ntasks-per-node=2", "--gpus-per-task=1")
        self.assert_lines(output, r"Epoch 0: Val loss: ")

    # Crusoe: torchrun on Slurm. -----------------------------------------------------------------

    def test_crusoe(self):
        """In torchvision's folders; of Debian's packages it is Fashion-MNIST, in files of the same form."""
        raw = self.room / "data/MNIST/raw"
        raw.mkdir(parents=True)
        for file in FASHION_MNIST.glob("*.gz"):
            (raw / file.name).symlink_to(file)
        port = random.randrange(20_000, 30_000)
        output = self.submit(f"""
            export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1) MASTER_PORT={port}
            export DATA_DIR=./data CHECKPOINT_DIR=./checkpoints NCCL_SOCKET_IFNAME=^docker,lo
            srun ddprun --nnodes=$SLURM_NNODES --nproc_per_node=4 --rdzv_id=$SLURM_JOB_ID --rdzv_backend=c10d \\
                --rdzv_endpoint=$MASTER_ADDR:$MASTER_PORT {self.ddptrain("crusoe")} --epochs 2 --batch-size 64 --lr 0.01
            """, "--nodes=2", "--ntasks-per-node=1", "--gpus-per-node=4", "--cpus-per-task=4")
        self.assert_lines(output, r"^Starting distributed training on 8 GPUs$", r"^Epoch 2 - Avg Loss: [\d.]+, Accuracy: [\d.]+%$",
                          r"^Checkpoint saved to \./checkpoints/checkpoint_epoch_1\.pt$", r"^Training completed!$")
        self.assertTrue((self.room / "checkpoints/checkpoint_epoch_2.pt").is_file())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("ddprun", "ddptrain"):
        parser.add_argument(f"--{name}", required=True)
    _, rest = parser.parse_known_args(namespace=options)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
