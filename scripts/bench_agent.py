#!/usr/bin/env python3
"""Measures how fast a job starts and ends, how much memory ddprun uses, and how fast it detects a
killed worker and restarts all workers.

    bench_agent.py --ddprun PROGRAM --worker FAKE_WORKER [--python INTERPRETER_WITH_TORCH]
                   [--runs 50] [--kills 100] [--torchrun-runs 3] [--json FILE]

Prints a Markdown table. The peer (torchrun) and the floor (bare spawns) are measured in the same
run. Timings are CLOCK_BOOTTIME, which is also what ddprun writes to events.jsonl.
"""

import argparse
import json
import os
import pathlib
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

WORKERS = 8


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def percentile(values, part):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def timed(command):
    """Milliseconds from spawn to the end of `command`, which must succeed."""
    began = now_ns()
    pid = os.posix_spawn(command[0], command, os.environ)
    _, status = os.waitpid(pid, 0)
    took = now_ns() - began
    if status != 0:
        sys.exit(f"{command}: wait status {status}")
    return took / 1e6


def bare_spawns(program):
    """Milliseconds for WORKERS processes of `program` without any launcher."""
    began = now_ns()
    pids = [os.posix_spawn(program, [program], os.environ) for _ in range(WORKERS)]
    for pid in pids:
        os.waitpid(pid, 0)
    return (now_ns() - began) / 1e6


def descendants(pid):
    """`pid` and its descendants, from the kernel's lists of children."""
    found = [pid]
    for parent in found:
        try:
            for task in pathlib.Path(f"/proc/{parent}/task").iterdir():
                found += [int(child) for child in (task / "children").read_text().split()]
        except FileNotFoundError:
            pass
    return found


def memory_kib(pid):
    """(peak RSS, PSS) of a process in KiB."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    rollup = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    pss = next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
    return peak, pss


class Notes:
    """The FIFO by which fake workers report when they entered main."""

    def __init__(self, directory):
        self.path = str(pathlib.Path(directory) / "notes")
        os.mkfifo(self.path)
        self.file = os.open(self.path, os.O_RDWR)
        self.rest = b""

    def read(self, count):
        """[(rank, pid, entered_ns)] of the next `count` workers."""
        while self.rest.count(b"\n") < count:
            if not select.select([self.file], [], [], 30)[0]:
                sys.exit(f"only {self.rest!r} within 30 s")
            self.rest += os.read(self.file, 65536)
        lines = self.rest.split(b"\n")
        self.rest = b"\n".join(lines[count:])
        notes = []
        for line in lines[:count]:
            fields = dict(word.split("=") for word in line.decode().split()[1:])
            notes.append((int(fields["rank"]), int(fields["pid"]), int(fields["entered_ns"])))
        return notes


def measure_kills(options, directory):
    """One job of WORKERS workers, killed again and again. Milliseconds, and memory in KiB."""
    notes = Notes(directory)
    logs = pathlib.Path(directory) / "logs"
    command = [options.ddprun, "--nproc-per-node", str(WORKERS), "--max-restarts",
               str(options.kills), "--log-dir", str(logs), *options.no_python, "--",
               options.worker, "note", notes.path, "worker", "hang"]
    job = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    workers = notes.read(WORKERS)
    own = [pid for pid in descendants(job.pid) if pid not in {pid for _, pid, _ in workers}]
    killed, back = {}, []
    for kill in range(options.kills):
        _, pid, _ = workers[kill % WORKERS]
        killed[pid] = now_ns()
        os.kill(pid, signal.SIGKILL)
        workers = notes.read(WORKERS)
        back.append((max(entered for _, _, entered in workers) - killed[pid]) / 1e6)
    memory = [memory_kib(pid) for pid in own]
    job.send_signal(signal.SIGTERM)
    job.wait()
    (events,) = logs.glob("*/events.jsonl")
    known = []
    for line in events.read_text().splitlines():
        event = json.loads(line)
        if event["event"] == "worker_failed" and event["pid"] in killed:
            known.append((event["boottime_ns"] - killed[event["pid"]]) / 1e6)
    return {"back_ms": back, "known_ms": known, "processes": len(own),
            "peak_rss_mib": sum(peak for peak, _ in memory) / 1024,
            "pss_mib": sum(pss for _, pss in memory) / 1024}


def measure(options):
    true = shutil.which("true")
    job = [options.ddprun, "--nproc-per-node", str(WORKERS), *options.no_python, "--", true]
    timed(job)  # pages in what would otherwise slow down the first start
    result = {"ddprun_ms": [], "bare_ms": [], "torchrun_ms": []}
    for _ in range(options.runs):
        result["ddprun_ms"].append(timed(job))
        result["bare_ms"].append(bare_spawns(true))
    if options.python:
        peer = [options.python, "-m", "torch.distributed.run", "--standalone", "--no-python",
                "--nproc-per-node", str(WORKERS), true]
        result["torchrun_ms"] = [timed(peer) for _ in range(options.torchrun_runs)]
    with tempfile.TemporaryDirectory(prefix="ddprun_bench_") as directory:
        result.update(measure_kills(options, directory))
    return result


def rows(result):
    ddprun = statistics.median(result["ddprun_ms"])
    yield (f"start to exit of {WORKERS} × true, median", f"{ddprun:.1f} ms", "≤ 15 ms")
    yield (f"{WORKERS} bare spawns and waits, median",
           f"{statistics.median(result['bare_ms']):.1f} ms", "the floor")
    if result["torchrun_ms"]:
        peer = statistics.median(result["torchrun_ms"])
        yield ("the same under torchrun, median", f"{peer:.0f} ms", "")
        yield ("ddprun is faster by", f"{peer / ddprun:.0f} ×", "≥ 150 ×")
    yield (f"peak memory of the {result['processes']} ddprun processes, RSS (PSS)",
           f"{result['peak_rss_mib']:.1f} MiB ({result['pss_mib']:.1f} MiB)", "≤ 20 MB")
    back, known = result["back_ms"], result["known_ms"]
    yield (f"kill of one of {WORKERS} → all new ones in main, median of {len(back)}",
           f"{statistics.median(back):.1f} ms", "≤ 15 ms")
    yield ("the same, p99", f"{percentile(back, 0.99):.1f} ms", "≤ 50 ms")
    yield (f"death known to the agent, median of {len(known)}",
           f"{statistics.median(known):.2f} ms", "≤ 1 ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ddprun", required=True)
    parser.add_argument("--worker", required=True)
    parser.add_argument("--python", help="an interpreter with torch, for torchrun")
    parser.add_argument("--no-python", action="store_const", const=["--no-python"], default=[],
                        help="pass --no-python to the launcher")
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--torchrun-runs", type=int, default=3)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--json", help="also write every figure to this file")
    options = parser.parse_args()
    result = measure(options)
    print("| figure | measured | wanted |\n|---|---|---|")
    for what, measured, wanted in rows(result):
        print(f"| {what} | {measured} | {wanted} |")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
