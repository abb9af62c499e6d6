#!/usr/bin/env python3
"""Measures how fast Python DDP scripts start and restart under ddprun, with workers that are forked and executed.

    bench_python.py --ddprun PROGRAM --python INTERPRETER_WITH_TORCH [--kills 100] [--cold-kills 10]
                    [--torchrun-kills 3] [--runs 5] [--json FILE]

Prints Markdown tables. The peers are torchrun and, in a world of 1, plain Python. All are measured in the same run and
in turns, so that a busy machine slows all of them. Timings are CLOCK_BOOTTIME; a worker takes its own after its first
optimizer step and a barrier. Ratios and differences are medians of those of one turn. Other processes that use torch
lower every PSS. --json also writes every single figure.
"""

import argparse
import collections
import contextlib
import ctypes
import json
import math
import os
import pathlib
import select
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from bench_agent import descendants, memory_kib, now_ns, percentile

PRELOAD, COLD, TORCHRUN, PLAIN = "ddprun --preload auto", "ddprun", "torchrun", "plain Python"
LAUNCHERS = (PRELOAD, COLD, TORCHRUN)
WORKERS = 8  # of a start
PAIR = 2  # of a restart
TURNS = 3  # the jobs of each launcher among which kills are divided
TRAINING_S = 0.3  # from the first step of an attempt to the kill
PATIENCE_S = 90  # a first step that takes longer does not come
PR_SET_CHILD_SUBREAPER = 36

# The scripts of the workers, in parts. Only a forked worker has torch before it imports it.
HEAD = """\
import os
import sys
import time

is_forked = "torch" in sys.modules

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

notes, hold = sys.argv[1:]
dist.init_process_group("gloo")
"""
CONV_NET = """
net = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * 7 * 7, 10))
inputs, labels = torch.randn(64, 1, 28, 28), torch.randint(10, (64,))
"""
LINEAR = """
net = nn.Linear(28, 10)
inputs, labels = torch.randn(64, 28), torch.randint(10, (64,))
"""
FIRST_STEP = """
model = DistributedDataParallel(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)


def step():
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(inputs), labels).backward()
    optimizer.step()


step()
dist.barrier()
now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
with open(notes, "w") as file:
    file.write(f"{attempt} {dist.get_rank()} {os.getpid()} {now} {int(is_forked)}\\n")
"""
TRAIN_ON = """
while True:
    step()
"""
HOLD = """
with open(hold, "rb", buffering=0) as file:
    file.read(1)
dist.destroy_process_group()
"""
TRAINING = HEAD + CONV_NET + FIRST_STEP + TRAIN_ON
ONE_STEP = HEAD + LINEAR + FIRST_STEP + HOLD

Note = collections.namedtuple("Note", "attempt rank pid stepped_ns is_forked")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def command_of(way, options, workers, restarts):
    """What is put before the script, and the variables that it needs."""
    flags = ["--standalone", "--nproc-per-node", str(workers), "--max-restarts", str(restarts)]
    if way == PLAIN:
        world = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        return [options.python], world
    if way == TORCHRUN:
        return [options.python, "-m", "torch.distributed.run", *flags], {}
    return [options.ddprun, *(["--preload", "auto"] if way == PRELOAD else []), *flags], {}


def make_fifo(path):
    """Its path, and a descriptor with which neither end of it waits to be opened."""
    os.mkfifo(path)
    return str(path), os.open(path, os.O_RDWR)


def end_descendants():
    """Kills what a job left behind. This process adopts orphans below it, so that none of them is missed."""
    while len(left := descendants(os.getpid())) > 1:
        for pid in left[1:]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, 0)


