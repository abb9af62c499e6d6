"""Tests that need a GPU: the examples compared with Python's DDP on the same GPUs, NCCL, a kill and a resume.

    gpu_check.py [--device cpu] [unittest arguments]      scripts/check_gpu.sh builds what it needs

With --device cpu the file itself is tested without a GPU; then the bits must be the same.
"""

import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

import torch

import drill_test
import jobs
import kit_test
from resume_test import Steps

options = argparse.Namespace(device="cuda")
# How an example trains, without what the Python side lacks: crops of images, a stratified split, line styles.
# Examples with images of no fixed size use those of CIFAR-10.
EXAMPLES = {
    "crusoe_mnist": "--model simple_conv_net --batch-size 64 --learning-rate 0.01 --momentum 0.9 --first-epoch 1",
    "crusoe_vit": "--dataset cifar10 --model crusoe_vit_tiny --batch-size 50 --optimizer adamw --learning-rate 0.001 "
                  "--weight-decay 0.05 --clip-norm 1 --amp fp16",
    "kaust_tiny_imagenet": "--dataset cifar10 --model resnet50 --batch-size 16 --learning-rate 0.1 --momentum 0.9 "
                           "--weight-decay 0.0001 --amp fp16",
    "mila_cifar10": "--dataset cifar10 --model resnet18 --batch-size 32 --optimizer adamw --learning-rate 0.0005 "
                    "--weight-decay 0.0001 --seed 42 --sampler-seed 0 --validation-share 0.1 --validation-seed 42",
    "mila_imagenet": "--dataset cifar10 --model vit_b_32 --batch-size 16 --optimizer adamw --learning-rate 0.0003 "
                     "--weight-decay 0.0001 --seed 42 --amp bf16",
    "openacc_cifar10": "--dataset cifar10 --model resnet18 --batch-size 32 --learning-rate 0.1 --momentum 0.9 "
                       "--weight-decay 1e-5",
}
STEPS = 10
# Relative error of a loss: other kernels, or another order of sums. For float32, and for coarser types.
TOLERANCE = {"off": 1e-4, "bf16": 3e-2, "fp16": 3e-3}
KILLED_AT = 25


def setUpModule():
    if options.device == "cuda" and not torch.cuda.is_available():
        raise RuntimeError("torch sees no GPU here; look at nvidia-smi")


def world():
    """Two ranks if there are two GPUs, so that NCCL has something to sum."""
    return min(2, torch.cuda.device_count()) if options.device == "cuda" else 2


class Case(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.device = ["--device", options.device, "--deterministic"]

    def data(self, flags):
        if "cifar10" in flags:
            given = os.environ.get("DDPRUN_CIFAR_DIR")
            if not given:
                kit_test.make_cifar10(self.directory)
            return ["--data-dir", given or str(self.directory)]
        dataset, directory = jobs.find_data()
        return ["--dataset", dataset, "--data-dir", directory]

    def train(self, program, flags, ranks, *more):
        """(the last line's fields, the loss of each step)"""
        metrics = self.directory / "metrics"
        metrics.unlink(missing_ok=True)
        results = jobs.Run([*program, *flags, *self.device, *more, "--metrics-file", str(metrics)], ranks,
                           kernels=jobs.OWN_KERNELS).wait()
        return jobs.final(results), [record["loss"] for record in jobs.records(metrics) if record["event"] == "step"]


class BesidePython(Case):
    def same_as_python(self, example):
        flags = EXAMPLES[example].split()
        batch = int(flags[flags.index("--batch-size") + 1])
        precision = flags[flags.index("--amp") + 1] if "--amp" in flags else "off"
        for ranks in sorted({1, world()}):
            with self.subTest(ranks=ranks):
                sized = [*flags, *self.data(flags), "--limit-train-samples", str(STEPS * batch * ranks),
                         "--limit-test-samples", "10"]
                ours, our_losses = self.train([jobs.DDPTRAIN], sized, ranks)
                theirs, their_losses = self.train(jobs.PYTHON_PEER, sized, ranks)
                self.assertEqual(STEPS, len(our_losses))
                worst = max(abs(a - b) / abs(b) for a, b in zip(our_losses, their_losses, strict=True))
                has_same_bits = ours["weights_sha256"] == theirs["weights_sha256"]
                print(f"{example}, {ranks} ranks: losses differ by {worst:.1e} at most; the weights' bits are "
                      f"{'the same' if has_same_bits else 'others'}", file=sys.stderr)
                if options.device == "cpu":
                    self.assertTrue(has_same_bits)
                self.assertLessEqual(worst, TOLERANCE[precision], list(zip(our_losses, their_losses)))

    def test_crusoe_mnist(self):
        self.same_as_python("crusoe_mnist")

    def test_crusoe_vit(self):
        self.same_as_python("crusoe_vit")

    def test_kaust_tiny_imagenet(self):
        self.same_as_python("kaust_tiny_imagenet")

    def test_mila_cifar10(self):
        self.same_as_python("mila_cifar10")

    def test_mila_imagenet(self):
        self.same_as_python("mila_imagenet")

    def test_openacc_cifar10(self):
        self.same_as_python("openacc_cifar10")


class Alone(Case):
    def flags(self):
        flags = "--model simple_conv_net --limit-train-samples 640 --epochs 2 --batch-size 8".split()
        return [*flags, *self.data(flags), "--limit-test-samples", "50"]

    def test_a_killed_rank_leaves_no_trace_in_the_weights(self):
        undisturbed, _ = self.train([jobs.DDPTRAIN], self.flags(), world())
        steps = Steps(str(self.directory / "steps"))
        launcher = subprocess.Popen(
            [drill_test.DDPRUN, "--standalone", "--nproc-per-node", str(world()), "--max-restarts", "1", jobs.DDPTRAIN,
             *self.flags(), *self.device, "--snapshot-dir", str(self.directory / "snapshots"),
             "--snapshot-every-steps", "10", "--metrics-file", steps.path],
            env=os.environ | jobs.OWN_KERNELS, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(launcher.kill)
        steps.wait_for(event="step", step=KILLED_AT)
        os.kill(drill_test.workers_of(launcher.pid)[world() - 1], signal.SIGKILL)
        threading.Thread(target=steps.file.read, daemon=True).start()
        out, err = launcher.communicate(timeout=jobs.WAIT_S)
        self.assertEqual(0, launcher.returncode, err)
        self.assertEqual(2, out.count("ddptrain dataset="), out)
        self.assertEqual(undisturbed, jobs.final([(0, out, err)]))

    def test_the_processor_resumes_what_a_gpu_has_saved(self):
        saved = ["--snapshot-dir", str(self.directory / "snapshots"), "--snapshot-every-steps", "20"]
        self.train([jobs.DDPTRAIN], self.flags(), world(), *saved, "--epochs", "1")
        fields = jobs.final(jobs.Run(
            [jobs.DDPTRAIN, *self.flags(), "--device", "cpu", *saved], world(), kernels=jobs.OWN_KERNELS).wait())
        self.assertEqual(2 * 640 // 8 // world(), int(fields["step"]))

    def test_a_burn_in_tells_how_the_gpu_stands(self):
        if options.device == "cpu":
            self.skipTest("there is no GPU")
        (_, out, _), *_ = jobs.Run([jobs.DDPTRAIN, *self.flags(), *self.device, "--burn-in", "0.05"], world()).wait()
        told = re.search(r"burn-in .* max_allocated_mib=(\d+).* temp_c=(\d+)", out)
        self.assertIsNotNone(told, out)
        self.assertGreater(int(told[1]), 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    _, rest = parser.parse_known_args(namespace=options)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
