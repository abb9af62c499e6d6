"""Trains with DDP until the rank `culprit` hangs in its step `when`, in one `way`; the second attempt ends well.

    hang.py WAY CULPRIT WHEN
"""

import os
import signal
import sys
import threading
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

way, culprit, when = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rank = int(os.environ["RANK"])
step = 0


class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 400 if way == "busy" else 1_000_000

    def __getitem__(self, index):
        if way == "loader" and hangs():
            time.sleep(1000)
        return torch.ones(4)


def hangs():
    return rank == culprit and step == when


def read_fifo():
    path = f"{os.environ['TMPDIR']}/fifo{os.getpid()}"
    os.mkfifo(path)
    open(path).read()


def lock_twice():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def spin():
    while True:
        pass


def pause():
    import ddprun
    with ddprun.busy("evaluating", 600):
        time.sleep(5)


def hang_after_pause():
    import ddprun
    with ddprun.busy("evaluating", 600):
        time.sleep(3)
    read_fifo()


def leave():
    """The connections to the other ranks stay open."""
    if os.fork() == 0:
        os.setsid()
        time.sleep(1000)
    os._exit(0)


WAYS = {"after_pause": hang_after_pause, "exit": leave,
        "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP), "fifo": read_fifo, "lock": lock_twice, "spin": spin,
        "late": lambda: time.sleep(4), "busy": pause}


def main():
    global step
    dist.init_process_group("gloo")
    if os.environ["TORCHELASTIC_RESTART_COUNT"] != "0":
        return
    model = DistributedDataParallel(torch.nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in torch.utils.data.DataLoader(Samples()):
        step += 1
        if hangs() and way in WAYS:
            WAYS[way]()
        optimizer.zero_grad()
        model(batch).sum().backward()
        if way == "skip" and hangs():
            dist.barrier()
        else:
            dist.all_reduce(torch.ones(1))
        optimizer.step()
        time.sleep(0.01)


main()
