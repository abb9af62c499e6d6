"""The wheel, installed by pip into a fresh environment:

    wheel_test.py --wheel FILE --torch PYTHON [unittest arguments]

PYTHON has torch. The fresh environments see its packages, because installing torch in each takes minutes.
"""

import argparse
import email
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import textwrap
import time
import unittest
import zipfile

TRAIN = pathlib.Path(__file__).resolve().parents[1] / "integration" / "scripts" / "train_ddp.py"
BYTES_MAX = 5_000_000
NEWEST_GLIBC = (2, 28)

options = argparse.Namespace()


class Environment:
    """A fresh virtual environment with the wheel."""

    def __init__(self, directory):
        self.bin = pathlib.Path(directory, "bin")
        self.python = str(self.bin / "python")
        self.ddprun = str(self.bin / "ddprun")
        subprocess.run([options.torch, "-m", "venv", directory], check=True)
        self.run("-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-index", options.wheel)

    def run(self, *arguments, **more):
        """What `python ARGUMENTS` did, without anything that the environment of the test set."""
        return run([self.python, *arguments], check=True, **more)

    def add_torch(self):
        """The packages of options.torch, behind those of this environment."""
        paths = [subprocess.check_output([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
                                         text=True).strip() for python in (options.torch, self.python)]
        pathlib.Path(paths[1], "torch_of_test.pth").write_text(f"{paths[0]}\n")


def run(command, **more):
    kept = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
    environment = {**kept, "PATH": "/usr/local/bin:/usr/bin:/bin", "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=300, **more)


class File(unittest.TestCase):
    def test_is_small(self):
        self.assertLessEqual(os.path.getsize(options.wheel), BYTES_MAX)

    def test_is_for_every_python_3_and_old_versions_of_glibc(self):
        name = os.path.basename(options.wheel)
        self.assertIn("-py3-none-manylinux_", name)
        # auditwheel, which gave it this name, has looked at the symbols.
        named = [tuple(map(int, version)) for version in re.findall(r"manylinux_(\d+)_(\d+)_", name)]
        self.assertLessEqual(min(named), NEWEST_GLIBC)

    def test_depends_on_no_other_package(self):
        with zipfile.ZipFile(options.wheel) as wheel:
            [name] = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
            metadata = email.message_from_bytes(wheel.read(name))
        self.assertEqual(None, metadata.get_all("Requires-Dist"))


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        directory = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="ddprun_test_"))
        began = time.monotonic()
        cls.environment = Environment(directory)
        cls.install_s = time.monotonic() - began
        cls.environment.add_torch()

    def check_trains(self, *launcher):
        began = time.monotonic()
        ended = run([*launcher, "--standalone", "--nproc-per-node", "2", str(TRAIN)])
        self.assertEqual(0, ended.returncode, ended.stderr)
        self.assertEqual(["rank 0", "rank 1"], sorted({line[:6] for line in ended.stdout.splitlines()}), ended.stdout)
        return time.monotonic() - began

    def test_trains_in_the_python_of_its_environment(self):
        """No environment is activated, and python on PATH has no torch."""
        train_s = self.check_trains(self.environment.ddprun)
        print(f"environment and wheel {self.install_s:.1f} s, training {train_s:.1f} s")

    def test_trains_as_a_module_of_python(self):
        self.check_trains(self.environment.python, "-m", "ddprun")

    def test_as_a_module_takes_the_same_arguments_and_ends_with_the_same_status(self):
        for arguments in (["--version"], ["--help"], ["--no-such-flag"], ["--standalone", "--no-python", "false"]):
            with self.subTest(arguments):
                as_program = run([self.environment.ddprun, *arguments])
                as_module = run([self.environment.python, "-m", "ddprun", *arguments])
                self.assertEqual(as_program.returncode, as_module.returncode)
                if arguments[0] != "--standalone":  # where times and process IDs differ
                    self.assertEqual((as_program.stdout, as_program.stderr), (as_module.stdout, as_module.stderr))

    def test_counts_the_steps_of_a_script_that_does_not_know_of_it(self):
        script = """
            import os, struct, torch
            weight = torch.nn.Parameter(torch.ones(1))
            optimizer = torch.optim.SGD([weight], lr=0.1)
            for _ in range(3):
                weight.sum().backward()
                optimizer.step()
            slots = open(os.environ["DDPRUN_STEP_FILE"], "rb").read()
            pid, steps = struct.unpack_from("=2q", slots, 128 * int(os.environ["DDPRUN_STEP_SLOT"]))
            print(pid == os.getpid(), steps)
            """
        with tempfile.TemporaryDirectory(prefix="ddprun_test_") as directory:
            path = pathlib.Path(directory, "train.py")
            path.write_text(textwrap.dedent(script))
            ended = run([self.environment.ddprun, "--standalone", "--nproc-per-node", "2", str(path)])
            self.assertEqual((0, "True 3\nTrue 3\n"), (ended.returncode, ended.stdout), ended.stderr)
            alone = run([self.environment.python, "-c", "import sys; print('ddprun' in sys.modules)"])
            self.assertEqual("False\n", alone.stdout)

    def test_brings_ddpctl_which_finds_the_libraries_of_the_machine(self):
        """OpenSSL for the checksum, libarchive for the archive."""
        with tempfile.TemporaryDirectory(prefix="ddprun_test_") as directory:
            archive, destination = pathlib.Path(directory, "data.tar"), pathlib.Path(directory, "data")
            with tarfile.open(archive, "w") as tar:
                tar.add(TRAIN, "train.py")
            for sha256, status in (("0" * 64, 78), (hashlib.sha256(archive.read_bytes()).hexdigest(), 0)):
                staged = run([str(self.environment.bin / "ddpctl"), "stage", "--sha256", sha256, str(archive),
                              str(destination)])
                self.assertEqual(status, staged.returncode, staged.stderr)
            self.assertEqual(TRAIN.read_bytes(), (destination / "train.py").read_bytes())

    def test_says_what_to_do_if_its_program_is_gone(self):
        program = pathlib.Path(self.environment.ddprun)
        hidden = program.rename(program.with_name("hidden"))
        self.addCleanup(hidden.rename, program)
        ended = run([self.environment.python, "-m", "ddprun", "--version"])
        self.assertEqual(1, ended.returncode)
        self.assertIn("pip install --force-reinstall ddprun", ended.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheel", required=True, metavar="FILE", type=os.path.abspath)
    parser.add_argument("--torch", required=True, metavar="PYTHON")
    options, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
