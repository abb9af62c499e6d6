"""A real Slurm cluster on this machine; each node has its own network and processes.

    with Cluster(4, gpus=4) as cluster:
        cluster.srun("-N2", "--ntasks-per-node=1", "hostname").stdout
        job = cluster.sbatch("-N3", script="srun ddprun train.py")
        cluster.kill_node("node2")                    # power loss
        cluster.wait_for(job, "COMPLETED", "FAILED")["ExitCode"]

tests/slurm/local_cluster implements the cluster and its faults, and documents them.

Leaving the block ends every process of the cluster and removes its files. If this process is killed
instead, a few lines of shell that outlive it do the same.
"""

import contextlib
import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

TOOL = str(pathlib.Path(__file__).resolve().with_name("local_cluster"))
PATIENCE_S = 120
MISSING_PACKAGES = 3  # local_cluster's exit status for it
# Slurm does not report changes of a job's state, so it is polled.
POLL_S = 0.05
# States of jobs that do not change any more by themselves.
OVER = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY",
        "BOOT_FAIL", "DEADLINE")
PR_SET_PDEATHSIG = 1

# Waits for a line, or for the end of all its writers. Its own parent ends at once, so that a kill of the
# test with all its children does not reach it. Its stdout is open as long as it runs.
_UNDERTAKER = """
  { read -r _ || { "$0" down; rm -rf -- "$DDPRUN_SLURM_DIR"; } >/dev/null; } <&0 2>/dev/null &
"""

_libc = ctypes.CDLL(None, use_errno=True)


def first(nodes):
    """Arguments for Slurm: the first so many of Cluster(…)'s nodes, even if an earlier job still has some.

    By itself Slurm skips a node whose job it is still cleaning up, although that has ended.
    """
    return f"--nodes={nodes}", f"--nodelist=node[0-{nodes - 1}]"


