"""Each file in examples/ trains, on small data of its kind, and prints what its origin prints.

CIFAR-10 and Tiny-ImageNet are read from DDPRUN_CIFAR_DIR and DDPRUN_TINY_IMAGENET_DIR; else the data is
synthetic.
"""

import os
import pathlib
import pty
import re
import subprocess
import tarfile
import tempfile
import unittest

import numpy
from PIL import Image

import jobs
import kit_test

EXAMPLES = jobs.HERE.parents[1] / "examples"
# None of these matters to the example, and a machine without GPUs must run it.
SMALL = ["epochs=2", "batch-size=4", "limit-train-samples=16", "limit-test-samples=8", "log-every=1"]


# The flags that determine the results, as each origin sets them. Flags in no file have ddptrain's default: 0 for
# seeds, --seed for --sampler-seed.
DECIDING = (
    "seed", "sampler-seed", "validation-share", "validation-split", "validation-seed", "first-epoch", "epochs",
    "batch-size", "gradient-accumulation-steps", "drop-last", "model", "image-size", "transforms", "sync-bn", "dropout",
    "optimizer", "learning-rate", "momentum", "nesterov", "weight-decay", "schedule", "step-size", "gamma",
    "warmup-epochs", "clip-norm", "amp")
OF_ORIGINS = {
    "crusoe_mnist": {
        "first-epoch": 1, "epochs": 5, "batch-size": 64, "model": "simple_conv_net", "optimizer": "sgd",
        "learning-rate": 0.01, "momentum": 0.9},
    "crusoe_vit": {
        "epochs": 50, "batch-size": 100, "gradient-accumulation-steps": 1, "drop-last": "true",
        "model": "crusoe_vit_large", "image-size": 128, "optimizer": "adamw", "learning-rate": 0.001,
        "weight-decay": 0.05, "schedule": "warmup_cosine", "warmup-epochs": 5, "clip-norm": 1, "amp": "fp16"},
    "kaust_tiny_imagenet": {
        "epochs": 30, "batch-size": 128, "drop-last": "true", "model": "resnet50", "optimizer": "sgd",
        "learning-rate": 0.1, "momentum": 0.9, "weight-decay": 1e-4, "schedule": "step", "step-size": 30, "gamma": 0.1,
        "amp": "fp16"},
    "mila_cifar10": {
        "seed": 42, "sampler-seed": 0, "validation-share": 0.1, "validation-seed": 42, "epochs": 10, "batch-size": 128,
        "model": "resnet18", "transforms": "cifar10-plain", "optimizer": "adamw", "learning-rate": 5e-4,
        "weight-decay": 1e-4},
    "mila_imagenet": {
        "seed": 42, "validation-share": 0.1, "validation-split": "stratified", "validation-seed": 0, "epochs": 10,
        "batch-size": 512, "model": "vit_b_32", "sync-bn": "true", "optimizer": "adamw", "learning-rate": 3e-4,
        "weight-decay": 1e-4, "amp": "bf16"},
    "openacc_cifar10": {
        "epochs": 50, "batch-size": 256, "model": "resnet18", "transforms": "cifar10-augment", "optimizer": "sgd",
        "learning-rate": 0.1, "momentum": 0.9, "weight-decay": 1e-5},
}


def settings_of(path):
    """{flag: value} of a file that has one setting a line; numbers as numbers."""
    settings = {}
    for flag, value in re.findall(r"^([a-z-]+): *([^#\n]*?) *(?:#.*)?$", path.read_text(), re.MULTILINE):
        try:
            settings[flag] = float(value)
        except ValueError:
            settings[flag] = value
    return settings


CLASSES = ("n01", "n02", "n03")
IMAGES = range(8)


def make_folders(root, layout):
    """Random JPEG files of three classes: `layout` returns the path of an image, by split, class and number."""
    dice = numpy.random.default_rng(0)
    for split in ("train", "val"):
        for name in CLASSES:
            for number in IMAGES:
                path = root / layout(split, name, number)
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(dice.integers(0, 256, (64, 64, 3), numpy.uint8)).save(path)


def image_folder(split, name, number):
    return f"{split}/{name}/{number}.jpg"


def tiny_imagenet(split, name, number):
    return f"train/{name}/images/{name}_{number}.JPEG" if split == "train" else f"val/images/{name}_{number}.JPEG"


