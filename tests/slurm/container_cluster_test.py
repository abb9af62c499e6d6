"""In a container without a Slurm client, slurm.conf or resolv.conf, `ddprun` uses only the variables of its step.

    container_cluster_test.py --ddprun PROGRAM --ddpctl PROGRAM [unittest arguments]

The container is a separate root: read-only, with the two programs, what they load, a shell, /proc, /dev and /tmp,
and /etc/hosts, as container runtimes provide it.
"""

import argparse
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time
import unittest

from cluster import PATIENCE_S, POLL_S, Cluster, first, skip_without_cluster

options = argparse.Namespace()
TRY_AGAIN, NOT_FOUND = 75, 127
TOOLS = ("sh", "sleep", "env")
ENVIRONMENT = {"PATH": "/bin:/usr/bin:/sbin:/usr/sbin", "TMPDIR": "/tmp"}
# A read-only root is intended here, and the other findings concern the machine.
DOCTOR = ("ddpctl", "doctor", "--skip=disk", "--skip=clock", "--skip=limit", "--limit=60")
ENTER = """#!/bin/sh -e
exec unshare --mount sh -ec '
  root=$1; shift
  mount --bind "$root" "$root"
  cd "$root"
  for place in proc dev; do mount --rbind "/$place" "$place"; done
  mount -t tmpfs tmpfs tmp
  [ -z "${WITHOUT_HOSTS:-}" ] || mount -t tmpfs tmpfs etc
  mount -o remount,bind,ro "$root"
  exec chroot . "$@"
' enter "${0%/*}/root" "$@"
"""
SAY = 'read host </proc/sys/kernel/hostname; echo "$RANK/$WORLD_SIZE $host $MASTER_ADDR"'
# Slurm's own signal may come before ddprun's notice, and may reach sleep before the shell.
SAVES = """
trap 'trap "" TERM; until read -r told <"$DDPRUN_NOTICE_FILE"; do :; done; echo "told $told"; exit 0' TERM
echo "up $RANK"
while :; do sleep 1000 & wait; done
"""


def setUpModule():
    skip_without_cluster()


def libraries(program):
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return re.findall(r"(/\S+) \(0x", listed)


