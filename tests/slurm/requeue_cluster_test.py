"""A training that is killed or preempted in its second epoch, and requeued, ends with the results of an undisturbed
one: those of each epoch, and its weights.

    requeue_cluster_test.py --ddprun PROGRAM --ddptrain PROGRAM --python INTERPRETER ...
        [--dataset NAME] [--data DIR] [--model NAME] [unittest arguments]

With ddptrain, which saves a snapshot for each epoch, and with a Python script that saves a checkpoint for each. DIR
has the files of the data set: ResNet-18 is tested by --dataset cifar10 --data DIR --model resnet18
Requeue.test_ddptrain, since the script has a small net. Nothing depends on timing: a program waits in its second
epoch until it got the notice, or all processes of ddprun on its node were killed.
"""

import argparse
import contextlib
import fcntl
import os
import pathlib
import re
import select
import sys
import threading
import time
import unittest

from cluster import PATIENCE_S, POLL_S, Cluster, skip_without_cluster
from ear import Ear

EPOCHS = 3
STEPS = 80  # of an epoch
BATCH = 8
WORLD = 2
SCRIPT = pathlib.Path(__file__).resolve().with_name("checkpointed.py")
SETTINGS = {"KillWait": "20"}  # several trainings share the cores here
PAGE = 4096  # of records, fewer than half an epoch has

options = argparse.Namespace()


def setUpModule():
    skip_without_cluster()


def until(claim, why):
    deadline = time.monotonic() + PATIENCE_S
    while not claim():
        if time.monotonic() > deadline:
            raise AssertionError(why())
        time.sleep(POLL_S)


class Hold:
    """The metrics file of ddptrain, a FIFO: after a page of records the writer waits until it is read."""

    def __init__(self, path):
        os.mkfifo(path)
        self._fifo = os.open(path, os.O_RDWR)
        fcntl.fcntl(self._fifo, fcntl.F_SETPIPE_SZ, PAGE)
        self._end, self._is_over = os.pipe()
        self._reader = None

    def read_epoch(self):
        """Reads until the first epoch is over, and hardly further."""
        text = b""
        while b'"event":"epoch"' not in text:
            if not select.select([self._fifo], [], [], PATIENCE_S)[0]:
                raise AssertionError(f"no epoch ended: {text[-200:]}")
            text += os.read(self._fifo, 16)

    def release(self):
        """All is read from here on."""
        self._reader = threading.Thread(target=self._read_all)
        self._reader.start()

    def _read_all(self):
        while self._end not in select.select([self._fifo, self._end], [], [])[0]:
            os.read(self._fifo, PAGE)

    def close(self):
        os.close(self._is_over)
        if self._reader:
            self._reader.join()
        os.close(self._fifo)
        os.close(self._end)


class Job:
    """A batch job on two nodes, which is started again by ddprun."""

    def __init__(self, case, name, *program):
        self.case, self.cluster = case, case.cluster
        self.room = self.cluster.shared / name
        self.room.mkdir()
        words = ["srun", "--ntasks-per-node=1", "-K0", "-W0", options.ddprun, "--requeue=on-preempt",
                 "--rdzv-conf=join_timeout=5", f"--log-dir={self.room}/log", "--nproc-per-node=1", *program]
        self.id = self.cluster.sbatch(
            "--nodes=2", "--exclusive", "--requeue", "--open-mode=append", "--partition=low",
            env={"OMP_NUM_THREADS": "1", "PYTHON_EXEC": options.python},
            script=f'echo "run ${{SLURM_RESTART_COUNT:-0}}"\nexec {" ".join(map(str, words))}\n')
        case.addCleanup(self.cluster.run, "scancel", str(self.id), check=False)

    def output(self):
        return self.cluster.output_of(self.id)

    def is_told(self):
        """All nodes know that the job is to end."""
        events = [file.read_text() for file in self.room.glob("log/*/events.jsonl")]
        return len(events) == WORLD and all('"event":"told_to_stop"' in text for text in events)

    def preempt(self):
        nodes = self.cluster.job(self.id)["NodeList"]
        self.cluster.sbatch("--partition=batch", "--exclusive", f"--nodelist={nodes}", script=":")

    def end(self, restarts):
        """The epoch lines of each of its runs, and the last line."""
        known = self.cluster.wait_until_over(self.id)
        output = self.output()
        self.case.assertEqual(("COMPLETED", "0:0", str(restarts)),
                              (known["JobState"], known["ExitCode"], known["Restarts"]), output)
        self.case.assertEqual(restarts, output.count("Slurm was asked to start"), output)
        runs = [run.splitlines() for run in re.split(r"^run \d+\n", output, flags=re.M)[1:]]
        # Without ddptrain's speed.
        epochs = [[line.partition(" samples_per_s=")[0] for line in run if line.startswith("epoch=")]
                  for run in runs]
        (final,) = re.findall("^final .*$", output, re.M)
        return epochs, final


