"""The kit's models, optimizers and ways to exchange gradients, against Python's DDP run beside it.

CIFAR-10 is read from DDPRUN_CIFAR_DIR; else its records are synthetic, which is as good for comparing bits.
With two ranks all jobs run; with one, three and four ranks a few represent all, unless DDPRUN_KIT is "all".
"""

import os
import pathlib
import tempfile
import unittest

import numpy

import jobs

MNIST_NET = "--model convnet --limit-train-samples 320 --batch-size 16"
# If a processor has no instructions for them, convolutions take twenty times as long as in float32: few steps.
HALF_PRECISION_NET = "--model convnet --limit-train-samples 160 --batch-size 16"
HALF_PRECISION_RESNET = "--dataset cifar10 --model resnet18 --limit-train-samples 16 --batch-size 4 --limit-test-samples 2"
RESNET = "--dataset cifar10 --model resnet18 --limit-train-samples 96 --batch-size 8"
VIT = "--dataset cifar10 --model crusoe_vit_tiny --limit-train-samples 320 --batch-size 16 --epochs 2"
ADAMW = "--optimizer adamw --learning-rate 0.001 --weight-decay 0.05"
JOBS = {
    "conv net, AdamW": f"{MNIST_NET} {ADAMW} --clip-norm 1",
    "conv net, accumulating": f"{MNIST_NET} --accumulate 3 --epochs 2",
    "conv net, bf16": f"{HALF_PRECISION_NET} --amp bf16",
    "conv net, StepLR": f"{MNIST_NET} --schedule step --step-size 1 --gamma 0.5 --epochs 3",
    "conv net, Adadelta": f"{MNIST_NET} --optimizer adadelta --learning-rate 1.0",
    "conv net, fp16 between ranks": f"{MNIST_NET} --compress fp16",
    "conv net, bf16 between ranks": f"{MNIST_NET} --compress bf16",
    "conv net, small buckets": f"{MNIST_NET} --bucket-cap-mb 1",
    "conv net, static graph": f"{MNIST_NET} --static-graph",
    "conv net, unused parameters": f"{MNIST_NET} --find-unused",
    "conv net, the largest seed": f"{MNIST_NET} --seed {2**64 - 1}",
    "ResNet-18": RESNET,
    "ResNet-18, AdamW": f"{RESNET} {ADAMW}",
    "ResNet-18, accumulating": f"{RESNET} --accumulate 2",
    "ResNet-18, bf16": f"{HALF_PRECISION_RESNET} --amp bf16",
    "small ViT": VIT,
    "small ViT, AdamW": f"{VIT} {ADAMW} --clip-norm 1",
    "small ViT, accumulating": f"{VIT} {ADAMW} --accumulate 2",
    "small ViT, bf16": f"{VIT} {ADAMW} --amp bf16",
}


def some_of(those, *names):
    """Those of these names; all, at night."""
    return those if os.environ.get("DDPRUN_KIT") == "all" else {name: those[name] for name in names}


# Of each model, and of each way to exchange gradients, whose bits depend on the number of ranks.
AT_FOUR_RANKS = some_of(
    JOBS, "conv net, accumulating", "conv net, fp16 between ranks", "conv net, small buckets", "ResNet-18",
    "small ViT, AdamW", "small ViT, bf16")
# Most jobs differ in how ranks exchange gradients, of which one alone has nothing.
ALONE = some_of(JOBS, "conv net, AdamW", "conv net, bf16", "conv net, StepLR", "ResNet-18, accumulating", "small ViT, bf16")
IN_FP16 = {"conv net, fp16": f"{HALF_PRECISION_NET} --amp fp16"}
# In both, gradients scaled by 65,536 are too large for the first steps of so small a batch, which are left out.
OVERFLOWING = {"conv net, fp16 that overflows": "--model convnet --limit-train-samples 80 --batch-size 2 --amp fp16"}
WITH_AUTOCAST = {name: job for name, job in JOBS.items() if name.endswith(", bf16")} | IN_FP16 | OVERFLOWING
AT_THREE_RANKS = some_of(WITH_AUTOCAST, "ResNet-18, bf16", "small ViT, bf16", *IN_FP16, *OVERFLOWING)
AT_FIVE_RANKS = {"conv net, bf16": JOBS["conv net, bf16"]} | IN_FP16


def make_cifar10(directory):
    """A file of CIFAR-10's form: a label and 3,072 random pixels each."""
    records = numpy.random.default_rng(0).integers(0, 256, (1000, 3073), numpy.uint8)
    records[:, 0] %= 10
    for name in ("data_batch_1.bin", "test_batch.bin"):
        pathlib.Path(directory, name).write_bytes(records.tobytes())


class Kit(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.cifar = os.environ.get("DDPRUN_CIFAR_DIR") or str(cls.directory)
        if cls.cifar == str(cls.directory):
            make_cifar10(cls.directory)

    def flags(self, job):
        if "cifar10" in job:
            return ["--limit-test-samples", "20", "--data-dir", self.cifar, *job.split()]
        dataset, directory = jobs.find_data()
        return ["--limit-test-samples", "20", "--dataset", dataset, "--data-dir", directory, *job.split()]

    def metrics(self, who, world, number):
        return str(self.directory / f"{who}-{world}-{number}.jsonl")

    def train_python(self, world, those):
        """The hash of each job, in order."""
        return jobs.python_hashes(
            self.directory, [[*self.flags(job), "--metrics-file", self.metrics("python", world, number)]
                             for number, job in enumerate(those.values())], world, kernels=jobs.OWN_KERNELS)

    def assert_equals_python(self, world, those):
        theirs = self.train_python(world, those)
        self.assertEqual(len(those), len(theirs))
        for number, (name, job) in enumerate(those.items()):
            with self.subTest(name, world=world):
                metrics = self.metrics("ours", world, number)
                fields = jobs.final(jobs.Run(
                    [jobs.DDPTRAIN, *self.flags(job), "--metrics-file", metrics], world,
                    kernels=jobs.OWN_KERNELS).wait())
                ours, peer = ([record["loss"] for record in jobs.records(path) if record["event"] == "epoch"]
                              for path in (metrics, self.metrics("python", world, number)))
                self.assertEqual(peer, ours)
                self.assertEqual(theirs[number], fields["weights_sha256"])

    def test_has_pythons_bits_alone(self):
        self.assert_equals_python(1, ALONE)

    def test_has_pythons_bits_at_two_ranks(self):
        self.assert_equals_python(2, JOBS)

    def test_has_pythons_bits_at_an_odd_world_with_autocast(self):
        """If gradients arrived in another order than Python's, buckets and sums would differ at these world sizes."""
        self.assert_equals_python(3, AT_THREE_RANKS)

    def test_has_pythons_bits_at_a_larger_odd_world_with_autocast(self):
        self.assert_equals_python(5, AT_FIVE_RANKS)

    def test_has_pythons_bits_at_six_ranks_with_autocast(self):
        self.assert_equals_python(6, {"conv net, bf16": JOBS["conv net, bf16"]})

    def test_has_pythons_bits_at_four_ranks(self):
        self.assert_equals_python(4, AT_FOUR_RANKS)


if __name__ == "__main__":
    unittest.main(verbosity=2)
