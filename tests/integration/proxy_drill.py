"""Connections between two nodes are late, cut, reset, half closed or damaged: whatever becomes of them, the job ends
right, or each ddprun ends with a documented status and a line that says why.

    proxy_drill.py --ddprun PROGRAM [--seeds 1:30] [--jobs N] [--logs DIRECTORY]

Each node is a network namespace whose connections to the other pass through scripts/chaos_proxy.py; the seed chooses
what becomes of them. Rank 1 fails once, so there is a restart. Nothing may be left on either node: no process and no
listening socket. With --logs, what both printed is kept, of each seed that is wrong. Ends with 1 if a seed was wrong.
"""

import argparse
import concurrent.futures
import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time

import netns
import seeds

PROXY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "scripts", "chaos_proxy.py")
PROXY_MARK = 1  # as in chaos_proxy.py
PORT, PROXY_PORT = 29400, 9999
NODES = 2

# The timeouts of the job: it must end by itself, and long before PATIENCE_S.
LEASE_S = 2
JOIN_TIMEOUT_S = 8
PATIENCE_S = 90
LEAVE_S = 10

WORKERS_OWN = 3
# docs/reference.md: right; the worker's; an agent that was told so; try again. A flipped bit of a message may make any
# status of the worker's, but not one of a crash or of a bug.
DOCUMENTED = {0, WORKERS_OWN, 2, 75}
NEVER = {70, 134, 139, *range(-64, 0)}

# Rank 1 fails once. Rank 0 is to be stopped then; it ends by itself if nobody stops it.
WORKER = f"""
if [ "$RANK" = 1 ]; then
  mkdir "$DRILL_ROOM/failed" 2>/dev/null && exit {WORKERS_OWN}
else
  until [ -e "$DRILL_ROOM/failed" ]; do sleep 0.05; done
  sleep 0.5
fi
echo "done $RANK" >>"$DRILL_ROOM/done"
"""

options = argparse.Namespace()


class Run:
    """The case of one seed."""

    def __init__(self, seed, network, room):
        self._seed = seed
        self._network = network
        self._room = room
        self._proxies = [self._start_proxy(node) for node in range(NODES)]

    def _path(self, *names):
        return os.path.join(self._room, *names)

    def _read(self, *names):
        with contextlib.suppress(FileNotFoundError), open(self._path(*names), errors="replace") as text:
            return text.read()
        return ""

    def _start_proxy(self, node):
        self._network[node].set_up("nft", f"""
            table ip proxy {{
              chain output {{
                type nat hook output priority -100; policy accept;
                oifname "eth0" meta l4proto tcp meta mark != {PROXY_MARK} redirect to :{PROXY_PORT}
              }}
            }}
        """)
        proxy = self._network[node].popen(
            [sys.executable, PROXY, "--port", str(PROXY_PORT), "--seed", str(NODES * self._seed + node),
             "--log", self._path(f"troubles{node}")], stdout=subprocess.PIPE)
        if not proxy.stdout.readline():
            raise RuntimeError(f"the proxy of n{node} does not start")
        return proxy

    def judge(self):
        """(what was wrong, statuses, an account)"""
        jobs = [self._start(node) for node in range(NODES)]
        deadline = time.monotonic() + PATIENCE_S
        for job in jobs:
            with contextlib.suppress(subprocess.TimeoutExpired):
                job.wait(max(0, deadline - time.monotonic()))
        statuses = [job.poll() for job in jobs]
        wrong = [found for node, status in enumerate(statuses) for found in self._wrong_of(node, status)]
        if statuses == [0] * NODES and len(set(self._read("done").splitlines())) != NODES:
            wrong.append("both end with 0, but their workers have not")
        if statuses != [0] * NODES and not self._troubles():
            wrong.append(f"ends with {statuses} although nothing was disturbed")
        if None not in statuses:
            wrong += self._left()
        for proxy in self._proxies:
            proxy.kill()
            proxy.wait()
            proxy.stdout.close()
        account = [f"seed {self._seed}: {statuses}", *wrong]
        account += [f"n{node}: troubles:\n{self._read(f'troubles{node}')}printed:\n{self._read(f'n{node}')}"
                    for node in range(NODES)]
        return wrong, statuses, "\n".join(account)

    def _start(self, node):
        with open(self._path(f"n{node}"), "wb") as out:
            return self._network[node].popen(
                [options.ddprun, f"--nnodes={NODES}", "--rdzv-backend=c10d",
                 f"--rdzv-endpoint={self._network[0].address}:{PORT}", "--rdzv-id=proxy", "--max-restarts=3",
                 f"--rdzv-conf=join_timeout={JOIN_TIMEOUT_S},last_call_timeout=1", f"--lease={LEASE_S}",
                 "--shutdown-timeout=3", "--log-dir", self._path("logs"), "--no-python", "sh", "-c", WORKER],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                env={"PATH": os.environ["PATH"], "DRILL_ROOM": self._room, "LOGLEVEL": "INFO"})

    def _troubles(self):
        return "".join(self._read(f"troubles{node}") for node in range(NODES))

    def _wrong_of(self, node, status):
        if status is None:
            return [f"n{node} hangs"]
        wrong = []
        is_documented = status not in NEVER if "flip" in self._troubles() else status in DOCUMENTED
        if not is_documented:
            wrong.append(f"n{node} ends with {status}, which is not documented")
        if status and not re.search(r"^(ddprun( \S+)?: |\S+ ddprun )", self._read(f"n{node}"), re.MULTILINE):
            wrong.append(f"n{node} ends with {status} and does not say why")
        return wrong

    def _left(self):
        wrong = []
        for node in range(NODES):
            proxy = self._proxies[node].pid
            deadline = time.monotonic() + LEAVE_S
            while (left := set(self._network[node].pids()) - {proxy}) and time.monotonic() < deadline:
                time.sleep(0.05)
            if left:
                wrong.append(f"processes are left on n{node}: {sorted(left)}")
            for table in ("tcp", "tcp6"):
                with open(f"/proc/{proxy}/net/{table}") as sockets:
                    if re.search(rf"(?<!:{PROXY_PORT:04X}) \S+ 0A ", sockets.read()):
                        wrong.append(f"a socket of n{node} still listens")
        return wrong


def run(seed):
    """(seed, what was wrong, statuses). Runs in a separate process, whose descriptors hold the network."""
    with tempfile.TemporaryDirectory(prefix="ddprun_proxy_") as room, netns.Network(NODES) as network:
        wrong, statuses, account = Run(seed, network, room).judge()
    if options.logs and (wrong or options.all_logs):
        seeds.keep(options.logs, seed, account)
    return seed, wrong, statuses


def main():
    reason = netns.why_not()
    if reason:
        print(f"SKIPPED: {reason}")
        return 0
    with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
        return seeds.judge(pool, run, options.seeds)


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddprun", required=True, type=os.path.abspath)
    seeds.add_flags(parser, default="1:30", jobs=4)
    parser.add_argument("--all-logs", action="store_true", help="of seeds that are right too")
    parser.parse_args(namespace=options)


if __name__ == "__main__":
    parse()
    sys.exit(main())
