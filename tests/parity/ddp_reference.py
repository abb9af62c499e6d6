"""Plain Python DDP: the peer that ddptrain is compared with, in bits and in speed.

Takes those of ddptrain's flags that it needs, and prints ddptrain's last line (with the training
loss and accuracy of the last epoch). Start it alone, or once per rank with RANK, WORLD_SIZE,
MASTER_ADDR and MASTER_PORT set, as ddprun and torchrun do.
"""

import argparse
import contextlib
import gzip
import hashlib
import json
import os
import pathlib
import sys
import time

import numpy
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, Subset, TensorDataset, random_split

import model_peers

AUTOCAST = {"off": None, "bf16": torch.bfloat16, "fp16": torch.float16}
NORMALISATION = {"mnist": (0.1307, 0.3081), "fashion-mnist": (0.2860, 0.3530)}


SHAPES = {"cifar10": (3, 32, 10), "tiny-imagenet": (3, 224, 200)}  # channels, side, classes


def make_model(options):
    """The model that `--model` names, from the seed."""
    channels, side, classes = SHAPES.get(options.dataset, (1, 28, 10))
    torch.manual_seed(options.seed)
    return model_peers.make(options.model, channels, side, classes)


def read_bytes(directory, stem, header):
    plain = pathlib.Path(directory, stem)
    data = plain.read_bytes() if plain.exists() else gzip.open(f"{plain}.gz").read()
    return torch.from_numpy(numpy.frombuffer(data, numpy.uint8)[header:].copy())


def limit(options):
    """How many samples are read: all, if some of them are held out first."""
    return None if options.validation_share else options.limit_train_samples


def load_cifar10(options):
    files = sorted(pathlib.Path(options.data_dir).glob("data_batch_*.bin"))
    records = numpy.concatenate([numpy.frombuffer(f.read_bytes(), numpy.uint8) for f in files])
    records = torch.from_numpy(records.reshape(-1, 3073)[:limit(options)].copy())
    images = records[:, 1:].view(-1, 3, 32, 32).float().div_(255)
    return TensorDataset(images, records[:, 0].long())


def load_tiny_imagenet(options):
    from torchvision import datasets, transforms  # not at the top: the other data sets need none

    steps = [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
             transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))]
    data = datasets.ImageFolder(f"{options.data_dir}/train", transforms.Compose(steps))
    return Subset(data, range(limit(options) or len(data)))


def hold_out(options, data):
    """The training and held-out parts of random_split; the first samples of both."""
    shares = (1 - options.validation_share, options.validation_share)
    parts = random_split(data, shares, torch.Generator().manual_seed(options.validation_seed))
    limits = (options.limit_train_samples, options.limit_test_samples)
    return [Subset(part, range(most or len(part))) for part, most in zip(parts, limits)]


def load(options):
    if options.dataset == "cifar10":
        return load_cifar10(options)
    if options.dataset == "tiny-imagenet":
        return load_tiny_imagenet(options)
    images = read_bytes(options.data_dir, "train-images-idx3-ubyte", 16).view(-1, 1, 28, 28)
    labels = read_bytes(options.data_dir, "train-labels-idx1-ubyte", 8)
    count = limit(options) or len(labels)
    mean, deviation = NORMALISATION[options.dataset]
    images = images[:count].float().div_(255).sub_(mean).div_(deviation)
    return TensorDataset(images, labels[:count].long())


def weights_sha256(model):
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().cpu().numpy().tobytes())
    return digest.hexdigest()


def register_compression(model, kind):
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
    hooks = {"fp16": default_hooks.fp16_compress_hook, "bf16": default_hooks.bf16_compress_hook}
    if kind in hooks:
        model.register_comm_hook(None, hooks[kind])


def make_optimizer(options, parameters):
    decay = {} if options.weight_decay is None else {"weight_decay": options.weight_decay}
    kinds = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "adadelta": torch.optim.Adadelta}
    if options.optimizer == "sgd":
        return torch.optim.SGD(parameters, lr=options.learning_rate, momentum=options.momentum, **decay)
    return kinds[options.optimizer](parameters, lr=options.learning_rate, **decay)


