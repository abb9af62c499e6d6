#!/usr/bin/env python3
"""Measures how fast many nodes agree, and continue without one of them.

    bench_rendezvous.py --programs build/release/bin --out build/bench [--runs 3] [--repeats 20]

Prints Markdown tables and writes rendezvous.json: `ddpbench rendezvous` with 16, 64 and 1,000
agents and its floor; as the peer, torch's elastic rendezvous with 16 and 64; and, as root, the
drills of tests/integration/failover_drill.py with real nodes in network namespaces.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

AGENTS = (16, 64, 1000)
PEERS = (16, 64)  # 128 take minutes
DRILLS = pathlib.Path(__file__).resolve().parents[1] / "tests" / "integration" / "failover_drill.py"

# Each agent is a thread of one process, with its own connection, like the simulated ones.
PEER = """
import sys, threading, time
from torch.distributed.elastic.rendezvous import RendezvousParameters
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import create_backend
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import create_handler

nodes = int(sys.argv[1])

def parameters(port, is_host):
    return RendezvousParameters("c10d", f"127.0.0.1:{port}", "bench", nodes, nodes, is_host=is_host,
                                join_timeout=600, last_call_timeout=1)

_, host = create_backend(parameters(0, True))
ready = threading.Barrier(nodes + 1)

def agent():
    backend, store = create_backend(parameters(host.port, False))
    handler = create_handler(store, backend, parameters(host.port, False))
    ready.wait()
    handler.next_rendezvous()

threads = [threading.Thread(target=agent) for _ in range(nodes)]
for thread in threads:
    thread.start()
ready.wait()
began = time.monotonic()
for thread in threads:
    thread.join()
print((time.monotonic() - began) * 1000)
"""


def output_of(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{command}: status {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def measure_agents(options):
    """{agents: [figures of each run]}, and {agents: [milliseconds of the peer]}; in turns."""
    ours = {agents: [] for agents in AGENTS}
    peers = {agents: [] for agents in PEERS}
    for _ in range(options.runs):
        for agents in AGENTS:
            command = [f"{options.programs}/ddpbench", "rendezvous", "--agents", str(agents),
                       "--repeats", str(options.repeats), "--workers", "1024", "--json"]
            ours[agents].append(json.loads(output_of(command)))
        for agents in PEERS:
            peers[agents].append(float(output_of([sys.executable, "-c", PEER, str(agents)])))
    return ours, peers


def measure_drills(options):
    """[(what, its figures as printed)]"""
    command = [sys.executable, str(DRILLS), "--ddprun", f"{options.programs}/ddprun",
               "--round-worker", f"{options.programs}/round_worker",
               "--repeats", str(options.repeats), "--silences", str(options.runs)]
    lines = output_of(command).splitlines()
    found = (re.match(r"\.?(.+): min (\S+), median (\S+), p99 (\S+), max (\S+) ms of (\d+)$", line)
             for line in lines)
    return [match.groups() for match in found if match]


def table(head, rows):
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def show_agents(ours, peers):
    def median(agents, figure, unit):
        values = [run[figure] for run in ours[agents] if figure in run]
        return f"{statistics.median(values):.1f} {unit}" if values else ""

    figures = (
        ("all ranked", "ranked_ms", "ms", "≤ 500 ms for 1,000"),
        ("a failure: order to stop on each, p99", "stop_p99_ms", "ms", "≤ 100 ms for 64"),
        ("a failure: next round on all, p50", "restarted_p50_ms", "ms", ""),
        ("an agent lost: next round on all others, p50", "reranked_p50_ms", "ms", "≤ 100 ms for 1,000"),
        ("heartbeat to reply, p99", "heartbeat_p99_ms", "ms", "≤ 50 ms"),
        ("heartbeat to reply while 1,024 workers start up with Gloo, p99", "gloo_heartbeat_p99_ms", "ms",
         "≤ 50 ms for 1,000"),
        ("that start-up", "gloo_s", "s", ""),
        ("leader: processor, of a core", "server_cpu_percent", "%", "≤ 8 % for 1,000"),
        ("bare epoll loop at the same rate", "floor_cpu_percent", "%", "the floor"),
        ("leader: memory", "server_rss_mib", "MiB", "≤ 50 MB for 1,000"))
    rows = [(what, *(median(agents, figure, unit) for agents in AGENTS), wanted)
            for what, figure, unit, wanted in figures]
    peer = [f"{statistics.median(peers[agents]):.0f} ms" if agents in peers else "" for agents in AGENTS]
    rows.insert(1, ("the same, torch's elastic rendezvous", *peer, ""))
    table(("agents", *(f"{agents:,}" for agents in AGENTS), "wanted"), rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=20)
    options = parser.parse_args()
    ours, peers = measure_agents(options)
    show_agents(ours, peers)
    drills = measure_drills(options) if os.geteuid() == 0 else []
    if drills:
        table(("nodes in namespaces, ms", "min", "median", "p99", "max", "of"), drills)
    else:
        print("Drills skipped: they need root for network namespaces.")
    pathlib.Path(options.out, "rendezvous.json").write_text(
        json.dumps({"ddprun": ours, "torch_ms": peers, "drills_ms": drills}, indent=1))


if __name__ == "__main__":
    main()
