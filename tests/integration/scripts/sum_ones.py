"""Counts the ranks by an all-reduce in the group that the arguments say how to find."""

import argparse
import os

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--init-method", required=True)
init_method = parser.parse_args().init_method

rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
dist.init_process_group("gloo", init_method=init_method, rank=rank, world_size=world_size)
ones = torch.ones(1)
dist.all_reduce(ones)
assert ones.item() == world_size, ones
assert dist.is_torchelastic_launched()