class Job:
    """A launcher, its workers, and their files in a directory of its own. Ends with its `with` block."""

    def __init__(self, way, options, script, workers, restarts=0):
        self.way, self.workers = way, workers
        self.directory = tempfile.TemporaryDirectory(prefix="ddprun_bench_")
        home = pathlib.Path(self.directory.name)
        (home / "script.py").write_text(script)
        self.notes_path, self.notes = make_fifo(home / "notes")
        self.hold_path, self.hold = make_fifo(home / "hold")
        self.stderr = home / "stderr"
        prefix, variables = command_of(way, options, workers, restarts)
        environment = os.environ | variables | {
            "OMP_NUM_THREADS": "1", "PYTHON_EXEC": options.python, "TMPDIR": str(home)}
        with open(self.stderr, "w") as errors:
            self.began = now_ns()
            self.launcher = subprocess.Popen(
                [*prefix, "script.py", self.notes_path, self.hold_path], cwd=home, env=environment,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.launcher.poll() is None:
            self.launcher.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.launcher.wait(timeout=60)
        end_descendants()
        self.launcher.wait()
        os.close(self.notes)
        os.close(self.hold)
        self.directory.cleanup()

    def fail(self, what):
        sys.exit(f"{self.way}: {what}\n{self.stderr.read_text()[-2000:]}")

    def next_first_step(self):
        """The notes of the next attempt of which all workers made a step, by rank. None: it does not come."""
        attempts = collections.defaultdict(dict)
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until and self.launcher.poll() is None:
            if not select.select([self.notes], [], [], 0.1)[0]:
                continue
            for line in os.read(self.notes, 65536).splitlines():  # whole lines: each was one small write
                note = Note(*map(int, line.split()))
                attempts[note.attempt][note.rank] = note
                if len(attempts[note.attempt]) == self.workers:
                    return attempts[note.attempt]
        return None

    def first_step(self):
        notes = self.next_first_step()
        if notes is None:
            self.fail(f"no first step within {PATIENCE_S} s")
        if any(note.is_forked != (self.way == PRELOAD) for note in notes.values()):
            self.fail("workers are executed that are to be forked, or the reverse")
        return notes

    def let_end(self):
        """Lets the workers end by themselves."""
        os.write(self.hold, b"." * self.workers)
        if self.launcher.wait(timeout=PATIENCE_S) != 0:
            self.fail(f"status {self.launcher.returncode}")


def last_ns(notes):
    return max(note.stepped_ns for note in notes.values())


def kills_of_one_job(way, options, kills, victim):
    """Of up to `kills` kills, of rank `victim` first: milliseconds from the kill to the first step of all workers, and
    the attempts that it took. Both are None in the last one if that step did not come."""
    restarts = []
    with Job(way, options, TRAINING, PAIR, restarts=10 + 2 * kills) as job:
        notes = job.first_step()
        while len(restarts) < kills:
            time.sleep(TRAINING_S)
            last = notes[(victim + len(restarts)) % PAIR]
            killed = now_ns()
            os.kill(last.pid, signal.SIGKILL)
            notes = job.next_first_step()
            if notes is None:
                print(f"{way}: no restart; its status is {job.launcher.poll()}", file=sys.stderr)
                return [*restarts, {"ms": None, "attempts": None}]
            restarts.append({"ms": (last_ns(notes) - killed) / 1e6, "attempts": notes[0].attempt - last.attempt})
    return restarts


def measure_restarts(options):
    """{launcher: [figures of each kill]}; in turns. After a kill without a restart comes a new job."""
    kills = {PRELOAD: options.kills, COLD: options.cold_kills, TORCHRUN: options.torchrun_kills}
    restarts = {way: [] for way in LAUNCHERS}
    for turn in range(1, TURNS + 1):
        for way, done in restarts.items():
            print(f"restarts, turn {turn} of {TURNS}: {way}", file=sys.stderr)
            while (left := kills[way] * turn // TURNS - len(done)) > 0:
                done += kills_of_one_job(way, options, left, len(done) % PAIR)
    return restarts


def pss_mib(pids):
    """The sum of the PSS of processes. One that has just ended has none."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError, StopIteration):
            total += memory_kib(pid)[1]
    return total / 1024


def start(way, options, workers):
    """Milliseconds from the spawn of the launcher to the first step of all workers, which are held until the memory
    of the job is measured: PSS of the launcher and all its descendants."""
    with Job(way, options, ONE_STEP, workers) as job:
        notes = job.first_step()
        family = descendants(job.launcher.pid)
        memory = pss_mib(family)
        if not {note.pid for note in notes.values()} <= set(family):
            job.fail("a worker is not a descendant of the launcher")
        job.let_end()
    return {"ms": (last_ns(notes) - job.began) / 1e6, "pss_mib": memory, "processes": len(family)}


def measure_starts(options, ways, workers):
    """{launcher: [figures of each run]}; in turns."""
    starts = {way: [] for way in ways}
    for run in range(1, options.runs + 1):
        print(f"starts of {workers}, run {run} of {options.runs}", file=sys.stderr)
        for way, done in starts.items():
            done.append(start(way, options, workers))
    return starts


def measure(options):
    for way in (*LAUNCHERS, PLAIN):  # pages in what would otherwise slow down the first start
        start(way, options, 1)
    return {"restart": measure_restarts(options), "start": measure_starts(options, LAUNCHERS, WORKERS),
            "alone": measure_starts(options, (*LAUNCHERS, PLAIN), 1)}


def that_came(restarts):
    return [restart for restart in restarts if restart["ms"] is not None]


def times(restarts):
    """Milliseconds; of a restart that did not come, infinitely many."""
    return [math.inf if restart["ms"] is None else restart["ms"] for restart in restarts]


def seconds(milliseconds):
    return f"none in {PATIENCE_S} s" if math.isinf(milliseconds) else f"{milliseconds / 1e3:.3f} s"


def median_of(runs, figure):
    return statistics.median(run[figure] for run in runs)


def beside(starts, way, peer, figure, compare):
    """The median of what `compare` makes of `way` and `peer` in one turn."""
    return statistics.median(
        compare(mine[figure], theirs[figure]) for mine, theirs in zip(starts[way], starts[peer], strict=True))


def ratio(mine, theirs):
    return mine / theirs


def longer(mine, theirs):
    return mine - theirs


def restart_rows(restarts):
    """(what, {launcher: figure})"""
    def each(figure):
        return {way: seconds(figure(times(done))) for way, done in restarts.items() if done}

    what = f"kill of one of {PAIR} → first step of all"
    yield f"{what}, median", each(statistics.median)
    yield "the same, p95", each(lambda took: percentile(took, 0.95))
    yield "the same, worst", each(max)
    yield f"restarts within {PATIENCE_S} s, of kills", {
        way: f"{len(that_came(done))} of {len(done)}" for way, done in restarts.items()}
    yield "attempts of these that failed by themselves", {
        way: str(sum(restart["attempts"] - 1 for restart in that_came(done))) for way, done in restarts.items()}


def start_rows(starts, alone):
    """(what, {launcher: figure})"""
    yield f"spawn → first step of {WORKERS}, median of {len(starts[PRELOAD])}", {
        way: seconds(median_of(done, "ms")) for way, done in starts.items()}
    yield "the same, of torchrun's", {
        way: f"{beside(starts, way, TORCHRUN, 'ms', ratio):.2f} ×" for way in (PRELOAD, COLD)}
    yield "PSS of launcher, workers and fork server then, median", {
        way: f"{median_of(done, 'pss_mib'):.0f} MiB" for way, done in starts.items()}
    yield "the same, of torchrun's", {
        way: f"{beside(starts, way, TORCHRUN, 'pss_mib', ratio):.2f} ×" for way in (PRELOAD, COLD)}
    yield f"spawn → first step of 1, median of {len(alone[PLAIN])}", {
        way: seconds(median_of(done, "ms")) for way, done in alone.items()}
    yield "the same, longer than plain Python by", {
        way: f"{beside(alone, way, PLAIN, 'ms', longer):.0f} ms" for way in LAUNCHERS}


def targets(result):
    """(what, measured, limit, how both are printed)"""
    restart, starts, alone = times(result["restart"][PRELOAD]), result["start"], result["alone"]
    if restart:
        yield f"restart, {PRELOAD}, median", statistics.median(restart), 150, seconds
        yield f"restart, {PRELOAD}, worst", max(restart), 300, seconds
    for figure, what in (("ms", "time"), ("pss_mib", "PSS")):
        share = beside(starts, PRELOAD, TORCHRUN, figure, ratio)
        yield f"start of {WORKERS}, {PRELOAD}: {what}, of torchrun's", share, 1 / 3, "{:.2f} ×".format
    for workers, runs in ((WORKERS, starts), (1, alone)):
        share = beside(runs, COLD, TORCHRUN, "ms", ratio)
        yield f"start of {workers}, {COLD}: time, of torchrun's", share, 1, "{:.2f} ×".format
    for way in (COLD, PRELOAD):
        more = beside(alone, way, PLAIN, "ms", longer)
        yield f"start of 1, {way}: longer than plain Python by", more, 50, "{:.0f} ms".format


def print_table(head, rows):
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def show(result):
    ways = (*LAUNCHERS, PLAIN)
    rows = [*restart_rows(result["restart"]), *start_rows(result["start"], result["alone"])]
    print_table(("figure", *ways), [(what, *(by.get(way, "") for way in ways)) for what, by in rows])
    print_table(("target", "measured", "wanted", "met"), [
        (what, text(value), f"≤ {text(limit)}", "yes" if value <= limit else "no")
        for what, value, limit, text in targets(result)])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ddprun", required=True, type=os.path.abspath)
    parser.add_argument("--python", required=True, type=os.path.abspath, help="an interpreter with torch")
    parser.add_argument("--kills", type=int, default=100, help="of workers of ddprun --preload auto")
    parser.add_argument("--cold-kills", type=int, default=10, help="of workers that ddprun executes")
    parser.add_argument("--torchrun-kills", type=int, default=3)
    parser.add_argument("--runs", type=int, default=5, help="starts with each launcher")
    parser.add_argument("--json", help="also write every figure to this file")
    options = parser.parse_args()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # an exception, so that jobs are ended
    result = measure(options)
    show(result)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
