"""A DDP training without an end, which writes down when it ran, in the way of tests/support/round_worker:

    ddp_until_told.py LOG STOP NOTES
"""

import os
import socket
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

LOG, STOP, NOTES = sys.argv[1:4]
WHO = " ".join(["", os.environ["DDPRUN_TERM"], os.environ["DDPRUN_ROUND"],
                socket.gethostname(), os.environ["RANK"], str(os.getpid())])


def tell(path):
    """One write per line, so that lines of two ranks never mix."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{time.clock_gettime_ns(time.CLOCK_BOOTTIME)}{WHO}\n".encode())
    os.close(file)


def main():
    tell(LOG)
    dist.init_process_group("gloo")
    model = DistributedDataParallel(nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    tell(NOTES)
    is_told = torch.zeros(1)
    while not is_told:
        optimizer.zero_grad()
        model(torch.randn(4, 8)).square().mean().backward()
        optimizer.step()
        tell(LOG)
        is_told[0] = os.path.exists(STOP)
        dist.all_reduce(is_told)  # all end at the same step
    tell(LOG)
    os._exit(0)  # torch's threads may abort an exit in order when their peers go first


if __name__ == "__main__":
    main()
