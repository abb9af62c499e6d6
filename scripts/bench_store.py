#!/usr/bin/env python3
"""Measures the store and torch's TCPStore with libuv, with the same load generator in the same run,
with a bare epoll server as the floor, which only receives and sends as many bytes.

    bench_store.py --programs build/release/bin --out build/bench [--runs 5] [--scale 1.0]
                   [--workload NAME...]

Run it with a Python that has torch 2.11. Writes store.md and store.json. Servers take turns, so that
changes in load affect all of them; figures are medians of the runs.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

# Workload, clients, depth, operations, and the claim: (figure, relation, bound) of ours to libuv's.
CASES = (
    ("get", 64, 1, 200_000, ("operations_per_s", ">=", 1.0)),
    ("get", 1000, 1, 200_000, ("operations_per_s", ">=", 1.0)),
    ("get", 64, 32, 640_000, ("server_cpu_us_per_operation", "<=", 0.5)),
    ("set", 64, 32, 640_000, ("server_cpu_us_per_operation", "<=", None)),
    ("add", 64, 32, 640_000, ("server_cpu_us_per_operation", "<=", 0.5)),
    ("check", 64, 32, 640_000, ("server_cpu_us_per_operation", "<=", 0.5)),
    ("multi_get", 64, 1, 20_000, ("operations_per_s", ">=", 2.0)),
    ("wait_fanout", 256, 1, 51_200, ("operations_per_s", ">=", 2.0)),
    ("get64k", 64, 1, 20_000, ("operations_per_s", ">=", 2.0)),
    ("set64k", 64, 1, 20_000, ("operations_per_s", ">=", 2.0)),
)
FIGURES = ("operations_per_s", "latency_p50_us", "latency_p99_us", "server_cpu_us_per_operation",
           "client_cpu_us_per_operation")

# Torch's server resolves the name of each peer, which can take a tenth of a second per connection
# and would be measured. In a network namespace without a name service it does not wait.
NETWORK = ["unshare", "--map-root-user", "--net", "--"]
INSIDE = "DDPRUN_BENCH_NETWORK"

TORCH_SERVER = """
import signal
from datetime import timedelta
from torch.distributed import TCPStore
store = TCPStore("127.0.0.1", 0, None, True, timedelta(seconds=300), wait_for_workers=False,
                 use_libuv=True)
print("listening on port", store.port, flush=True)
signal.pause()
"""


class Server:
    """A server in its own process, which prints its port on its first line."""

    def __init__(self, name, command):
        self.name = name
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().split()[-1])

    def stop(self):
        self.process.terminate()
        self.process.wait()


def measure(ddpbench, server, workload, clients, depth, operations):
    done = subprocess.run(
        [ddpbench, "store", "--endpoint", f"127.0.0.1:{server.port}", "--workload", workload,
         "--clients", str(clients), "--depth", str(depth), "--ops", str(operations), "--json",
         "--server-pid", str(server.process.pid)],
        capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{server.name}, {workload}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def medians(reports):
    return {figure: statistics.median(report[figure] for report in reports) for figure in FIGURES}


def run_case(programs, servers, case, runs, scale):
    workload, clients, depth, operations, _ = case
    reports = {server.name: [] for server in servers} | {"bare": []}
    for _ in range(runs):
        # It tells its connections apart by their order, so each load has its own server.
        bare = Server("bare", [str(programs / "bare_store"), workload, str(clients), str(depth)])
        for server in [*servers, bare]:
            reports[server.name].append(
                measure(str(programs / "ddpbench"), server, workload, clients, depth,
                        max(clients, int(operations * scale))))
        bare.stop()
    return {name: medians(each) for name, each in reports.items()}


def ratio_text(result, claim):
    figure, relation, bound = claim
    ratio = result["ddprun"][figure] / result["libuv"][figure]
    wanted = "" if bound is None else f" (wanted {relation} {bound})"
    return f"{ratio:.2f} × {figure.replace('_', ' ')}{wanted}"


def table(results):
    lines = ["| workload | clients | depth | server | operations/s | p50 µs | p99 µs | server CPU µs/op "
             "| client CPU µs/op | ddprun to libuv |", "|" + "---|" * 10]
    for case, result in results:
        workload, clients, depth, _, claim = case
        for name, figures in result.items():
            values = " | ".join(f"{figures[figure]:,.{digits}f}" for figure, digits in
                                zip(FIGURES, (0, 1, 1, 3, 3)))
            ratio = ratio_text(result, claim) if name == "ddprun" else ""
            lines.append(f"| {workload} | {clients} | {depth} | {name} | {values} | {ratio} |")
    return "\n".join(lines) + "\n"


def enter_network():
    """Restarts this script in a network namespace with a loopback; continues here if that fails."""
    if INSIDE in os.environ:
        return
    if subprocess.run([*NETWORK, "ip", "link", "set", "lo", "up"], stderr=subprocess.DEVNULL).returncode:
        print("cannot create a network namespace: torch may wait for the name service",
              file=sys.stderr)
        return
    os.environ[INSIDE] = "1"
    script = 'ip link set lo up && exec "$@"'
    os.execvp(NETWORK[0], [*NETWORK, "sh", "-c", script, "sh", sys.executable, *sys.argv])


def main():
    enter_network()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--workload", nargs="*", help="only these; without it, all")
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of operations")
    arguments = parser.parse_args()
    ddpctl = str(arguments.programs / "ddpctl")

    servers = []
    try:
        servers.append(Server("ddprun", [ddpctl, "store", "serve", "--host", "127.0.0.1"]))
        servers.append(Server("libuv", [sys.executable, "-c", TORCH_SERVER]))
        results = [(case, run_case(arguments.programs, servers, case, arguments.runs, arguments.scale))
                   for case in CASES if not arguments.workload or case[0] in arguments.workload]
    finally:
        for server in servers:
            server.stop()

    arguments.out.mkdir(parents=True, exist_ok=True)
    text = (f"Medians of {arguments.runs} runs in turns. `bare` is an epoll loop that takes and sends as many "
            "bytes and does nothing else, the floor. wait_fanout counts the time from the SET to the last release.\n\n")
    text += table(results)
    (arguments.out / "store.md").write_text(text)
    (arguments.out / "store.json").write_text(json.dumps(
        [{"workload": case[0], "clients": case[1], "depth": case[2], "servers": result}
         for case, result in results], indent=2))
    print(text)


if __name__ == "__main__":
    main()