def make_schedule(options, optimizer):
    if options.schedule == "step":
        return torch.optim.lr_scheduler.StepLR(optimizer, options.step_size, options.gamma)
    return None


def join(options):
    backend = "cpu:gloo,cuda:nccl" if options.device == "cuda" else "gloo"
    if "WORLD_SIZE" in os.environ:
        dist.init_process_group(backend)
    else:
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)


def choose_device(options):
    """As ddptrain: the GPU of the local rank, without TF32."""
    if options.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
        torch.backends.cudnn.deterministic = True
    if options.device == "cpu":
        return torch.device("cpu")
    torch.backends.cudnn.allow_tf32 = False
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    return device


class Metrics:
    def __init__(self, path):
        self.file = open(path, "a", buffering=1) if path and dist.get_rank() == 0 else None

    def write(self, event, **fields):
        if self.file:
            record = {"event": event, "time_s": time.time(), **fields}
            self.file.write(json.dumps(record) + "\n")


def save(options, epoch, step, net, optimizer):
    """As most scripts do, and at once. `epoch` is the one to resume with. Returns the time it took, in
    seconds."""
    if not options.snapshot_dir or step % options.snapshot_every_steps or dist.get_rank() != 0:
        return 0.0
    began = time.monotonic()
    directory = pathlib.Path(options.snapshot_dir)
    directory.mkdir(parents=True, exist_ok=True)
    torch.save({"epoch": epoch, "step": step, "model": net.state_dict(),
                "optimizer": optimizer.state_dict()}, directory / "checkpoint.tmp")
    os.replace(directory / "checkpoint.tmp", directory / "checkpoint.pt")
    return time.monotonic() - began


def resume(options, net, optimizer):
    """As most scripts do. Returns the epoch to resume with, and the steps that are done."""
    if not options.resume:
        return options.first_epoch, 0
    saved = torch.load(options.resume, weights_only=True)
    net.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    return saved["epoch"], saved["step"]


def tally(loss, output, labels):
    """For a batch: its loss times its samples, the number of correct samples, the number of samples."""
    right = output.argmax(1).eq(labels).sum().item()
    return torch.tensor([loss.item() * len(labels), right, len(labels)], dtype=torch.float64)


def train(options):
    torch.set_num_threads(options.num_threads)
    device = choose_device(options)
    data = load(options)
    if options.validation_share:
        data, held_out = hold_out(options, data)
    sampler_seed = options.seed if options.sampler_seed is None else options.sampler_seed
    sampler = DistributedSampler(data, shuffle=True, seed=sampler_seed)
    net = make_model(options).to(device)
    model = DistributedDataParallel(
        net, find_unused_parameters=options.find_unused, static_graph=options.static_graph,
        bucket_cap_mb=options.bucket_cap_mb)
    register_compression(model, options.compress)
    optimizer = make_optimizer(options, model.parameters())
    schedule = make_schedule(options, optimizer)
    scaler = torch.amp.GradScaler(device.type, enabled=options.amp == "fp16")
    loader = DataLoader(data, batch_size=options.batch_size, sampler=sampler, num_workers=options.workers,
                        pin_memory=device.type == "cuda")
    metrics = Metrics(options.metrics_file)

    first, step = resume(options, net, optimizer)
    snapshot_s = 0.0
    for epoch in range(first, options.first_epoch + options.epochs):
        began = time.monotonic()
        sampler.set_epoch(epoch)
        sums = torch.zeros(3, dtype=torch.float64)
        optimizer.zero_grad()
        for number, batch in enumerate(loader):
            images, labels = (part.to(device, non_blocking=True) for part in batch)
            is_last = (number + 1) % options.accumulate == 0 or number + 1 == len(loader)
            with contextlib.nullcontext() if is_last else model.no_sync():
                with torch.autocast(device.type, AUTOCAST[options.amp] or torch.bfloat16,
                                    enabled=options.amp != "off"):
                    output = model(images)
                    loss = model_peers.loss_of(options.model, output, labels)
                scaler.scale(loss / options.accumulate if options.accumulate > 1 else loss).backward()
            sums += tally(loss, output, labels)
            if not is_last:
                continue
            if options.clip_norm:
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(model.parameters(), options.clip_norm)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            step += 1
            metrics.write("step", epoch=epoch, step=step, loss=loss.item(), snapshot_s=snapshot_s)
            next_epoch = epoch + (number + 1 == len(loader))
            snapshot_s = save(options, next_epoch, step, net, optimizer)
        if schedule:
            schedule.step()
        dist.all_reduce(sums)
        loss, accuracy, count = sums[0] / sums[2], 100 * sums[1] / sums[2], sums[2].item()
        metrics.write("epoch", epoch=epoch, step=step, loss=loss.item(), accuracy=accuracy.item(),
                      samples=count, samples_per_s=count / (time.monotonic() - began))
        if options.validation_share:
            metrics.write("validation", epoch=epoch, step=step, **validate(options, model, held_out, device))
    if dist.get_rank() == 0:
        print(f"final epoch={epoch} step={step} loss={loss:.6f} accuracy={accuracy:.4f} "
              f"weights_sha256={weights_sha256(net)}", flush=True)


