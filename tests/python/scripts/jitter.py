"""Trains with DDP for a while, in steps whose time jitters tenfold, with evaluation and saving in between.

    jitter.py SECONDS

Nothing is announced, and nothing hangs: a launcher that reports a hang is wrong. The longest pause in which no rank
moves is shorter than a minute; in a longer one rank 0 computes while the others wait, or all compute.
"""

import os
import random
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

EPOCH_STEPS = 200
PAUSE_S = 40
LONG_EVALUATION_S = 100  # every tenth


def compute(seconds):
    until = time.monotonic() + seconds
    matrix = torch.randn(200, 200)
    while time.monotonic() < until:
        matrix = torch.tanh(matrix @ matrix)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    until = time.monotonic() + float(sys.argv[1])
    model = DistributedDataParallel(torch.nn.Linear(16, 16))
    optimizer = torch.optim.AdamW(model.parameters())
    jitter = random.Random(rank)
    epoch, steps, slowest, fastest = 0, 0, 0, 1000
    goes_on = torch.ones(1)
    while goes_on.item():
        for _ in range(EPOCH_STEPS):
            began = time.monotonic()
            optimizer.zero_grad()
            model(torch.randn(8, 16)).square().sum().backward()
            optimizer.step()
            time.sleep(0.02 * 10 ** jitter.random())
            took = time.monotonic() - began
            steps, slowest, fastest = steps + 1, max(slowest, took), min(fastest, took)
        epoch += 1
        if epoch % 10 == 0:
            if rank == 0 or epoch % 20 == 0:
                compute(LONG_EVALUATION_S)
        elif epoch % 2:
            time.sleep(jitter.uniform(1, PAUSE_S))  # an evaluation that waits for other machines
        if rank == 0:
            torch.save(model.state_dict(), f"{os.environ.get('TMPDIR', '/tmp')}/jitter.pt")
            time.sleep(jitter.uniform(0, 5))
        goes_on.fill_(time.monotonic() < until)
        dist.broadcast(goes_on, 0)
    if rank == 0:
        print(f"{steps} steps in {epoch} epochs; a step took {fastest:.3f} to {slowest:.3f} s")


main()
