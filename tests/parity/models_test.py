"""Models of ddptrain against the same models in Python, both built and run on this machine: names,
shapes, first values, scores, one training step, and floating-point operations.
"""

import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import torch
from torch.utils.flop_counter import FlopCounterMode

import model_peers

HERE = pathlib.Path(__file__).resolve().parent
PRINT_MODEL = os.environ.get(
    "PRINT_MODEL", str(HERE.parents[1] / "build/release/bin/print_model"))
SEED = 3

try:
    import torchvision  # noqa: F401
    HAS_TORCHVISION = True
except ImportError:
    HAS_TORCHVISION = False
needs_torchvision = unittest.skipUnless(
    HAS_TORCHVISION, "no torchvision beside torch; pip install torchvision==0.26.0")


def ours(name, shape, batch, *what):
    """The output of print_model; `shape` is (channels, side, classes)."""
    command = [PRINT_MODEL, name, *map(str, [*shape, SEED, batch]), *what]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise AssertionError(f"{command} ended with {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def python(name, shape, seed=SEED):
    torch.manual_seed(seed)
    return model_peers.make(name, *shape)


def sha256(tensors):
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.detach().contiguous().numpy().tobytes())
    return digest.hexdigest()


def state(model):
    return [[name, list(tensor.shape)] for name, tensor in model.state_dict().items()]


def scores(model, shape):
    channels, side, _ = shape
    images = torch.linspace(-1, 1, channels * side * side).view(1, channels, side, side)
    with torch.no_grad():
        return model.eval()(images).flatten().tolist()


def train_one_step(name, model, shape, batch):
    channels, side, classes = shape
    torch.manual_seed(SEED + 1)
    images = torch.randn(batch, channels, side, side)
    labels = torch.arange(batch) % classes
    loss = model_peers.loss_of(name, model.train()(images), labels)
    loss.backward()
    return {"loss": loss.item(),
            "gradients_sha256": sha256(p.grad for p in model.parameters()),
            "state_after_sha256": sha256(model.state_dict().values())}


class Models(unittest.TestCase):
    def setUp(self):
        torch.set_num_threads(1)

    def assert_equal_in_all(self, name, shape, batch):
        """Bit for bit: first values, scores without dropout, and a training step with it."""
        mine = ours(name, shape, batch, "state", "eval", "train")
        theirs = python(name, shape)
        self.assertEqual(mine["state"], state(theirs))
        self.assertEqual(mine["parameters"], sum(p.numel() for p in theirs.parameters()))
        self.assertEqual(mine["weights_sha256"], sha256(theirs.parameters()))
        self.assertEqual(mine["state_sha256"], sha256(theirs.state_dict().values()))
        expected = scores(theirs, shape)
        worst = max(abs(a - b) for a, b in zip(mine["scores"], expected, strict=True))
        step = train_one_step(name, theirs, shape, batch)
        print(f"{name} {shape}: largest difference of a score {worst}, of the loss "
              f"{abs(mine['loss'] - step['loss'])}", file=sys.stderr)
        self.assertEqual(mine["scores"], expected)
        for key, value in step.items():
            self.assertEqual(mine[key], value, key)

    def assert_same_names(self, name):
        shape = model_peers.DEFAULTS[name]
        mine = ours(name, shape, 1)
        with torch.device("meta"):
            theirs = model_peers.make(name, *shape)
        self.assertEqual(mine["state"], state(theirs))

    def test_the_net_of_j1(self):
        self.assert_equal_in_all("convnet", (1, 28, 10), 16)

    def test_a_net_of_layers_for_another_image(self):
        self.assert_equal_in_all("convnet", (3, 33, 7), 5)

    def test_crusoes_net_with_dropout(self):
        self.assert_equal_in_all("simple_conv_net", (1, 28, 10), 16)

    def test_the_bootcamps_net_with_dropout_of_channels(self):
        self.assert_equal_in_all("my_net", (1, 28, 10), 16)

    def test_the_dummy(self):
        self.assert_equal_in_all("dummy", (3, 64, 1000), 4)

    def test_the_linear_net(self):
        self.assert_equal_in_all("linear", (1, 28, 10), 16)

    @needs_torchvision
    def test_resnet18_for_cifar(self):
        self.assert_equal_in_all("resnet18", (3, 32, 10), 8)

    @needs_torchvision
    def test_resnet34(self):
        self.assert_equal_in_all("resnet34", (3, 75, 10), 4)

    @needs_torchvision
    def test_resnet50_for_tiny_imagenet(self):
        self.assert_equal_in_all("resnet50", (3, 64, 200), 4)

    @needs_torchvision
    def test_vit_b_32(self):
        # Its head begins with zeros, so most gradients are zeros here, and not in Weights below.
        self.assert_equal_in_all("vit_b_32", (3, 224, 1000), 2)

    def test_crusoes_small_vit_with_dropout(self):
        self.assert_equal_in_all("crusoe_vit_tiny", (3, 32, 10), 16)

    def test_crusoes_small_vit_of_a_larger_image(self):
        self.assert_equal_in_all("crusoe_vit_tiny", (3, 96, 11), 5)

    @needs_torchvision
    def test_names_of_torchvisions_large_models(self):
        for name in ["resnet101", "resnet152", "vit_l_16", "vit_l_32"]:
            with self.subTest(name):
                self.assert_same_names(name)

    def test_names_of_crusoes_large_models(self):
        for name in ["crusoe_vit_large", "crusoe_vit_huge"]:
            with self.subTest(name):
                self.assert_same_names(name)


