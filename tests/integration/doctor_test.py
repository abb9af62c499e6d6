"""`ddpctl doctor` names what was broken on purpose on one machine: disks, data, sockets, limits.

    doctor_test.py --ddpctl PROGRAM --ddprun PROGRAM [unittest arguments]
"""

import argparse
import ctypes
import os
import pathlib
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

import netns
from doctor_report import PATIENCE_S, PORT_TELLER, Report, environment, step

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BAD_USAGE = 2
NOBODY = 65534
CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x00020000, 0x4000, 1 << 18

options = argparse.Namespace()


class Case(unittest.TestCase):
    def setUp(self):
        self.room = pathlib.Path(self.enterContext(
            tempfile.TemporaryDirectory(prefix="ddprun_test_")))

    def run_words(self, *words, env=None, **more):
        return subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S,
                              env=environment(**(env or {})), **{"cwd": self.room, **more})

    def examine(self, *flags, before=(), limit_s=60, **more):
        """With a limit that is long enough for a busy machine."""
        ended = self.run_words(*before, options.ddpctl, "doctor", "--json", f"--limit={limit_s}",
                               *flags, **more)
        return Report(self, ended.returncode, ended.stdout, ended.stderr)

    def examine_as_nobody(self, *flags, before=(), after=(), **more):
        """With a copy of the program, since only root may be able to read the directories above it."""
        self.room.chmod(0o755)
        program = shutil.copy(options.ddpctl, self.room)
        ended = self.run_words(*before, "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}",
                               "--clear-groups", *after, program, "doctor", "--json",
                               "--limit=60", *flags, **more)
        return Report(self, ended.returncode, ended.stdout, ended.stderr)