class Requeue(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.enterClassContext(Cluster(7, settings=SETTINGS))

    def ddptrain(self, name, *flags):
        return Job(self, name, options.ddptrain, f"--dataset={options.dataset}", f"--data-dir={options.data}",
                   f"--model={options.model}", f"--epochs={EPOCHS}", f"--batch-size={BATCH}",
                   f"--limit-train-samples={STEPS * BATCH * WORLD}",
                   "--limit-test-samples=200", f"--snapshot-every-steps={STEPS}",
                   f"--snapshot-dir={self.cluster.shared / name / 'snapshots'}", *flags)

    def python(self, name, *flags):
        return Job(self, name, SCRIPT, "--data", options.data, "--checkpoints", self.cluster.shared / name / "checkpoints",
                   "--epochs", EPOCHS, *flags)

    def held(self, name):
        """A training in its second epoch, with a snapshot of the first; and the FIFO that blocks it."""
        hold = self.enterContext(contextlib.closing(Hold(self.cluster.shared / f"{name}.metrics")))
        job = self.ddptrain(name, f"--metrics-file={self.cluster.shared / name}.metrics")
        hold.read_epoch()
        until(lambda: list(job.room.glob(f"snapshots/snapshot-*-s{STEPS:012d}")), job.output)
        return job, hold

    def assert_as_undisturbed(self, job, undisturbed):
        """Each epoch was trained once, the first one before the requeue and the others after it."""
        (epochs,), final = undisturbed.end(restarts=0)
        self.assertEqual(EPOCHS, len(epochs))
        self.assertEqual(([epochs[:1], epochs[1:]], final), job.end(restarts=1))

    def test_ddptrain(self):
        undisturbed = self.ddptrain("undisturbed")
        lost, hold_of_lost = self.held("lost")
        told, hold_of_told = self.held("told")
        _, node = self.cluster.run("scontrol", "show", "hostnames",
                                   self.cluster.job(lost.id)["NodeList"]).stdout.split()
        self.cluster.run("pkill", "-KILL", "^ddp", node=node)  # agent and ranks at the same instant
        told.preempt()
        until(told.is_told, told.output)
        for hold in (hold_of_told, hold_of_lost):
            hold.release()
        self.cluster.start_again(told.id)
        self.cluster.start_again(lost.id)
        self.assert_as_undisturbed(lost, undisturbed)
        self.assert_as_undisturbed(told, undisturbed)
        self.assertIn(f"\nresumed epoch=1 step={STEPS}\n", lost.output())
        self.assertRegex(told.output(), r"\nstopped (epoch=1 step=\d+)\n(?s:.*)\nresumed \1\n")

    def test_python(self):
        """It has no signal handler: its second epoch is lost."""
        undisturbed = self.python("undisturbed-python")
        ear = self.enterContext(contextlib.closing(Ear(self.cluster.shared / "ear")))
        told = self.python("told-python", "--pause-at", "1", ear.path)
        ear.hear(WORLD)
        told.preempt()
        self.cluster.start_again(told.id)
        self.assert_as_undisturbed(told, undisturbed)
        self.assertIn("\nresumed epoch=1\n", told.output())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("ddprun", "ddptrain", "python"):
        parser.add_argument(f"--{name}", required=True, type=os.path.abspath)
    parser.add_argument("--dataset", default="fashion-mnist")
    parser.add_argument("--data", type=os.path.abspath, default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--model", default="convnet")
    _, rest = parser.parse_known_args(namespace=options)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
