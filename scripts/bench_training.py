#!/usr/bin/env python3
"""Measures training speed, start-up, recovery and snapshots of ddptrain and of plain Python DDP in one run.

    .venv/bin/python scripts/bench_training.py [--bin build/release/bin] [--repeats 5] [--json FILE]
        [--device cuda] [--cifar DIR] [--tiny-imagenet DIR] [--only WORKLOAD...]

Both sides use the same torch, threads, data and kernels, in turns, so that a busy machine slows both.
Without CIFAR-10 its records are noise, which takes as long; without Tiny-ImageNet its rows are skipped.
Prints Markdown tables of medians, and progress on stderr; --json also writes the single figures.
"""

import argparse
import gzip
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/parity"))

import torch  # noqa: E402

import drill_test  # noqa: E402
import jobs  # noqa: E402
import kit_test  # noqa: E402

MNIST_NET = "--model convnet --limit-train-samples 3200 --batch-size 64"
# Name: (flags of a world of 1, data set). The batch is divided among the ranks.
WORKLOADS = {
    "conv net, MNIST's size": (MNIST_NET, "idx"),
    "ResNet-18, CIFAR-10": ("--model resnet18 --limit-train-samples 640 --batch-size 64", "cifar10"),
    "ResNet-18, CIFAR-10, bf16": (
        "--model resnet18 --limit-train-samples 640 --batch-size 64 --amp bf16", "cifar10"),
    "small ViT, CIFAR-10, AdamW": (
        "--model crusoe_vit_tiny --optimizer adamw --learning-rate 0.001 --limit-train-samples 6400 "
        "--batch-size 64", "cifar10"),
    "dummy, Tiny-ImageNet's JPEGs, 1 worker": (
        "--model dummy --limit-train-samples 1280 --batch-size 64 --workers 1", "tiny-imagenet"),
    "ResNet-18, Tiny-ImageNet's JPEGs, 1 worker": (
        "--model resnet18 --limit-train-samples 128 --batch-size 32 --workers 1", "tiny-imagenet"),
}
SAVING = f"{MNIST_NET} --optimizer adam --learning-rate 0.001"
SAVE_EVERY = 10
MAX_STALL_MIB = 256  # copied but never written, for comparison with a bare memcpy


def inflate(target):
    """The data set as plain IDX files, so that start-up does not include decompression."""
    dataset, directory = jobs.find_data()
    for source in pathlib.Path(directory).glob("*ubyte*"):
        with gzip.open(source) if source.suffix == ".gz" else open(source, "rb") as file:
            (target / source.name.removesuffix(".gz")).write_bytes(file.read())
    return ["--dataset", dataset, "--data-dir", str(target)]


def make_cifar10(target):
    target.mkdir()
    kit_test.make_cifar10(target)
    return str(target)