def why_not():
    """Why there can be no Cluster here; empty if there can."""
    if os.geteuid() != 0:
        return "the namespaces of a cluster need root"
    words = ("unshare", "--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "true")
    tried = subprocess.run(words, capture_output=True, text=True)
    return f"namespaces are forbidden: {tried.stderr.strip()}" if tried.returncode else ""


def skip_without_cluster():
    """For setUpModule: the reason is printed by unittest, and once more for a log."""
    reason = why_not()
    if reason:
        print(f"SKIPPED: {reason}", flush=True)
        raise unittest.SkipTest(reason)


def _end_with_the_test():
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _clean_environment(**more):
    """Our environment, without the variables of an outer Slurm."""
    ours = {name: value for name, value in os.environ.items()
            if not name.startswith(("SLURM", "SBATCH_", "SALLOC_", "SRUN_"))}
    return ours | more


class Cluster:
    def __init__(self, nodes, *, gpus=0, cpus=16, names=None, private_tmp=False, settings=None):
        """`settings` are parameters of slurm.conf; see local_cluster for those that it has.

        With `private_tmp`, files in /tmp here are not visible on a node, except `shared`.
        """
        # Not below TMPDIR: it contains sockets, whose paths must be short.
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-slurm-", dir="/tmp"))
        self.directory.chmod(0o755)  # munged insists
        self.shared = self.directory / "shared"  # seen by all nodes at this path
        words = ["up", str(nodes), "--gpus", str(gpus), "--cpus", str(cpus)]
        words += ["--names", names] if names else []
        words += ["--private-tmp"] if private_tmp else []
        for name, value in (settings or {}).items():
            words += ["--set", f"{name}={value}"]
        self._open = contextlib.ExitStack()
        try:
            self._open.callback(shutil.rmtree, self.directory)
            self._call_undertaker()
            self._open.callback(self._tool, "down")
            self._tool(*words)
            self.names = (self.directory / "etc/names").read_text().split()
        except BaseException:
            self._open.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def close(self):
        self._open.close()

    def _call_undertaker(self):
        heard, speak = os.pipe()
        end, its_end = os.pipe()
        subprocess.run(["bash", "-c", _UNDERTAKER, TOOL], stdin=heard, stdout=its_end,
                       start_new_session=True, env=self._environment(), check=True)
        os.close(heard)
        os.close(its_end)
        self._open.callback(os.close, end)
        self._open.callback(os.read, end, 1)  # waits until it has gone
        self._open.callback(os.close, speak)
        self._open.callback(os.write, speak, b"nothing to do\n")

    def _environment(self, **more):
        return _clean_environment(DDPRUN_SLURM_DIR=str(self.directory), **more)

    def _tool(self, *words):
        ended = subprocess.run([TOOL, *words], env=self._environment(), capture_output=True,
                               text=True, timeout=PATIENCE_S)
        if ended.returncode == MISSING_PACKAGES:
            raise RuntimeError(f"{ended.stderr.strip()}; scripts/setup.sh installs them")
        if ended.returncode:
            raise RuntimeError(f"local_cluster {' '.join(words)}: {ended.stderr.strip()}")
        return ended.stdout

    # What runs there. ---------------------------------------------------------------------------

    def popen(self, *words, node=None, env=None, **more):
        """Runs it on the login node, or on `node`. Ends with this process."""
        where = [node] if node else []
        return subprocess.Popen([TOOL, "exec", *where, "--", *words],
                                env=self._environment(**(env or {})),
                                preexec_fn=_end_with_the_test, **more)

    def run(self, *words, check=True, timeout=PATIENCE_S, **more):
        """The same, to its end; fails if that is not 0, unless `check` is False."""
        process = self.popen(*words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, **more)
        with process:
            try:
                out, err = process.communicate(timeout=timeout)
            except BaseException:
                process.kill()
                raise
        if check and process.returncode:
            raise RuntimeError(f"{' '.join(words)}: status {process.returncode}\n{out}{err}")
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def srun(self, *words, **more):
        return self.run("srun", *words, **more)

    def sbatch(self, *flags, script, **more):
        """Submits a bash script, given as text; returns the job's id."""
        with tempfile.NamedTemporaryFile("w", dir=self.shared, suffix=".sh", delete=False) as file:
            file.write("#!/bin/bash\n" + script)
        output = f"--output={self.shared}/job-%j.out"
        told = self.run("sbatch", "--parsable", output, *flags, file.name, **more).stdout
        return int(told.strip().split(";")[0])

    def output_of(self, job):
        """The output of its batch script; empty until that has begun."""
        file = self.shared / f"job-{job}.out"
        return file.read_text() if file.exists() else ""

    def job(self, job):
        """The fields of scontrol: JobState, ExitCode, Restarts, NodeList, …"""
        line = self.run("scontrol", "--oneliner", "show", "job", str(job)).stdout.split("\n")[0]
        return dict(word.split("=", 1) for word in line.split() if "=" in word)

    def wait_for(self, job, *states, restarts=None, timeout=PATIENCE_S):
        """The job once it is in one of `states`, after so many restarts if given; fails at once if it ends in another
        state."""
        deadline = time.monotonic() + timeout
        while True:
            known = self.job(job)
            state = known["JobState"]
            if state in states and restarts in (None, int(known["Restarts"])):
                return known
            if state in OVER or time.monotonic() > deadline:
                raise AssertionError(f"{self.output_of(job)}\njob {job} is {state}, not {' or '.join(states)}: {known}")
            time.sleep(POLL_S)

    def wait_until(self, claim, what, timeout=PATIENCE_S):
        """Waits for `claim()`, which neither Slurm nor a program here reports by itself."""
        deadline = time.monotonic() + timeout
        while not claim():
            if time.monotonic() > deadline:
                raise AssertionError(f"in vain for {timeout} s: {what}")
            time.sleep(POLL_S)

    def wait_until_down(self, name, timeout=PATIENCE_S):
        """Waits until Slurm knows that the node is lost."""
        self.wait_until(lambda: "DOWN" in self.run("scontrol", "show", "node", name).stdout,
                        f"Slurm says that {name} is down", timeout)

    def wait_until_over(self, job, timeout=PATIENCE_S):
        return self.wait_for(job, *OVER, timeout=timeout)

    def start_again(self, job, restarts=1):
        """Releases it after a requeue, without the two minutes for which Slurm delays it."""
        self.wait_for(job, "PENDING", restarts=restarts)
        # Slurm takes a start in the same second as the requeue for the one that it has just revoked, and fails
        # the job: "Job credential revoked".
        self.run("scontrol", "update", f"JobId={job}", "StartTime=now+1")

    # Troubles. ----------------------------------------------------------------------------------

    def kill_node(self, name):
        """Power loss: it falls silent, and all its processes are gone."""
        self._tool("kill-node", name)

    def kill_slurmd(self, name):
        """Its jobs run on."""
        self._tool("kill-slurmd", name)

    def start_node(self, name):
        """Or its slurmd."""
        self._tool("start-node", name)

    def isolate(self, name, peer=None):
        """No packet goes from it or to it, or between the two."""
        self._tool("isolate", name, *([peer] if peer else []))

    def link_down(self, name):
        self._tool("link-down", name)

    def lose(self, name, percent):
        """That many of the packets from it and to it."""
        self._tool("loss", name, str(percent))

    def heal(self, name):
        self._tool("heal", name)