def make_tiny_imagenet(root):
    make_folders(root, tiny_imagenet)
    (root / "wnids.txt").write_text("\n".join(CLASSES) + "\n")
    (root / "val/val_annotations.txt").write_text("".join(
        f"{name}_{number}.JPEG\t{name}\t0\t0\t1\t1\n" for name in CLASSES for number in IMAGES))
    return root


def link_as_image_folder(tiny, root):
    """The same images in a folder for each class, as ImageNet is once it is unpacked."""
    places = {path: root / "train" / path.parts[-3] / path.name for path in tiny.glob("train/*/images/*.JPEG")}
    for line in (tiny / "val/val_annotations.txt").read_text().splitlines():
        file, name = line.split("\t")[:2]
        places[tiny / "val/images" / file] = root / "val" / name / file
    for source, link in places.items():
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(source)


class Settings(unittest.TestCase):
    maxDiff = None

    def test_what_decides_the_numbers_is_as_in_the_origin(self):
        files = {path.stem: settings_of(path) for path in EXAMPLES.glob("*.yaml")}
        self.assertEqual(sorted(OF_ORIGINS), sorted(files))
        for name, origin in OF_ORIGINS.items():
            with self.subTest(name):
                self.assertEqual(origin, {flag: value for flag, value in files[name].items() if flag in DECIDING})


