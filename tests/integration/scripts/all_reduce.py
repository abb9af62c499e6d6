"""The sum over all ranks by Gloo, which connects every rank with every other one."""

import datetime
import os
import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
total = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(total)
names = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
told = " ".join(os.environ.get(name, "-") for name in names)
sys.stdout.write(f"rank {dist.get_rank()} sum {total.item()} interfaces {told}\n")
sys.stdout.flush()
dist.destroy_process_group()
