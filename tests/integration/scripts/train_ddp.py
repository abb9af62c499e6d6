"""An ordinary DDP training on Gloo, independent of its launcher."""

import hashlib
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def say(text):
    # One write per line, so that lines of two ranks never mix.
    sys.stdout.write(f"rank {os.environ['RANK']} {text}\n")
    sys.stdout.flush()


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()

    torch.manual_seed(7)
    inputs = torch.randn(96, 10)
    targets = (inputs[:, 0] * inputs[:, 1] > 0).long()
    dataset = TensorDataset(inputs, targets)
    sampler = DistributedSampler(dataset, seed=3)
    loader = DataLoader(dataset, batch_size=24 // world, sampler=sampler)

    model = DistributedDataParallel(
        nn.Sequential(nn.Linear(10, 32), nn.Dropout(0.1), nn.ReLU(), nn.Linear(32, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    for epoch in range(2):
        sampler.set_epoch(epoch)
        for step, (batch, labels) in enumerate(loader):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(batch), labels)
            loss.backward()
            optimizer.step()
            say(f"epoch {epoch} step {step} loss {loss.item():.9f}")

    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().numpy().tobytes())
    say(f"of {world} weights {digest.hexdigest()}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
