"""Measures images per second of our loader and of torchvision's, without training, on the same files:

    bench_loader.py DATA_DIR [--workers 1 2] [--batch-size 64] [--preset tiny-train] [--runs 3]
                    [--archive FILE.tar] [--program build/release/bin/loader_bench]

DATA_DIR has a folder `train` with a folder for each class. torchvision uses ImageFolder, the same
transforms and a DataLoader with as many persistent workers; one epoch warms up the workers and the
file cache. The runs of both take turns. Needs a Python with torchvision.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

import torch
from torch.utils.data import DataLoader
from torchvision import datasets, transforms as T

ROOT = pathlib.Path(__file__).resolve().parent.parent
NORMALIZE = T.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
PRESETS = {
    "tiny-train": [T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ToTensor(), NORMALIZE],
    "tiny-eval": [T.Resize(256), T.CenterCrop(224), T.ToTensor(), NORMALIZE],
}


class Theirs:
    def __init__(self, options, workers):
        dataset = datasets.ImageFolder(f"{options.data_dir}/train",
                                       T.Compose(PRESETS[options.preset]))
        self.loader = DataLoader(dataset, batch_size=options.batch_size, shuffle=True,
                                 num_workers=workers, persistent_workers=workers > 0)
        self.epoch()

    def epoch(self):
        """Images per second of one epoch."""
        began = time.perf_counter()
        images = sum(len(labels) for _, labels in self.loader)
        return images / (time.perf_counter() - began)


def ours(options, data_dir, workers):
    words = [options.program, data_dir, options.preset, options.batch_size, workers]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["images_per_s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("data_dir")
    parser.add_argument("--archive")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--preset", choices=PRESETS, default="tiny-train")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--program", default=ROOT / "build/release/bin/loader_bench")
    options = parser.parse_args()
    torch.set_num_threads(1)

    for workers in options.workers:
        theirs = Theirs(options, workers)
        rows = {"torchvision": [], "ddprun, folder": []}
        if options.archive:
            rows["ddprun, archive"] = []
        for _ in range(options.runs):
            rows["torchvision"].append(theirs.epoch())
            rows["ddprun, folder"].append(ours(options, options.data_dir, workers))
            if options.archive:
                rows["ddprun, archive"].append(ours(options, options.archive, workers))
        base = statistics.median(rows["torchvision"])
        for name, figures in rows.items():
            median = statistics.median(figures)
            print(f"workers {workers}  {name:16}  {median:8.1f} images/s  "
                  f"({min(figures):.1f} to {max(figures):.1f})  {median / base:.2f} x")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
