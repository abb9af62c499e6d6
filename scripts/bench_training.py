#!/usr/bin/env python3
"""Training speed, start-up and recovery of ddptrain, beside plain Python DDP in the same run.

    .venv/bin/python scripts/bench_training.py [--bin build/release/bin] [--repeats 5] [--json FILE]

Same torch, threads, data and kernels on both sides, in turns, so that a busy machine hits both.
Prints a Markdown table of medians; --json keeps the single figures.
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

import drill_test  # noqa: E402
import jobs  # noqa: E402

FLAGS = ["--model", "convnet", "--limit-train-samples", "3200", "--limit-test-samples", "10",
         "--epochs", "1"]


def inflate(target):
    """The data set as plain IDX files, so that start-up is not the time of inflating."""
    dataset, directory = jobs.find_data()
    for source in pathlib.Path(directory).glob("*ubyte*"):
        with gzip.open(source) if source.suffix == ".gz" else open(source, "rb") as file:
            (target / source.name.removesuffix(".gz")).write_bytes(file.read())
    return ["--dataset", dataset, "--data-dir", str(target)]


class Bench:
    def __init__(self, options, directory):
        self.directory = directory
        self.programs = {
            "ddptrain": [str(pathlib.Path(options.bin, "ddptrain"))], "Python": jobs.PYTHON_PEER}
        self.ddprun = str(pathlib.Path(options.bin, "ddprun"))
        self.data = inflate(directory)
        self.repeats = options.repeats
        self.figures = {}

    def note(self, what, who, value):
        self.figures.setdefault(what, {}).setdefault(who, []).append(value)

    def train_once(self, who, world):
        """Samples per second of one epoch, and seconds from exec to the first step."""
        metrics = self.directory / "metrics.jsonl"
        metrics.unlink(missing_ok=True)
        began = time.time()
        results = jobs.Run(
            [*self.programs[who], *FLAGS, *self.data, "--batch-size", str(64 // world),
             "--metrics-file", str(metrics)], world).wait()
        jobs.final(results)
        records = jobs.records(metrics)
        first = next(r for r in records if r["event"] == "step")
        epoch = next(r for r in records if r["event"] == "epoch")
        self.note(f"samples/s, world {world}", who, epoch["samples_per_s"])
        self.note(f"exec to first step, world {world} (s)", who, first["time_s"] - began)

    def kill_once(self, who):
        """Seconds from SIGKILL of rank 1 under ddprun until rank 0 has done a step again. All ranks
        have then, since a step ends with a collective."""
        directory = pathlib.Path(tempfile.mkdtemp(dir=self.directory))
        steps = drill_test.Steps(str(directory / "steps"))
        snapshots = ["--snapshot-dir", str(directory / "snapshots"), "--snapshot-every-steps", "10"]
        launcher = subprocess.Popen(
            [self.ddprun, "--standalone", "--nproc-per-node", "2", "--max-restarts", "1",
             "--no-python", *self.programs[who], *FLAGS, *self.data, "--batch-size", "32",
             "--metrics-file", steps.path, *(snapshots if who == "ddptrain" else [])],
            env=os.environ | jobs.ENVIRONMENT, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        steps.wait_for(event="step", step=15)
        victim = drill_test.workers_of(launcher.pid)[1]
        killed = time.time()
        os.kill(victim, signal.SIGKILL)
        # Rank 0 may still have finished the step under way; the first of the new attempt is the 1st,
        # or with snapshots the one behind the snapshot.
        record = steps.wait_for(event="step", step=11 if who == "ddptrain" else 1)
        self.note("kill to first step of all ranks, world 2 (s)", who, record["time_s"] - killed)
        threading.Thread(target=steps.file.read, daemon=True).start()
        launcher.wait()
        shutil.rmtree(directory)

    def run(self):
        for _ in range(self.repeats):
            for world in (1, 2):
                for who in self.programs:
                    self.train_once(who, world)
            if pathlib.Path(self.ddprun).exists():
                for who in self.programs:
                    self.kill_once(who)

    def table(self):
        lines = ["| figure | ddptrain | Python DDP | ratio |", "|---|---:|---:|---:|"]
        for what, by in self.figures.items():
            ours, theirs = (statistics.median(by[who]) for who in ("ddptrain", "Python"))
            digits = 0 if ours >= 100 else 3
            lines.append(f"| {what} | {ours:,.{digits}f} | {theirs:,.{digits}f} | {ours / theirs:.2f} |")
        return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", default=str(ROOT / "build/release/bin"))
    parser.add_argument("--repeats", type=int, default=5)
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
