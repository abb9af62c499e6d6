"""System calls that fail, in a job of two nodes whose worker fails once: whatever fails, the job ends right, or each
ddprun that it concerns ends with a documented status and a line that says why.

    faults_drill.py --ddprun PROGRAM --faulty-calls LIBRARY [--seeds 1:200] [--jobs N] [--trace] [--logs DIRECTORY]

Both nodes are plain processes on the loopback. tests/support/faulty_calls.cpp, preloaded, makes a few calls of the
guards and the agents fail: the seed says which. Nothing may be left of them: no process, no listening socket, no
descriptor that main leaves open. With --logs, what both printed is kept, of each seed that is wrong;
with --trace, there is a backtrace of each failed call in it, for addr2line. Ends with 1 if a seed was wrong.
"""

import argparse
import concurrent.futures
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import seeds

# The timeouts of the job: it must end by itself, and long before PATIENCE_S.
JOIN_TIMEOUT_S = 5
PATIENCE_S = 45
# A guard that was killed leaves an agent behind that kills its workers and ends.
LEAVE_S = 5

WORKERS_OWN = 3
# docs/reference.md: right; usage; a bug, or the guard's death; the operating system refused; the agent was killed.
DOCUMENTED = {0, WORKERS_OWN, 2, 70, 75, 126, 137}

# Rank 1 fails first, in the first attempt, whose rank 0 waits to be stopped. From 1,000 on there are lifelines, which a
# worker keeps open on purpose; 10 is the shell's.
WORKER = f"""
if [ "$TORCHELASTIC_RESTART_COUNT" = 0 ]; then
  [ "$RANK" = 1 ] && exit {WORKERS_OWN}
  exec sleep 100
fi
for each in /proc/$$/fd/*; do
  [ -L "$each" ] || continue  # the shell opened it to list the others
  case "${{each##*/}}" in [0-2]|10|10[0-9][0-9]) ;; *) echo "a worker inherits $each" >>"$DRILL_ROOM/inherited" ;; esac
done
echo "$TORCHELASTIC_RESTART_COUNT" >>"$DRILL_ROOM/done"
"""

options = argparse.Namespace()


