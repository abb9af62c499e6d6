#!/usr/bin/env python3
"""Measures how many lines per second reach the log files, with redirect and with tee.

    bench_logs.py --programs DIRECTORY [--out DIRECTORY] [--lines 500000] [--runs 3] [--no-peer]

Eight workers write lines of 100 bytes in blocks of 8 KiB, as a buffered stdout does, under ddprun
and under torchrun of the Python that runs this script, in turns. A bare run, in which the shell opens
the files, is the floor. The time starts at the first worker's first write and ends when the last line
is in its file and the launcher has ended; for the floor and redirect, when the last worker has ended.
The script checks that every log has every line.

Prints a Markdown table; with --out also writes logs.md and logs.json there.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

WORKERS = 8
LINE_BYTES = 100

WORKER = """
import os, sys, time
lines, notes, rank = int(sys.argv[1]), sys.argv[2], os.environ.get("RANK", sys.argv[-1])
line = (rank + ":").ljust(99, "x").encode() + b"\\n"
block = line * 81
began = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
for _ in range(lines // 81):
    os.write(1, block)
os.write(1, line * (lines % 81))
ended = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
with open(os.path.join(notes, rank), "w") as note:
    note.write(f"{began} {ended}")
"""


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Room:
    """A directory for one run: the worker, its notes, the logs."""

    def __init__(self, lines):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="ddprun_bench_logs_"))
        self.lines = lines
        self.notes = self.path / "notes"
        self.notes.mkdir()
        self.logs = self.path / "logs"
        self.worker = self.path / "worker.py"
        self.worker.write_text(WORKER)
        self.console = self.path / "console"

    def command(self):
        return [sys.executable, "-I", "-S", str(self.worker), str(self.lines), str(self.notes)]

    def began_and_ended(self):
        notes = [[int(word) for word in note.read_text().split()] for note in self.notes.iterdir()]
        if len(notes) != WORKERS:
            sys.exit(f"{len(notes)} of {WORKERS} workers have ended well")
        return min(note[0] for note in notes), max(note[1] for note in notes)

    def check_logs(self):
        sizes = [log.stat().st_size for log in self.logs.rglob("stdout.log")]
        if sizes != [self.lines * LINE_BYTES] * WORKERS:
            sys.exit(f"lines are missing in the logs: {sizes}")

    def shown(self):
        """Number of complete lines on the console, and of all lines there."""
        whole = everything = 0
        with open(self.console, "rb") as console:
            for line in console:
                everything += 1
                body = line.split(b"]:", 1)[-1]
                whole += len(body) == LINE_BYTES and body.endswith(b"x\n")
        return whole, everything

    def remove(self):
        shutil.rmtree(self.path)


def bare(lines):
    """Lines per second if a worker writes directly to its file."""
    room = Room(lines)
    workers = []
    for rank in range(WORKERS):
        directory = room.logs / str(rank)
        directory.mkdir(parents=True)
        with open(directory / "stdout.log", "wb") as log:
            workers.append(subprocess.Popen([*room.command(), str(rank)], stdout=log))
    if any([worker.wait() for worker in workers]):
        sys.exit("a bare worker failed")
    began, ended = room.began_and_ended()
    room.check_logs()
    room.remove()
    return {"lines_per_s": WORKERS * lines / ((ended - began) / 1e9)}


def launched(launcher, mode, lines):
    room = Room(lines)
    flag = {"redirect": "-r", "tee": "-t"}[mode]
    with open(room.console, "wb") as console:
        subprocess.run(
            [*launcher, "--nproc-per-node", str(WORKERS), flag, "1", "--log-dir", str(room.logs)]
            + ["--no-python", *room.command()],
            stdout=console,
            check=True,
        )
    over = now_ns()
    began, ended = room.began_and_ended()
    room.check_logs()
    whole, everything = room.shown()
    room.remove()
    stopped = over if mode == "tee" else ended
    return {
        "lines_per_s": WORKERS * lines / ((stopped - began) / 1e9),
        "console_lines_whole": whole,
        "console_lines": everything,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", required=True, type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--lines", type=int, default=500_000, help="of each worker")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--no-peer", action="store_true", help="leave torchrun out")
    asked = parser.parse_args()

    launchers = {"ddprun": [str((asked.programs / "ddprun").resolve())]}
    if not asked.no_peer:
        launchers["torchrun"] = [sys.executable, "-m", "torch.distributed.run"]
    figures = {"no launcher": [bare(asked.lines) for _ in range(asked.runs)]}
    for mode in ("redirect", "tee"):
        for name, launcher in launchers.items():
            figures[f"{name}, {mode}"] = [
                launched(launcher, mode, asked.lines) for _ in range(asked.runs)
            ]

    table = [
        f"{WORKERS} workers, {asked.lines:,} lines of {LINE_BYTES} bytes each, "
        f"median of {asked.runs} runs.",
        "",
        "| | lines/s | lowest | console: whole lines of all |",
        "|---|---|---|---|",
    ]
    for name, runs in figures.items():
        rates = [run["lines_per_s"] for run in runs]
        shown = ""
        if "tee" in name:
            shown = f"{runs[-1]['console_lines_whole']:,} of {WORKERS * asked.lines:,}"
        median = statistics.median(rates)
        table.append(f"| {name} | {median:,.0f} | {min(rates):,.0f} | {shown} |")
    text = "\n".join(table) + "\n"
    print(text, end="")
    if asked.out:
        asked.out.mkdir(parents=True, exist_ok=True)
        (asked.out / "logs.md").write_text(text)
        (asked.out / "logs.json").write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
