"""Fails in its first attempt; a new group and an empty store let the second one work."""

import os
import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
store = dist.distributed_c10d._get_default_store()
seen = store.add(f"ranks of attempt {attempt}", 1)
dist.barrier()
if attempt == 0 and dist.get_rank() == 1:
    os._exit(9)
total = torch.ones(1)
dist.all_reduce(total)
left_over = store.check(["ranks of attempt 0"]) if attempt > 0 else False
sys.stdout.write(f"rank {dist.get_rank()} attempt {attempt} sum {total.item()} old {left_over}\n")
dist.destroy_process_group()