class Run:
    def __init__(self, seed):
        self._seed = seed
        self._room = tempfile.mkdtemp(prefix="ddprun_faults_")
        self._temporary = os.path.join(self._room, "tmp")
        self._log = os.path.join(self._room, "faults")
        self._port = 20_000 + seed % 10_000  # below the ports that the kernel gives to clients
        self._mark = f"{self._room}/"
        os.mkdir(self._temporary)
        os.mkdir(self._path("logs"))

    def _path(self, *names):
        return os.path.join(self._room, *names)

    def judge(self):
        """(what was wrong, statuses, an account)"""
        jobs = [self._start(node) for node in range(2)]
        hung = not self._await_end(jobs)
        statuses = [job.poll() for job in jobs]
        wrong = [f"n{node} hangs" for node, status in enumerate(statuses) if status is None]
        if not hung:
            wrong += self._wrong_of_statuses(statuses)
        wrong += self._left(hung)
        account = self._account(statuses)
        shutil.rmtree(self._room, ignore_errors=True)
        return wrong, statuses, account

    def _start(self, node):
        flags = ["--nnodes=2", "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{self._port}", "--max-restarts=3",
                 "--rdzv-id=faults", f"--rdzv-conf=join_timeout={JOIN_TIMEOUT_S},last_call_timeout=1", "--lease=2",
                 "--shutdown-timeout=3"]
        if self._seed % 2:
            flags += [f"--log-dir={self._path('logs')}"]
        if self._seed % 3 == 0:
            flags += ["--tee=3"]
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        with open(self._path(f"n{node}"), "wb") as out:
            return subprocess.Popen(
                [options.ddprun, *flags, "--no-python", "sh", "-c", WORKER],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
                env={**kept, "TMPDIR": self._temporary, "DRILL_ROOM": self._room, "DRILL_MARK": self._mark,
                     "LD_PRELOAD": options.faulty_calls, "DDPRUN_FAULT_SEED": str(self._seed),
                     "DDPRUN_FAULT_NODE": str(node), "DDPRUN_FAULT_LOG": self._log,
                     "DDPRUN_FAULT_TRACE": "1" if options.trace else "0"})

    @staticmethod
    def _await_end(jobs):
        deadline = time.monotonic() + PATIENCE_S
        with contextlib.suppress(subprocess.TimeoutExpired):
            for job in jobs:
                job.wait(max(0, deadline - time.monotonic()))
            return True
        return False

    def _printed(self, node):
        with open(self._path(f"n{node}"), errors="replace") as out:
            return out.read()

    def _faults(self):
        with contextlib.suppress(FileNotFoundError), open(self._log) as log:
            return log.read().splitlines()
        return []

    def _wrong_of_statuses(self, statuses):
        wrong = []
        for node, status in enumerate(statuses):
            if status not in DOCUMENTED:
                wrong.append(f"n{node} ends with {status}, which is not documented")
            lines = [line for line in self._printed(node).splitlines() if re.match(r"ddprun( \S+)?: |\S+ ddprun ", line)]
            if status != 0 and not lines:
                wrong.append(f"n{node} ends with {status} and does not say why")
        done = self._read("done").split()  # the attempt, of each worker that ended well
        if statuses == [0, 0] and done.count(max(done, default="")) != 2:
            wrong.append(f"both end with 0, but their workers ended well in the attempts {done}")
        if statuses != [0, 0] and not any(line.startswith("fault ") for line in self._faults()):
            wrong.append(f"ends with {statuses} although nothing failed")
        return wrong

    def _read(self, name):
        with contextlib.suppress(FileNotFoundError), open(self._path(name)) as text:
            return text.read()
        return ""

    def _left(self, hung):
        wrong = []
        deadline = time.monotonic() + (0 if hung else LEAVE_S)
        while (left := self._processes()) and time.monotonic() < deadline:
            time.sleep(0.05)
        if left and not hung:
            wrong.append(f"processes are left: {', '.join(left.values())}")
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if hung:
            return wrong
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            with open(table) as sockets:
                if re.search(rf":{self._port:04X} \S+ 0A ", sockets.read()):
                    wrong.append("a socket still listens")
        wrong += [line for line in self._faults() if line.startswith("open ")]
        wrong += self._read("inherited").splitlines()
        return wrong

    def _processes(self):
        """Those of this run: pid → command."""
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as environment:
                if f"DRILL_MARK={self._mark}".encode() in environment.read().split(b"\0"):
                    with open(f"/proc/{pid}/cmdline", "rb") as command:
                        found[int(pid)] = f"{pid} {command.read()[:60]!r}"
        return found

    def _account(self, statuses):
        return "\n".join([f"seed {self._seed}: {statuses}", self._read("faults"),
                          *(f"n{node} printed:\n{self._printed(node)}" for node in range(2)),
                          "files: " + " ".join(sorted(os.listdir(self._temporary)))])


def run(seed):
    """(seed, what was wrong, statuses). Keeps the account of a run that was wrong."""
    wrong, statuses, account = Run(seed).judge()
    if options.logs and wrong:
        seeds.keep(options.logs, seed, "\n".join(wrong) + "\n" + account)
    if options.verbose:
        print(account, flush=True)
    return seed, wrong, statuses


def main():
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        return seeds.judge(pool, run, options.seeds)


def parse():
    parser = argparse.ArgumentParser()
    for name in ("ddprun", "faulty-calls"):
        parser.add_argument(f"--{name}", required=True, type=os.path.abspath)
    seeds.add_flags(parser, default="1:200", jobs=4)
    parser.add_argument("--trace", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    parser.parse_args(namespace=options)


if __name__ == "__main__":
    parse()
    sys.exit(main())