def validate(options, model, held_out, device):
    """Loss and accuracy in percent, of all ranks; each takes its share, in order."""
    sums = torch.zeros(3, dtype=torch.float64)
    model.eval()
    sampler = DistributedSampler(held_out, shuffle=False)
    with torch.no_grad():
        for batch in DataLoader(held_out, batch_size=options.batch_size, sampler=sampler):
            images, labels = (part.to(device) for part in batch)
            output = model(images)
            loss = model_peers.loss_of(options.model, output, labels)
            sums += tally(loss, output, labels)
    model.train()
    dist.all_reduce(sums)
    return {"loss": (sums[0] / sums[2]).item(), "accuracy": (100 * sums[1] / sums[2]).item()}


def parse(arguments):
    parser = argparse.ArgumentParser()
    parser.add_argument("--dataset", choices=[*NORMALISATION, *SHAPES], default="fashion-mnist")
    parser.add_argument("--data-dir")
    parser.add_argument("--model", default="convnet")
    parser.add_argument("--optimizer", default="sgd")
    parser.add_argument("--weight-decay", type=float)
    parser.add_argument("--schedule", default="constant")
    parser.add_argument("--step-size", type=int, default=30)
    parser.add_argument("--gamma", type=float, default=0.1)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--clip-norm", type=float)
    parser.add_argument("--amp", choices=AUTOCAST, default="off")
    parser.add_argument("--find-unused", action="store_true")
    parser.add_argument("--static-graph", action="store_true")
    parser.add_argument("--bucket-cap-mb", type=int)
    parser.add_argument("--compress", default="none")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--first-epoch", type=int, default=0)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--learning-rate", type=float, default=0.01)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sampler-seed", type=int, help="default: that of --seed")
    parser.add_argument("--validation-share", type=float, default=0.0)
    parser.add_argument("--validation-seed", type=int, default=42)
    parser.add_argument("--limit-train-samples", type=int)
    parser.add_argument("--limit-test-samples", type=int, help="of those held out; there is no other test here")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--snapshot-dir")
    parser.add_argument("--snapshot-every-steps", type=int, default=100)
    parser.add_argument("--resume", help="a file that was saved so")
    parser.add_argument("--num-threads", type=int, default=1)
    parser.add_argument("--metrics-file")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--deterministic", action="store_true")
    parser.add_argument("--jobs", help="a file with the flags of one job in each line")
    return parser.parse_args(arguments)


def main():
    """All jobs in one process: to import torch and torchvision takes longer than most of them."""
    options = parse(sys.argv[1:])
    jobs = [options]
    if options.jobs:
        lines = pathlib.Path(options.jobs).read_text().splitlines()
        jobs = [parse(line.split()) for line in lines]
    join(options)
    for job in jobs:
        train(job)
    dist.barrier()
    # Without torch's teardown: about one exit in ten aborts in it ("terminate called without
    # an active exception"), after the result was printed.
    os._exit(0)


if __name__ == "__main__":
    main()
