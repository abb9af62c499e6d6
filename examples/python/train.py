"""Trains with DDP on CPUs or GPUs, resumes from its last snapshot, and saves one when the job is told to end:

    ddprun --standalone --nproc-per-node 2 --max-restarts 3 examples/python/train.py

Kill a worker, or press Ctrl-C and start it again. Plain `python examples/python/train.py` trains one process.
"""

import os
import sys

import ddprun
import torch
import torch.distributed as dist

STEPS, SAVE_EVERY, SNAPSHOT = 2000, 100, os.environ.get("SNAPSHOT", "snapshot.pt")
rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
device = f"cuda:{os.environ.get('LOCAL_RANK', 0)}" if torch.cuda.is_available() else "cpu"
if device != "cpu":
    torch.cuda.set_device(device)
if world > 1:
    dist.init_process_group("gloo" if device == "cpu" else "nccl")

# One rank reads, so that all resume from the same step.
snapshot = [torch.load(SNAPSHOT, map_location="cpu") if rank == 0 and os.path.exists(SNAPSHOT) else None]
if world > 1:
    dist.broadcast_object_list(snapshot)
[state] = snapshot
net = torch.nn.Sequential(torch.nn.Linear(10, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)).to(device)
model = torch.nn.parallel.DistributedDataParallel(net) if world > 1 else net
optimizer = torch.optim.AdamW(model.parameters())
if state:
    net.load_state_dict(state["net"])
    optimizer.load_state_dict(state["optimizer"])


def save(step):
    with ddprun.busy("saving", 60):
        torch.save({"step": step, "net": net.state_dict(), "optimizer": optimizer.state_dict()}, SNAPSHOT + ".new")
        os.replace(SNAPSHOT + ".new", SNAPSHOT)  # a snapshot is whole, or not there


with ddprun.PreemptionNotice() as notice:
    for step in range(state["step"] + 1 if state else 0, STEPS):
        inputs = torch.randn(32, 10, generator=torch.Generator().manual_seed(step * world + rank)).to(device)
        loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        stop = notice.should_stop()
        if rank == 0 and (stop or step % SAVE_EVERY == SAVE_EVERY - 1):
            save(step)
            print(f"step {step}: loss {loss.item():.4f}, saved", flush=True)
        if stop:
            sys.exit(ddprun.EXIT_PREEMPTED)
