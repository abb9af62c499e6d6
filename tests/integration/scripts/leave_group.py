"""Ends with process groups that were not destroyed, and a collective in progress: the interpreter's own end may abort."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
groups = [dist.new_group() for _ in range(4)]
for work in [dist.all_reduce(torch.ones(1 << 18), group=group, async_op=True) for group in groups]:
    work.wait()
dist.all_reduce(torch.ones(1 << 20), async_op=True)
