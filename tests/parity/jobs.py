"""Starts ranks by hand, the way an agent does, and reads what they report."""

import json
import os
import pathlib
import re
import subprocess
import sys

import torch.distributed as dist

HERE = pathlib.Path(__file__).resolve().parent
DDPTRAIN = os.environ.get("DDPTRAIN", str(HERE.parents[1] / "build/release/bin/ddptrain"))
PYTHON_PEER = [sys.executable, str(HERE / "ddp_reference.py")]

# One thread, and the kernels with which the table of tests/parity/expected.json was created: on newer
# processors torch would use others, with other bits.
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_CBWR": "AVX2",
}
# The processor's own kernels. bf16 on those for AVX2 is 35 times slower than float32.
OWN_KERNELS = {"OMP_NUM_THREADS": "1"}
RANK_VARIABLES = ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"]
WAIT_S = 600


def find_data():
    """(dataset, directory): MNIST from DDPRUN_MNIST_DIR, else Debian's Fashion-MNIST."""
    mnist = os.environ.get("DDPRUN_MNIST_DIR", "")
    if mnist and pathlib.Path(mnist, "train-images-idx3-ubyte.gz").exists():
        return "mnist", mnist
    fashion = os.environ.get("DATA_DIR", "/usr/share/datasets/fashion-mnist")
    if not pathlib.Path(fashion).is_dir():
        raise FileNotFoundError(
            f"no data: neither DDPRUN_MNIST_DIR ('{mnist}') nor '{fashion}' holds the IDX files; "
            "apt-get install dataset-fashion-mnist, or set DATA_DIR")
    return "fashion-mnist", fashion


class Run:
    """The ranks of one running job. The store is in this process, on any free port."""

    def __init__(self, command, world, extra_environment=None, kernels=ENVIRONMENT):
        self.store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        self.ranks = []
        for rank in range(world):
            environment = {k: v for k, v in os.environ.items() if k not in RANK_VARIABLES}
            environment |= kernels | (extra_environment or {})
            environment |= {
                "RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": str(rank),
                "LOCAL_WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(self.store.port), "TORCHELASTIC_USE_AGENT_STORE": "True"}
            self.ranks.append(subprocess.Popen(
                command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                text=True))

    def wait(self):
        """[(exit status, stdout, stderr)] by rank; a status is -n for signal n."""
        try:
            outputs = [rank.communicate(timeout=WAIT_S) for rank in self.ranks]
        finally:
            for rank in self.ranks:
                rank.kill()
                rank.wait()
        return [(rank.returncode, *output) for rank, output in zip(self.ranks, outputs)]


def final(results):
    """The fields of rank 0's last line; raises when a rank failed."""
    for rank, (status, out, err) in enumerate(results):
        if status != 0:
            raise AssertionError(f"rank {rank} ended with {status}\n{out}\n{err}")
    last = results[0][1].strip().splitlines()[-1]
    return dict(re.findall(r"(\S+?)=(\S+)", last))


def python_hashes(directory, jobs, world, kernels=ENVIRONMENT):
    """The weights' hash that Python has after each of `jobs`, lists of flags; all in one process for each rank."""
    file = pathlib.Path(directory, f"jobs-{world}")
    file.write_text("".join(" ".join(job) + "\n" for job in jobs))
    results = Run([*PYTHON_PEER, "--jobs", str(file)], world, kernels=kernels).wait()
    final(results)
    return [line.split("weights_sha256=")[1] for line in results[0][1].splitlines()]


def kernels(results):
    """The result of at::get_cpu_capability() in ddptrain."""
    return re.search(r"kernels=(\S+)", results[0][1]).group(1)


def records(path):
    return [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]