class Examples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.cifar = os.environ.get("DDPRUN_CIFAR_DIR")
        if not cls.cifar:
            cls.cifar = cls.root
            kit_test.make_cifar10(cls.root)
        given = os.environ.get("DDPRUN_TINY_IMAGENET_DIR")
        cls.tiny = pathlib.Path(given) if given else make_tiny_imagenet(cls.root / "tiny-imagenet-200")
        link_as_image_folder(cls.tiny, cls.root / "imagenet")
        with tarfile.open(cls.root / "tiny.tar", "w") as archive:
            archive.add(cls.tiny, "tiny-imagenet-200")

    def lines_of(self, name, *overrides, world=2):
        """What rank 0 prints, and what the others print."""
        results = jobs.Run(
            [jobs.DDPTRAIN, "--config", str(EXAMPLES / f"{name}.yaml"), *SMALL, *overrides], world).wait()
        for status, _, err in results:
            self.assertEqual(0, status, err)
        return results[0][1].splitlines(), [line for _, out, _ in results[1:] for line in out.splitlines()]

    def assert_some(self, pattern, lines, times=None):
        found = [line for line in lines if re.fullmatch(pattern, line)]
        self.assertTrue(found, (pattern, lines))
        if times is not None:
            self.assertEqual(times, len(found), lines)

    def trained_as_by_python(self, name, *small, data, dropped=()):
        """Trains the example unchanged, except for `small`, and Python's DDP with the flags that determine its results."""
        settings = settings_of(EXAMPLES / f"{name}.yaml")
        decides = [f"--{flag}={value:g}" if isinstance(value, float) else f"--{flag}={value}"
                   for flag, value in settings.items() if flag in DECIDING and flag not in dropped]
        commands = (
            [jobs.DDPTRAIN, "--config", str(EXAMPLES / f"{name}.yaml"), *small, *data, "log-style=plain"],
            [*jobs.PYTHON_PEER, *decides, *(f"--{word}" for word in (*small, *data))])
        told = []
        for number, command in enumerate(commands):
            metrics = self.root / f"{name}-{number}.jsonl"
            results = jobs.Run([*command, "--metrics-file", str(metrics)], 2).wait()
            weights = jobs.final(results)["weights_sha256"]
            records = jobs.records(metrics)
            told.append({
                "losses": [record["loss"] for record in records if record["event"] == "step"],
                "validation": [round(record["accuracy"], 4) for record in records if record["event"] == "validation"],
                "weights": weights})
        self.assertEqual(*told)
        return told[0]

    def test_crusoe_mnist_has_the_numbers_of_its_origin(self):
        dataset, directory = jobs.find_data()
        self.trained_as_by_python("crusoe_mnist", "epochs=2", "limit-train-samples=256", "limit-test-samples=16",
                                  data=(f"dataset={dataset}", f"data-dir={directory}"))

    def test_mila_cifar10_has_the_numbers_of_its_origin_which_leaves_the_samplers_seed_at_0(self):
        told = self.trained_as_by_python(
            "mila_cifar10", "epochs=2", "batch-size=8", "limit-train-samples=64", "limit-test-samples=32",
            data=("dataset=cifar10", f"data-dir={self.cifar}"), dropped=("transforms",))
        self.assertEqual(2, len(told["validation"]))

    def test_every_file_is_tried(self):
        tried = re.findall(r'lines_of\(\s*"(\w+)"', pathlib.Path(__file__).read_text())
        self.assertEqual(sorted(path.stem for path in EXAMPLES.glob("*.yaml")), sorted(set(tried)))

    def test_crusoe_mnist(self):
        dataset, directory = jobs.find_data()
        lines, _ = self.lines_of("crusoe_mnist", f"dataset={dataset}", f"data-dir={directory}")
        self.assert_some(r"Starting distributed training on 2 GPUs", lines, 1)
        self.assert_some(r"Epoch [12] - Avg Loss: \d+\.\d{6}, Accuracy: \d+\.\d{2}%", lines, 2)
        self.assert_some(r"Training completed!", lines, 1)

    def test_crusoe_vit(self):
        lines, _ = self.lines_of("crusoe_vit", "model=crusoe_vit_tiny", "image-size=32", "warmup-epochs=1")
        self.assert_some(r"Model parameters: [\d,]+", lines, 1)
        self.assert_some(r"Epoch \d \[\d+/\d+\] Loss: \d+\.\d{6} Speed: \d+\.\d{2} samples/sec", lines)

    def test_kaust_tiny_imagenet(self):
        for data in (self.tiny, self.root / "tiny.tar"):
            with self.subTest(data):
                lines, _ = self.lines_of(
                    "kaust_tiny_imagenet", f"data-dir={data}", "model=resnet18", "image-size=32",
                    "amp=off", f"tensorboard-dir={self.root / 'runs'}")
                self.assert_some(r"\[Rank 0\] World size: +2", lines, 1)
                runs = re.escape(str(self.root / "runs"))
                self.assertRegex(
                    lines[0], rf"^\[Rank 0\] TensorBoard logging to: {runs}/ddp_resnet18_\d{{8}}-\d{{6}}$")
                written = pathlib.Path(lines[0].split(": ", 1)[1])
                self.assertTrue(list(written.glob("events.out.tfevents.*")), written)
                self.assert_some(
                    r"Epoch \[\d/2\] LR: \d\.\d{6} \| Loss \(train, val\): \d+\.\d{3}, \d+\.\d{3} \| "
                    r"Accuracy \(train, val\): \d+\.\d{2}%, \d+\.\d{2}% \| Throughput: \d+\.\d img/s", lines, 2)
                self.assert_some(r"Finished Training", lines, 1)

    def test_mila_cifar10(self):
        lines, others = self.lines_of("mila_cifar10", f"data-dir={self.cifar}")
        self.assert_some(r".*Epoch \d: Val loss: \d+\.\d{3} accuracy: \d+\.\d{2}%.*", lines, 2)

    def test_mila_imagenet(self):
        lines, others = self.lines_of(
            "mila_imagenet", f"data-dir={self.root / 'imagenet'}", "model=resnet18", "image-size=32")
        self.assert_some(
            r"Epoch \d: Val loss: \d+\.\d{3} accuracy: \d+\.\d{2}% samples/sec: \d+\.\d", lines, 2)
        self.assert_some(r"Done in \d+\.\d seconds, with \d+\.\d images/second", lines, 1)
        self.assert_some(r"Done in .*", others, 1)

    def test_mila_imagenet_on_fake_data(self):
        lines, _ = self.lines_of(
            "mila_imagenet", "dataset=fake", "model=vit_b_32", "image-size=32", "validation-share=0.25")
        self.assert_some(r"Done in .*", lines, 1)

    def test_mila_imagenet_records_for_wandb_what_its_variables_say(self):
        files = {}
        for mode in ("offline", "disabled"):
            directory = self.root / mode
            jobs.final(jobs.Run(
                [jobs.DDPTRAIN, "--config", str(EXAMPLES / "mila_imagenet.yaml"), *SMALL, "dataset=fake",
                 "model=linear", "image-size=32", "log-style=plain", f"wandb-dir={directory}"], 1,
                {"WANDB_MODE": mode, "WANDB_PROJECT": "a-project", "WANDB_RUN_GROUP": "a-group",
                 "WANDB_RUN_ID": "id7"}).wait())
            files[mode] = list(directory.rglob("*.wandb"))
        self.assertEqual([], files["disabled"])
        (file,) = files["offline"]
        self.assertEqual("run-id7.wandb", file.name)
        self.assertRegex(file.parent.name, r"^offline-run-\d{8}_\d{6}-id7$")
        for text in (b"a-project", b"a-group"):
            self.assertIn(text, file.read_bytes())

    def test_a_flag_comes_before_a_variable_of_wandb_and_all_flags_are_recorded(self):
        dataset, data = jobs.find_data()
        directory = self.root / "by-flag"
        jobs.final(jobs.Run(
            [jobs.DDPTRAIN, "--dataset", dataset, "--data-dir", data, "--limit-train-samples", "64",
             "--wandb-dir", str(directory), "--wandb-run-id", "mine", "--wandb-project", "ours",
             "--wandb-group", "together"], 1, {"WANDB_RUN_ID": "id7", "WANDB_PROJECT": "a-project"}).wait())
        content = (next(directory.rglob("run-mine.wandb"))).read_bytes()
        for text in (b"ours", b"together", b"limit_train_samples", b"warmup_epochs", b"effective_batch_size"):
            self.assertIn(text, content)
        self.assertNotIn(b"a-project", content)

    def test_a_model_that_costs_nothing_shows_the_loaders_ceiling(self):
        for model in ("dummy", "linear"):
            metrics = self.root / f"{model}.jsonl"
            lines, _ = self.lines_of(
                "mila_imagenet", f"data-dir={self.root / 'imagenet'}", f"model={model}", "log-style=plain",
                f"metrics-file={metrics}")
            told = [line for line in lines if line.startswith("ceiling ")]
            final = jobs.records(metrics)[-1]
            if model == "linear":
                self.assertEqual([], told)
                self.assertNotIn("loader_samples_per_s", final)
                continue
            loader, training = final["loader_samples_per_s"], final["training_samples_per_s"]
            self.assertEqual(
                [f"ceiling loader_samples_per_s={loader:.0f} training_samples_per_s={training:.0f}"], told)
            self.assertGreater(training, loader)
            self.assertGreater(loader, 0)

    def bar_of(self, name, *overrides):
        """What a single run draws on a terminal, after each carriage return."""
        terminal, ours = pty.openpty()
        command = [jobs.DDPTRAIN, "--config", str(EXAMPLES / f"{name}.yaml"), *SMALL, *overrides]
        environment = {k: v for k, v in os.environ.items() if k not in jobs.RANK_VARIABLES}
        run = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=ours)
        os.close(ours)
        drawn = b""
        try:
            while piece := os.read(terminal, 4096):
                drawn += piece
        except OSError:  # the other side is closed
            pass
        os.close(terminal)
        self.assertEqual(0, run.wait(), drawn)
        return drawn.decode().replace("\x1b[K", "").split("\r")

    def test_mila_imagenet_shows_samples_on_a_terminal(self):
        drawn = self.bar_of("mila_imagenet", "dataset=fake", "model=resnet18", "image-size=32", "sync-bn=false")
        self.assert_some(
            r"Train epoch 2/2: 100%\|█{10}\| \d+/\d+ \[\d\d:\d\d<00:00, +\d+\.\d\dsamples/s, "
            r"loss=\d+\.\d{3}, accuracy=\d+\.\d\d%\]", drawn, 1)

    def test_other_styles_show_steps_on_a_terminal(self):
        drawn = self.bar_of("mila_cifar10", f"data-dir={self.cifar}")
        self.assert_some(r"epoch 1 \[#{30}\] \d+/\d+ loss \d+\.\d{4}", drawn, 1)

    def test_openacc_cifar10(self):
        lines, others = self.lines_of("openacc_cifar10", f"data-dir={self.cifar}", "epochs=12")
        self.assert_some(r"Local Rank: 0, Epoch: \d+, Training \.\.\.", lines, 12)
        self.assert_some(r"Local Rank: 1, Epoch: \d+, Training \.\.\.", others, 12)
        told = [number for number, line in enumerate(lines) if "Accuracy" in line]
        self.assertEqual(2, len(told), lines)
        for epoch, at in zip((0, 10), told):
            self.assertEqual("-" * 75, lines[at - 1])
            self.assertRegex(lines[at], rf"^Epoch: {epoch}, Accuracy: [01]\.\d+$")
            self.assertEqual("-" * 75, lines[at + 1])


if __name__ == "__main__":
    unittest.main(verbosity=2)