class Bench:
    def __init__(self, options, directory):
        self.directory = directory
        self.options = options
        self.programs = {
            "ddptrain": [str(pathlib.Path(options.bin, "ddptrain"))], "Python": jobs.PYTHON_PEER}
        self.ddprun = str(pathlib.Path(options.bin, "ddprun"))
        cifar = options.cifar or make_cifar10(directory / "cifar")
        self.data = {"idx": inflate(directory), "cifar10": ["--dataset", "cifar10", "--data-dir", cifar]}
        if options.tiny_imagenet:
            self.data["tiny-imagenet"] = ["--dataset", "tiny-imagenet", "--data-dir", options.tiny_imagenet]
        self.workloads = {name: (flags.split(), data) for name, (flags, data) in WORKLOADS.items()
                          if data in self.data and (not options.only or name in options.only)}
        self.repeats = options.repeats
        # A world of 2 needs two GPUs.
        self.worlds = (1, 2) if options.device == "cpu" or torch.cuda.device_count() > 1 else (1,)
        self.figures = {}

    def note(self, what, who, value):
        self.figures.setdefault(what, {}).setdefault(who, []).append(value)

    def train(self, who, flags, data, world=1, more=()):
        """The records of one epoch, preceded by `began`."""
        metrics = self.directory / "metrics.jsonl"
        metrics.unlink(missing_ok=True)
        flags = list(flags)
        batch = flags.index("--batch-size") + 1
        flags[batch] = str(int(flags[batch]) // world)
        began = time.time()
        results = jobs.Run(
            [*self.programs[who], *flags, *self.data[data], "--device", self.options.device,
             "--limit-test-samples", "10",
             "--metrics-file", str(metrics), *more], world, kernels=jobs.OWN_KERNELS).wait()
        jobs.final(results)
        return began, jobs.records(metrics)

    def train_once(self, who, name, world):
        """Samples per second of one epoch, and seconds from exec to the first step."""
        flags, data = self.workloads[name]
        began, records = self.train(who, flags, data, world)
        first = next(r for r in records if r["event"] == "step")
        epoch = next(r for r in records if r["event"] == "epoch")
        self.note(f"{name}: samples/s, world {world}", who, epoch["samples_per_s"])
        if data == "idx":
            self.note(f"exec to first step, world {world} (s)", who, first["time_s"] - began)

    def save_once(self, who):
        """The cost of a snapshot every 10 steps: its stall, and the epoch compared with one without."""
        directory = pathlib.Path(tempfile.mkdtemp(dir=self.directory))
        saves = ["--snapshot-dir", str(directory / "snapshots"), "--snapshot-every-steps", str(SAVE_EVERY)]
        rates = {}
        for kind, more in (("without", ()), ("with", saves)):
            _, records = self.train(who, SAVING.split(), "idx", more=more)
            rates[kind] = next(r for r in records if r["event"] == "epoch")["samples_per_s"]
        self.note("a save every 10 steps: time an epoch takes more (%)", who,
                  100 * (rates["without"] / rates["with"] - 1))
        stalls = [r["snapshot_s"] for r in records if r["event"] == "step"]
        # A save begins after a step and is waited for in the next; the first one also allocates.
        of_saves = [1e3 * stalls[i] for i in range(SAVE_EVERY, len(stalls), SAVE_EVERY)][1:]
        self.note("stall of a save, Adam, 3.6 M values (ms)", who, statistics.median(of_saves))
        shutil.rmtree(directory)

    def kill_once(self, who):
        """Seconds from SIGKILL of rank 1 under ddprun until rank 0 has done a step again. All ranks
        have then, since a step ends with a collective."""
        directory = pathlib.Path(tempfile.mkdtemp(dir=self.directory))
        steps = drill_test.Steps(str(directory / "steps"))
        snapshots = ["--snapshot-dir", str(directory / "snapshots"), "--snapshot-every-steps", "10"]
        launcher = subprocess.Popen(
            [self.ddprun, "--standalone", "--nproc-per-node", "2", "--max-restarts", "1",
             "--no-python", *self.programs[who], *MNIST_NET.split(), "--limit-test-samples", "10",
             *self.data["idx"], "--device", self.options.device, "--batch-size", "32",
             "--metrics-file", steps.path, *(snapshots if who == "ddptrain" else [])],
            env=os.environ | jobs.OWN_KERNELS, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        steps.wait_for(event="step", step=15)
        victim = drill_test.workers_of(launcher.pid)[1]
        killed = time.time()
        os.kill(victim, signal.SIGKILL)
        # Rank 0 may still finish the current step. The new attempt begins with step 1, or with the step
        # after the snapshot.
        record = steps.wait_for(event="step", step=11 if who == "ddptrain" else 1)
        self.note("kill to first step of all ranks, world 2 (s)", who, record["time_s"] - killed)
        threading.Thread(target=steps.file.read, daemon=True).start()
        launcher.wait()
        shutil.rmtree(directory)

    def copy_once(self):
        """The stall of a large snapshot, and one memcpy of as many bytes."""
        done = subprocess.run(
            [str(pathlib.Path(self.options.bin, "snapshot_bench")), str(MAX_STALL_MIB)],
            capture_output=True, text=True, check=True)
        figures = json.loads(done.stdout)
        what = f"stall of {MAX_STALL_MIB} MiB that nothing hides (ms), beside a bare memcpy"
        self.note(what, "ddptrain", figures["stall_ms"])
        self.note(what, "Python", figures["memcpy_ms"])

    def run(self):
        for repeat in range(1, self.repeats + 1):
            for name in self.workloads:
                print(f"{repeat} of {self.repeats}: {name}", file=sys.stderr)
                for world in self.worlds:
                    for who in self.programs:
                        self.train_once(who, name, world)
            if self.options.only:
                continue
            print(f"{repeat} of {self.repeats}: snapshots and recovery", file=sys.stderr)
            for who in self.programs:
                self.save_once(who)
                if 2 in self.worlds:
                    self.kill_once(who)
            self.copy_once()

    def table(self):
        """Medians, also of the ratios, each of one turn: load on the machine slows both sides. A figure that is
        already a difference has no ratio, and its own range."""
        lines = ["| figure | ddptrain | Python DDP | ratio | its range |", "|---|---:|---:|---:|---:|"]
        for what, by in self.figures.items():
            ours, theirs = (statistics.median(by[who]) for who in ("ddptrain", "Python"))
            digits = 0 if ours >= 100 else 3
            if what.endswith("(%)"):
                ratio, spread = "", f"{min(by['ddptrain']):.1f} to {max(by['ddptrain']):.1f} %"
            else:
                ratios = [mine / peer for mine, peer in zip(by["ddptrain"], by["Python"], strict=True)]
                ratio, spread = f"{statistics.median(ratios):.2f}", f"{min(ratios):.2f} to {max(ratios):.2f}"
            lines.append(f"| {what} | {ours:,.{digits}f} | {theirs:,.{digits}f} | {ratio} | {spread} |")
        return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", default=str(ROOT / "build/release/bin"))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--cifar", default=os.environ.get("DDPRUN_CIFAR_DIR"))
    parser.add_argument("--tiny-imagenet", default=os.environ.get("DDPRUN_TINY_IMAGENET_DIR"))
    parser.add_argument("--only", nargs="+", choices=WORKLOADS)
    parser.add_argument("--json", help="also write the single figures here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(options, pathlib.Path(directory))
        bench.run()
    print(bench.table())
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(bench.figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
