"""An image classifier with Python's DDP that saves a checkpoint at the end of each epoch, and resumes from it.

    checkpointed.py --data DIR --checkpoints DIR [--epochs N] [--samples N] [--pause-at EPOCH FIFO]

As users write it: independent of ddprun, and without signal handlers. A checkpoint has all that the next epoch
depends on, including the random state of every rank. With --pause-at a run that began without a checkpoint reports
on the FIFO that it is in the middle of that epoch, and waits until it is ended.
"""

import argparse
import gzip
import hashlib
import os
import pathlib
import random
import signal
import socket

import numpy
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

BATCH = 32


def say(text):
    """One write per line, so that lines of two ranks never mix."""
    os.write(1, f"{text}\n".encode())


def read_idx(file, header, count):
    """The first `count` entries of an IDX file, after its header."""
    size = 1 if header == 8 else 28 * 28
    with gzip.open(file) as packed:
        values = numpy.frombuffer(packed.read(header + count * size), numpy.uint8, offset=header)
    return torch.from_numpy(values.copy()).reshape(count, -1)


def read_split(data, name, count):
    images = read_idx(data / f"{name}-images-idx3-ubyte.gz", 16, count).reshape(count, 1, 28, 28) / 255
    return images, read_idx(data / f"{name}-labels-idx1-ubyte.gz", 8, count).flatten().long()


def make_model():
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, stride=2), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2), nn.ReLU(), nn.Flatten(),
        nn.Dropout(0.2), nn.Linear(16 * 6 * 6, 10))


def chance():
    return {"python": random.getstate(), "numpy": numpy.random.get_state(), "torch": torch.get_rng_state()}


def set_chance(state):
    random.setstate(state["python"])
    numpy.random.set_state(state["numpy"])
    torch.set_rng_state(state["torch"])


class Training:
    def __init__(self, options):
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.options = options
        torch.manual_seed(42)
        self.model = DistributedDataParallel(make_model())
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        for seed in (random.seed, numpy.random.seed, torch.manual_seed):
            seed(42 + self.rank)
        train = TensorDataset(*read_split(options.data, "train", options.samples))
        self.sampler = DistributedSampler(train, seed=7)
        self.loader = DataLoader(train, BATCH, sampler=self.sampler)
        self.valid = read_split(options.data, "t10k", options.samples // 4)
        self.epoch, self.best = 0, 0.0
        self.file = options.checkpoints / "checkpoint.pth"
        self.is_resumed = self.file.exists()
        if self.is_resumed:
            self.resume()

    def resume(self):
        state = torch.load(self.file, weights_only=False)
        self.epoch, self.best = state["epoch"] + 1, state["best_accuracy"]
        self.model.module.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        set_chance(state["chance"][self.rank])
        if self.rank == 0:
            say(f"resumed epoch={self.epoch}")

    def save(self):
        """Saves it atomically."""
        of_ranks = [None] * self.world
        dist.all_gather_object(of_ranks, chance())
        if self.rank == 0:
            new = self.file.with_suffix(".new")
            torch.save({"epoch": self.epoch, "best_accuracy": self.best, "chance": of_ranks,
                        "model": self.model.module.state_dict(), "optimizer": self.optimizer.state_dict()}, new)
            new.replace(self.file)
        dist.barrier()

    def augmented(self, images):
        flipped = images.flip(3) if random.random() < 0.5 else images
        return flipped * numpy.random.uniform(0.9, 1.1)

    def train_epoch(self):
        """Loss and accuracy over all samples of all ranks."""
        self.model.train()
        self.sampler.set_epoch(self.epoch)
        sums = torch.zeros(3, dtype=torch.float64)  # loss, correct ones, samples
        for step, (images, labels) in enumerate(self.loader):
            if step == len(self.loader) // 2:
                self.pause()
            scores = self.model(self.augmented(images))
            loss = nn.functional.cross_entropy(scores, labels)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            right = (scores.argmax(1) == labels).sum().item()
            sums += torch.tensor([loss.item() * len(labels), right, len(labels)])
        dist.all_reduce(sums)
        return (sums[0] / sums[2]).item(), (sums[1] / sums[2]).item()

    def pause(self):
        epoch, fifo = self.options.pause_at or (None, None)
        if self.is_resumed or epoch != str(self.epoch):
            return
        pathlib.Path(fifo).write_text(f"{self.rank} {socket.gethostname()}\n")
        signal.pause()

    @torch.no_grad()
    def accuracy(self):
        self.model.eval()
        images, labels = (part[self.rank::self.world] for part in self.valid)
        sums = torch.tensor([(self.model.module(images).argmax(1) == labels).sum(), len(labels)],
                            dtype=torch.float64)
        dist.all_reduce(sums)
        return (sums[0] / sums[1]).item()

    def run(self):
        while self.epoch < self.options.epochs:
            loss, accuracy = self.train_epoch()
            valid = self.accuracy()
            self.best = max(self.best, valid)
            if self.rank == 0:
                say(f"epoch={self.epoch} loss={loss!r} accuracy={accuracy!r} val_accuracy={valid!r}")
            self.save()
            self.epoch += 1
        weights = b"".join(values.detach().numpy().tobytes() for values in self.model.parameters())
        if self.rank == 0:
            say(f"final best={self.best!r} weights={hashlib.sha256(weights).hexdigest()}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True, type=pathlib.Path)
    parser.add_argument("--checkpoints", required=True, type=pathlib.Path)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--samples", type=int, default=640)
    parser.add_argument("--pause-at", nargs=2, metavar=("EPOCH", "FIFO"))
    options = parser.parse_args()
    options.checkpoints.mkdir(exist_ok=True)
    dist.init_process_group("gloo")
    Training(options).run()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