class OneMachine(Case):
    def test_prints_a_line_for_each_thing(self):
        ended = self.run_words(options.ddpctl, "doctor", "--data", "/nowhere", "--skip", "clock",
                               "--skip", "disk")
        lines = ended.stdout.splitlines()
        self.assertIn("[!!] data /nowhere: does not exist; correct the path, stage the data, or "
                      "mount its disk on this node", lines)
        self.assertIn("[ok] slurm: not in a job", lines)
        self.assertEqual([], [line for line in lines if not line.startswith(("[ok] ", "[! ] ", "[!!] "))])
        self.assertEqual([], [line for line in lines if line[5:].startswith(("clock", "disk"))])
        self.assertEqual(1, ended.returncode)

    def test_names_who_has_taken_the_port(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            report = self.examine("--port", str(port))
        report.assert_wrong(f"port {port}", f"(pid {os.getpid()})", "another port")

    def test_a_running_job_that_has_the_port_is_no_fault(self):
        job = subprocess.Popen([options.ddprun, "--rdzv-id", "x", *PORT_TELLER], cwd=self.room, env=environment(),
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.addCleanup(job.communicate)
        self.addCleanup(job.terminate)  # kill would leave the worker for a moment
        port = job.stdout.readline().strip()
        report = self.examine("--port", port)
        report.assert_well(f"port {port}", "job 'x' is running here: ddprun")
        report.assert_well(f"port {port}", "a second job on this node needs another port (--master-port)")

    def test_names_an_interface_that_is_not_there(self):
        report = self.examine("--interface", "eth-none")
        report.assert_wrong("interface --interface eth-none", "no interface 'eth-none' on this machine, only", "")
        report = self.examine(env={"GLOO_SOCKET_IFNAME": "eth-none", "NCCL_SOCKET_IFNAME": "=none"})
        report.assert_wrong("interface GLOO_SOCKET_IFNAME eth-none", "no interface 'eth-none'", "")
        report.assert_wrong("interface NCCL_SOCKET_IFNAME =none", "matches none of", "unset")

    def test_names_data_that_is_missing_empty_or_a_broken_link(self):
        good, empty, file, link = (self.room / name for name in ("good", "empty", "file", "link"))
        (good / "sub").mkdir(parents=True)
        empty.mkdir()
        file.touch()
        link.symlink_to(self.room / "gone")
        report = self.examine(*(f"--data={path}" for path in (good, empty, file, link, "/nowhere")))
        report.assert_well(f"data {good}", "a directory")
        report.assert_wrong(f"data {empty}", "an empty directory", "stage")
        report.assert_wrong(f"data {file}", "an empty file", "stage")
        report.assert_wrong(f"data {link}", f"a link to {self.room}/gone, which does not exist", "stage")
        report.assert_wrong("data /nowhere", "does not exist", "correct the path")
        file.write_bytes(b"x" * 2048)
        self.examine("--data", str(file)).assert_well(f"data {file}", "a file of 2.0 KiB")

    @unittest.skipIf(os.geteuid() != 0, "root alone can become somebody else")
    def test_names_data_and_disks_that_this_user_may_not_use(self):
        hidden = self.room / "hidden"
        hidden.mkdir(mode=0o700)
        (hidden / "file").write_text("x")
        report = self.examine_as_nobody("--data", str(hidden), "--data", str(hidden / "file"))
        report.assert_wrong(f"data {hidden}", "may not read", "chmod")
        report.assert_wrong(f"data {hidden}/file", "may not read", "chmod")
        report.assert_wrong(f"disk {self.room}", "may not write", "another directory")

    def test_a_fifo_holds_nobody_up(self):
        os.mkfifo(self.room / "fifo")
        self.examine("--data", str(self.room / "fifo")).assert_wrong(
            f"data {self.room}/fifo", "", "")

    def test_names_a_disk_with_less_than_is_asked_for(self):
        self.examine("--min-free", "0").assert_well(f"disk {self.room}", "are free")
        self.examine("--min-free", "1048576T").assert_wrong(
            f"disk {self.room}", "less than 1048576.0 TiB", "free some space")

    def test_looks_at_the_temporary_and_the_log_directory_once_each(self):
        logs = str(self.room / "logs")
        report = self.examine("--log-dir", logs, env={"TMPDIR": "/nowhere"})
        report.assert_wrong(f"disk {logs}", "does not exist", "mkdir -p")
        report.assert_wrong("disk /nowhere", "does not exist", "mkdir -p")
        report = self.examine(env={"TMPDIR": str(self.room), "PET_LOG_DIR": str(self.room)})
        disks = [name for name in report.findings if name.startswith("disk ")]
        self.assertEqual([f"disk {self.room}"], disks)

    def test_leaves_nothing_on_the_disks(self):
        self.examine()
        self.assertEqual([], os.listdir(self.room))

    def test_names_low_limits(self):
        def lower():
            resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_NPROC, (1000, 1000))

        report = self.examine(preexec_fn=lower)
        report.assert_wrong("limit nofile", "256 open files, hard limit 256", "ulimit -Hn")
        report.assert_wrong("limit nproc", "1000 processes", "ulimit -u 1024")
        report.assert_well("limit core", "no core dump")
        report = self.examine(
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 2048)))
        report.assert_wrong("limit nofile", "256 open files, hard limit 2048", "ulimit -n 1024")

    @unittest.skipIf(os.geteuid() != 0, "root alone can become somebody else")
    def test_a_limit_that_keeps_it_from_looking_is_named_as_well(self):
        # A sanitizer that looks for leaks would want a process of its own.
        report = self.examine_as_nobody(after=("prlimit", "--nproc=1"),
                                        env={"ASAN_OPTIONS": "detect_leaks=0"})
        report.assert_wrong("gpus", "Resource temporarily unavailable", "ulimit -u")

    def test_names_masked_gpus(self):
        report = self.examine(env={"CUDA_VISIBLE_DEVICES": "2", "SLURM_GPUS_ON_NODE": "4"})
        report.assert_wrong("gpus", "sees 1 of the step's 4", "--gpu-bind=none")

    def test_the_clock_is_what_the_kernel_says(self):
        state = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(256))
        time_error = 5
        report = self.examine()
        if state == time_error:
            report.assert_warned("clock", "not synchronised", "chronyd")
        else:
            report.assert_well("clock", "synchronised")

    def test_a_clock_that_nothing_synchronises_fails_nobody(self):
        # Without the skipped lines, the others are ok or warnings.
        others = ("slurm", "name", "interface", "disk", "shm", "gpus", "python", "limit")
        report = self.examine(*(f"--skip={word}" for word in others))
        self.assertEqual({"clock"}, set(report.findings))
        self.assertTrue(report.findings["clock"]["is_well"])

    def python_with(self, version, *packages):
        """An environment with these files in its site-packages."""
        site = self.room / "venv/lib" / f"python3.{sys.version_info[1]}" / "site-packages"
        (site / "torch").mkdir(parents=True)
        (self.room / "venv/bin").mkdir()
        (self.room / "venv/pyvenv.cfg").touch()
        python = self.room / "venv/bin/python"
        python.symlink_to(os.path.realpath(sys.executable))
        (site / "torch/version.py").write_text(version)
        for package in packages:
            (site / package).mkdir()
        return str(python)

    def test_tells_the_versions_of_python_torch_cuda_and_nccl(self):
        python = self.python_with("from typing import Optional\n__all__ = ['__version__', 'cuda']\n"
                                  "__version__ = '2.11.0+cu130'\ncuda: Optional[str] = '13.0'\n",
                                  "nvidia_nccl_cu13-2.28.9.dist-info")
        report = self.examine(env={"PYTHON_EXEC": python})
        report.assert_well("python", f"{python} (3.{sys.version_info[1]}), torch 2.11.0+cu130, "
                                     "CUDA 13.0, NCCL 2.28.9")

    def shim(self, script):
        """A shell script in place of Python, as pyenv and module systems have it."""
        shim = self.room / "shims/python"
        shim.parent.mkdir(exist_ok=True)
        shim.write_text(f"#!/bin/sh\n{script}\n")
        shim.chmod(0o755)
        return str(shim)

    def test_tells_the_versions_of_the_python_that_a_script_starts(self):
        python = self.python_with("__version__ = '2.11.0+cu130'\ncuda: Optional[str] = '13.0'\n",
                                  "nvidia_nccl_cu13-2.28.9.dist-info")
        (self.room / "venv/pyvenv.cfg").write_text(f"home = {os.path.dirname(os.path.realpath(sys.executable))}\n")
        shim = self.shim(f'echo "modules are loaded"; exec "{python}" "$@"')
        report = self.examine(env={"PYTHON_EXEC": shim})
        report.assert_well("python", f"{shim}, which starts {python} (3.{sys.version_info[1]}), torch 2.11.0+cu130, "
                                     "CUDA 13.0, NCCL 2.28.9")

    def test_warns_of_a_script_that_does_not_tell_which_python_it_starts(self):
        def warned(script, seen, limit_s=60):
            report = self.examine(env={"PYTHON_EXEC": self.shim(script)}, limit_s=limit_s)
            report.assert_warned("python", "starts an unknown Python: " + seen, "set PYTHON_EXEC")

        warned("exit 3", "it exited with status 3")
        warned("echo hello", "it did not run -c as Python does")
        warned(f"echo $$ > {self.room}/pid; sleep 3600; true", "", limit_s=5)
        pid = int((self.room / "pid").read_text())
        self.assertFalse(os.path.exists(f"/proc/{pid}"), "it is left behind")

    def test_warns_of_a_python_without_torch(self):
        python = self.python_with("")
        shutil.rmtree(self.room / "venv/lib")
        self.examine(env={"PYTHON_EXEC": python}).assert_warned("python", "has no torch", "PYTHON_EXEC")
        self.examine(env={"PYTHON_EXEC": "/nowhere/python"}).assert_warned(
            "python", "no such program", "unset it")

    def test_names_contradictions_of_slurms_variables(self):
        report = self.examine(env=step(0) | {"SLURM_STEP_NUM_NODES": "3"})
        report.assert_wrong("slurm", "2 nodes, but SLURM_STEP_NUM_NODES says 3", "srun")
        report = self.examine(env={"SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": "n[3-1]"})
        report.assert_wrong("hostlist", "counts down", "by hand")

    def test_connects_where_it_is_told_to(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            here = "127.0.0.1:%d" % server.getsockname()[1]
            self.examine("--reach", here).assert_well(f"reach {here}", "connected")
        self.examine("--reach", here).assert_wrong(f"reach {here}", "refused", "firewall")
        unknown = "a" * 64 + ".invalid:1"  # no label of DNS has 64 letters
        self.examine("--reach", unknown).assert_wrong(f"reach {unknown}", "cannot be resolved", "")

    def test_the_manual_tells_of_every_flag_and_word(self):
        told = self.run_words(options.ddpctl, "doctor", "--help").stdout
        flags = set(re.findall(r"(?<!\w)--[a-z-]+", told)) - {"--help"}
        words = re.search(r"--skip .*?\{(.*?)\}", told)[1].split(",")
        self.assertIn("--data", flags)
        self.assertIn("gpus", words)
        manual = (ROOT / "docs" / "ddpctl.md").read_text()
        self.assertEqual([], [flag for flag in flags if f"[{flag}" not in manual])
        self.assertEqual([], [word for word in words if f"\n| `{word}" not in manual])

    def test_refuses_bad_usage(self):
        for flags, part in ((("--port", "0"), "not a whole number from 1"),
                            (("--port", "70000"), "not a whole number"),
                            (("--min-free", "1X"), "--min-free: '1X' is not a number of bytes"),
                            (("--reach", "here"), "--reach 'here': give HOST:PORT"),
                            (("--skip", "weather"), "'weather' is not one of slurm, hostlist"),
                            (("--data", ""), "'' is empty"),
                            (("--prot", "1"), "did you mean --port?; see ddpctl doctor --help"),
                            (("data",), "unknown argument 'data'")):
            with self.subTest(flags=flags):
                ended = self.run_words(options.ddpctl, "doctor", *flags)
                self.assertEqual((BAD_USAGE, ""), (ended.returncode, ended.stdout))
                self.assertRegex(ended.stderr, r"\Addpctl: [^\n]+\n\Z")
                self.assertIn(part, ended.stderr)

    def test_an_answer_that_is_lost_is_a_failure(self):
        with open("/dev/full", "w") as full:
            ended = subprocess.run([options.ddpctl, "doctor"], stdout=full, stderr=subprocess.PIPE,
                                   env=environment(), text=True, timeout=PATIENCE_S)
        self.assertEqual(75, ended.returncode)
        self.assertIn("No space left on device", ended.stderr)


class Mounts(Case):
    """Disks of a mount namespace that ends with the doctor."""

    @classmethod
    def setUpClass(cls):
        netns.skip_without_namespaces()

    def setUp(self):
        super().setUp()
        self.disk = self.room / "disk"
        self.disk.mkdir()

    def mounted(self, script, *flags, examine=None):
        words = ("unshare", "--mount", "--propagation", "private", "sh", "-ec",
                 f'{script}\nexec "$@"', "sh")
        return (examine or self.examine)(*flags, before=words, env={"TMPDIR": str(self.disk)})

    def test_names_a_full_disk(self):
        report = self.mounted(
            f"mount -t tmpfs -o size=64k none {self.disk}\n"
            f"head -c 65536 /dev/zero >{self.disk}/all", "--min-free", "0")
        report.assert_wrong(f"disk {self.disk}", "disk full", "free some space")

    def test_names_a_disk_without_inodes(self):
        report = self.mounted(
            f"mount -t tmpfs -o size=64k,nr_inodes=2 none {self.disk}\ntouch {self.disk}/last")
        report.assert_wrong(f"disk {self.disk}", "no inodes are left", "free some space")
        report = self.mounted(f"mount -t tmpfs -o nr_inodes=500 none {self.disk}", "--min-free=0")
        report.assert_wrong(f"disk {self.disk}", "of 500 inodes are free", "small files")

    def test_names_a_disk_that_is_mounted_read_only(self):
        report = self.mounted(f"mount -t tmpfs -o ro none {self.disk}")
        report.assert_wrong(f"disk {self.disk}", "read-only", "another directory")

    def test_names_a_small_or_full_shm(self):
        report = self.mounted("mount -t tmpfs -o size=64m none /dev/shm")
        report.assert_wrong("shm", "the size of /dev/shm is only 64.0 MiB", "--shm-size")
        report = self.mounted("mount -t tmpfs -o size=513m none /dev/shm\n"
                              "head -c 2097152 /dev/zero >/dev/shm/left")
        report.assert_wrong("shm", "511.0 MiB of 513.0 MiB are free", "left in /dev/shm")

    def test_names_gpus_that_the_mask_hides(self):
        devices = (f"mount -t tmpfs none {self.disk}\nmkdir {self.disk}/shm\n"
                   f"for i in null nvidia0 nvidia1; do mknod -m 666 {self.disk}/$i c 1 3; done\n"
                   f"mount --move {self.disk} /dev\n")
        report = self.mounted(devices + "export CUDA_VISIBLE_DEVICES=0,1")
        report.assert_well("gpus", "2 of 2 are visible")
        report = self.mounted(devices + "export CUDA_VISIBLE_DEVICES=")
        report.assert_wrong("gpus", "hides all 2", "unset it")
        report = self.mounted(devices + "export CUDA_VISIBLE_DEVICES=1,2")
        report.assert_wrong("gpus", "may use 2 GPUs: CUDA takes only 1", "from 0")
        report = self.mounted(devices + "chmod 000 /dev/nvidia*",
                              examine=self.examine_as_nobody)
        report.assert_wrong("gpus", "may not open any of the 2 GPUs", "--gpus-per-node")

    def test_is_not_held_up_by_a_disk_that_does_not_answer(self):
        """A FUSE file system whose server never responds, like a dead NFS server."""
        server = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        self.addCleanup(os.close, server)
        libc = ctypes.CDLL(None, use_errno=True)
        how = f"fd={server},rootmode=40000,user_id=0,group_id=0".encode()

        def mount():
            netns._check(libc.unshare(CLONE_NEWNS), "unshare")
            netns._check(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None), "mount")
            netns._check(libc.mount(b"fuse", bytes(self.disk), b"fuse", 0, how), "mount")

        report = self.examine("--data", str(self.disk), limit_s=2, preexec_fn=mount,
                              env={"TMPDIR": str(self.disk)})
        for what in ("disk", "data"):
            report.assert_wrong(f"{what} {self.disk}", "no answer within 2 s", "check its server")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddpctl", required=True)
    parser.add_argument("--ddprun", required=True)
    rest = parser.parse_known_args(namespace=options)[1]
    options.ddpctl, options.ddprun = map(os.path.abspath, (options.ddpctl, options.ddprun))
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