@unittest.skipUnless(HAS_TORCHVISION, "no torchvision beside torch")
class Weights(unittest.TestCase):
    """A state_dict of Python, loaded by us (T8), and one with a different head (T9)."""

    def setUp(self):
        torch.set_num_threads(1)
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.file = pathlib.Path(directory.name, "weights.safetensors")

    def save(self, model, prefix=""):
        from safetensors.torch import save_file

        save_file({prefix + name: tensor.contiguous()
                   for name, tensor in model.state_dict().items()}, self.file)

    def assert_becomes_pythons(self, name, shape, prefix=""):
        theirs = python(name, shape, seed=SEED + 7)
        if name.startswith("vit_"):  # else the scores are 0, and all gradients but the head's
            torch.nn.init.normal_(theirs.heads.head.weight)
        self.save(theirs, prefix)
        mine = ours(name, shape, 3, f"load={self.file}", "state", "eval", "train")
        self.assertEqual(mine["loaded"], f"all {len(theirs.state_dict())} tensors")
        self.assertEqual(mine["state_sha256"], sha256(theirs.state_dict().values()))
        self.assertEqual(mine["scores"], scores(theirs, shape))
        for key, value in train_one_step(name, theirs, shape, 3).items():
            self.assertEqual(mine[key], value, key)

    def test_a_resnet_saved_by_python_resumes_here(self):
        self.assert_becomes_pythons("resnet18", (3, 64, 10))

    def test_a_vit_saved_under_ddp_resumes_here(self):
        self.assert_becomes_pythons("vit_b_32", (3, 224, 1000), "module.")

    def test_a_vit_of_small_patches_resumes_here(self):
        self.assert_becomes_pythons("vit_b_16", (3, 48, 10))

    def test_a_head_of_other_classes_is_reported_and_the_rest_taken(self):
        self.save(python("resnet18", (3, 32, 1000)))
        mine = ours("resnet18", (3, 32, 10), 1, f"load={self.file}")
        self.assertEqual(
            mine["loaded"], "120 of 122 tensors; of another shape: fc.weight, fc.bias")

    def test_another_model_is_refused(self):
        self.save(python("resnet50", (3, 32, 10)))
        with self.assertRaisesRegex(AssertionError, "ended with 1: tensor 'layer1.0.conv1.weight'"):
            ours("resnet18", (3, 32, 10), 1, f"load={self.file}")


class Flops(unittest.TestCase):
    def assert_counts_as_torch(self, name, shape):
        with torch.device("meta"):
            model = model_peers.make(name, *shape)
            images = torch.empty(1, shape[0], shape[1], shape[1])
        counter = FlopCounterMode(display=False)
        with counter:
            model(images)
        self.assertEqual(ours(name, shape, 1)["forward_flops"], counter.get_total_flops())

    def test_of_nets_without_torchvision(self):
        for name in ["convnet", "my_net", "dummy", "linear", "crusoe_vit_tiny"]:
            with self.subTest(name):
                self.assert_counts_as_torch(name, model_peers.DEFAULTS[name])

    @needs_torchvision
    def test_of_torchvisions_models(self):
        for name, side in [("resnet18", 224), ("resnet50", 224), ("vit_b_32", 224),
                           ("resnet18", 33), ("resnet50", 97), ("vit_b_16", 64)]:
            with self.subTest(name, side=side):
                self.assert_counts_as_torch(name, (3, side, 1000))


if __name__ == "__main__":
    unittest.main(verbosity=2)
