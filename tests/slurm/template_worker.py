"""The worker that the tests run with slurm/templates: prints its rank, and trains a little with DDP.

    template_worker.py [--light] [--steps N] [--tell FIFO] [--wait-for go|snapshot|restart] [--file FILE] ...

Without torch, or with --light, nothing is trained. With --wait-for, it reports its progress on
the FIFO, and waits: for a byte of FILE; for SIGTERM, after which it saves to FILE and resumes from it the next
time; or until it is ended, but in later rounds for a byte.
"""

import argparse
import hashlib
import importlib.util
import json
import os
import pathlib
import signal
import socket
import sys

RANK = os.environ["RANK"]
ENVIRONMENT = ("RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS",
               "GLOO_SOCKET_IFNAME", "SLURM_RESTART_COUNT")


def say(*words):
    """One write per line, so that lines of two ranks never mix."""
    os.write(1, (" ".join(words) + "\n").encode())


class Training:
    def __init__(self, snapshot):
        import torch
        from torch.nn.parallel import DistributedDataParallel
        self.torch = torch
        torch.distributed.init_process_group("gloo")
        torch.manual_seed(7)
        self.inputs = torch.randn(int(os.environ["WORLD_SIZE"]), 8, 4)[int(RANK)]
        self.net = torch.nn.Linear(4, 1)
        if snapshot:
            self.net.load_state_dict(torch.load(snapshot))
        self.model = DistributedDataParallel(self.net)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def run(self, steps):
        for _ in range(steps):
            self.optimizer.zero_grad()
            self.model(self.inputs).square().mean().backward()
            self.optimizer.step()

    def save(self, file):
        self.torch.save(self.net.state_dict(), file)

    def weights(self):
        values = b"".join(values.detach().numpy().tobytes() for values in self.net.parameters())
        return hashlib.sha256(values).hexdigest()


class NoTraining:
    def run(self, steps):
        pass

    def save(self, file):
        file.write_text("nothing was trained")

    def weights(self):
        return "-"


def wait(options, training):
    options.tell.write_text(f"{RANK} {socket.gethostname()}\n")
    is_restarted = options.wait_for == "restart" and "DDPRUN_PREV_WORLD_SIZE" in os.environ
    if options.wait_for == "go" or is_restarted:
        with open(options.file, "rb", buffering=0) as file:
            file.read(1)
    elif options.wait_for == "snapshot":
        signal.sigwait({signal.SIGTERM})
        if RANK == "0":
            training.save(options.file)
        say("saved")
        os._exit(0)
    else:
        signal.pause()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--light", action="store_true")
    parser.add_argument("--fail", action="store_true")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--tell", type=pathlib.Path)
    parser.add_argument("--wait-for", choices=("go", "snapshot", "restart"))
    parser.add_argument("--file", type=pathlib.Path)
    options, _ = parser.parse_known_args()
    if options.wait_for == "snapshot":
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    who = {name: os.environ.get(name) for name in ENVIRONMENT}
    say("who", json.dumps(who | {"host": socket.gethostname(), "arguments": sys.argv[1:]}))
    if options.fail and RANK == "1":
        sys.exit(7)

    snapshot = options.wait_for == "snapshot" and options.file.exists() and options.file
    has_torch = importlib.util.find_spec("torch") and not options.light
    training = Training(snapshot) if has_torch else NoTraining()
    training.run(options.steps)
    if options.wait_for and not snapshot:
        wait(options, training)
    say(f"rank {RANK} weights={training.weights()}")
    os._exit(0)  # torch's threads may abort an exit in order when their peers go first


if __name__ == "__main__":
    main()
