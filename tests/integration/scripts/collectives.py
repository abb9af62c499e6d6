"""One of each collective that Gloo has, and the store used directly."""

import os
import sys

import torch
import torch.distributed as dist


def say(text):
    sys.stdout.write(f"rank {os.environ['RANK']} {text}\n")
    sys.stdout.flush()


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()

    total = torch.arange(4.0) * (rank + 1)
    dist.all_reduce(total)
    say(f"all_reduce {total.tolist()}")

    gathered = [torch.zeros(2) for _ in range(world)]
    dist.all_gather(gathered, torch.tensor([float(rank), rank * rank * 0.5]))
    say(f"all_gather {[part.tolist() for part in gathered]}")

    objects = [None] * world
    dist.all_gather_object(objects, {"rank": rank, "local": int(os.environ["LOCAL_RANK"])})
    say(f"all_gather_object {objects}")

    news = [f"from rank {world - 1}" if rank == world - 1 else None]
    dist.broadcast_object_list(news, src=world - 1)
    say(f"broadcast {news[0]}")

    # A second group with its own connections, and keys of the script's own.
    evens = dist.new_group(list(range(0, world, 2)))
    if rank % 2 == 0:
        count = torch.ones(1)
        dist.all_reduce(count, group=evens)
        say(f"new_group {count.item()}")
    store = dist.distributed_c10d._get_default_store()
    store.add("visitors", 1)
    store.set(f"name/{rank}", f"n{rank}")
    dist.barrier()
    say(f"store {store.add('visitors', 0)} {store.get(f'name/{(rank + 1) % world}').decode()}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