def make_root(root):
    """bin has the programs; all else has the same path as outside."""
    for place in ("bin", "proc", "dev", "tmp", "etc"):
        (root / place).mkdir(parents=True)
    programs = [options.ddprun, options.ddpctl, *map(shutil.which, TOOLS)]
    for program in programs:
        shutil.copy(program, root / "bin")
        for library in libraries(program):
            (root / library[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, root / library[1:])


class Container(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.enterClassContext(Cluster(2))
        make_root(cls.cluster.shared / "root")
        shutil.copy(cls.cluster.directory / "etc/hosts", cls.cluster.shared / "root/etc")
        cls.enter = cls.cluster.shared / "enter"
        cls.enter.write_text(ENTER)
        cls.enter.chmod(0o755)

    # Verbs. -------------------------------------------------------------------------------------

    def inside(self, nodes, *words, check=True, **environment):
        return self.cluster.srun(*first(nodes), "--ntasks-per-node=1", "-K0", "-W0", str(self.enter), *words,
                                 env=ENVIRONMENT | environment, check=check)

    def ddprun(self, nodes, script, *flags, workers=2, **more):
        return self.inside(nodes, "ddprun", f"--nproc-per-node={workers}", *flags, "--no-python", "sh", "-c",
                           script, **more)

    def told_to_save(self, program, **environment):
        """The output of a batch job whose workers save when they are told; `program` is its ddprun."""
        words = ["srun", "--ntasks-per-node=1", "-K0", "-W0", *program, "--requeue=on-preempt",
                 "--nproc-per-node=1", "--no-python", "sh", "-c", SAVES]
        job = self.cluster.sbatch("--requeue", "--nodes=2", script=shlex.join(words),
                                  env=ENVIRONMENT | environment)
        deadline = time.monotonic() + PATIENCE_S
        while self.cluster.output_of(job).count("up ") < 2:
            self.assertLess(time.monotonic(), deadline, self.cluster.output_of(job))
            time.sleep(POLL_S)
        self.cluster.run("scancel", "--signal=TERM", f"{job}.0")
        ended = self.cluster.wait_until_over(job)
        output = self.cluster.output_of(job)
        self.assertEqual(("FAILED", f"{TRY_AGAIN}:0", "0"),
                         (ended["JobState"], ended["ExitCode"], ended["Restarts"]), output)
        return job, output

    def assert_not_again(self, job, output, why):
        """One line reports it, and what to do instead."""
        self.assertEqual(
            [f"ddprun: job {job} is not started again: {why}; where ddprun ends with {TRY_AGAIN}, let the "
             f"batch script call 'scontrol requeue {job}'"],
            re.findall(".*started again.*", output), output)

    # Claims. ------------------------------------------------------------------------------------

    def test_there_is_nothing_of_slurms_in_it(self):
        seen = self.inside(1, "sh", "-c", """
            echo "$SLURM_CONF"
            for path in "$SLURM_CONF" /etc/slurm* /etc/resolv.conf /etc/passwd; do
              [ ! -e "$path" ] || echo "$path"
            done
            command -v srun || command -v scontrol || echo none""")
        self.assertEqual(f"{self.cluster.directory}/etc/slurm.conf\nnone\n", seen.stdout)

    def test_ranks_follow_slurms_nodes(self):
        self.assertEqual(["0/4 node0 node0", "1/4 node0 node0", "2/4 node1 node0", "3/4 node1 node0"],
                         sorted(self.ddprun(2, SAY).stdout.splitlines()))

    def test_one_node_needs_no_names(self):
        self.assertEqual("0/1 node0 127.0.0.1\n",
                         self.ddprun(1, SAY, workers=1, WITHOUT_HOSTS="yes").stdout)

    def test_the_status_of_a_worker_comes_through_after_a_restart(self):
        failed = self.ddprun(2, "[ $RANK != 3 ] || exit 7; sleep 1000", "--max-restarts=1", check=False)
        self.assertEqual(7, failed.returncode, failed.stderr)
        self.assertRegex(failed.stderr, "rank 3 .* exited with status 7")

    def test_a_job_that_saved_says_once_why_it_is_not_started_again(self):
        """And tells its workers no deadline that it does not know."""
        job, output = self.told_to_save([str(self.enter), "ddprun"])
        told = [json.loads(line) for line in re.findall("^told (.*)$", output, re.M)]
        self.assertEqual([("SIGTERM", None)] * 2, [(one["signal"], one["deadline_s"]) for one in told], output)
        missing = f"SLURM_CONF '{self.cluster.directory}/etc/slurm.conf' cannot be read here"
        self.assert_not_again(job, output, f"{missing}: No such file or directory")

    def test_without_a_client_it_says_so(self):
        job, output = self.told_to_save([str(self.enter), "/bin/env", "-u", "SLURM_CONF", "ddprun"])
        self.assert_not_again(job, output, "there is no scontrol on PATH")

    def test_it_does_not_wait_for_a_client_without_configuration(self):
        """scontrol itself would look for the file for a minute."""
        job, output = self.told_to_save(["env", "SLURM_CONF=/nowhere/slurm.conf", options.ddprun])
        self.assert_not_again(job, output, "SLURM_CONF '/nowhere/slurm.conf' cannot be read here: No such file or "
                                           "directory")

    def test_ddpctl_needs_no_slurm_either(self):
        listed = self.inside(2, "sh", "-c", 'ddpctl hostlist "$SLURM_JOB_NODELIST"').stdout
        self.assertEqual(["node0", "node0", "node1", "node1"], sorted(listed.split()))
        checked = self.inside(2, *DOCTOR, "--wait=60")
        self.assertIn("[ok] node0 reach node1: connected both ways", checked.stdout)
        nameless = self.inside(2, *DOCTOR, "--wait=1", WITHOUT_HOSTS="yes", check=False)
        self.assertEqual(1, nameless.returncode)
        self.assertRegex(nameless.stdout, r"\[!!\] node0 reach node1: .* cannot be resolved")
        self.assertIn("[ok] node0 interface: eth0", nameless.stdout)
        refused = self.inside(1, "ddpctl", "submit", "job.sh", check=False)
        self.assertEqual(NOT_FOUND, refused.returncode, refused.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddprun", required=True, type=os.path.abspath)
    parser.add_argument("--ddpctl", required=True, type=os.path.abspath)
    _, rest = parser.parse_known_args(namespace=options)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
