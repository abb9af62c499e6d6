"""The command lines of PyTorch's own tests of its launchers end under ddprun as they do there:

    launcher_lines_test.py --python INTERPRETER [--ddprun PROGRAM] [unittest arguments]

Without --ddprun it tries torchrun, by the same lines. They are those of test/distributed/launcher/test_run.py and
launch_test.py in PyTorch, but for the one that needs two GPUs.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import uuid

from culprit_drill import free_port

SCRIPTS = pathlib.Path(__file__).resolve().parent / "scripts"
PATIENCE_S = 180  # for a broken build to fail and not to hang; no test depends on it

options = argparse.Namespace()


class Case(unittest.TestCase):
    def setUp(self):
        self.room = tempfile.mkdtemp(prefix="ddprun_lines_")
        self.addCleanup(shutil.rmtree, self.room, ignore_errors=True)
        self.files = tempfile.mkdtemp(dir=self.room)
        self.run_id = str(uuid.uuid4().int)
        self.python_script = [str(SCRIPTS / "touch_rank.py"), f"--touch-file-dir={self.files}"]
        self.shell_script = [str(SCRIPTS / "touch_rank.sh"), self.files]

    def start(self, *words, **variables):
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        job = subprocess.Popen(
            [*options.launcher, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**kept, "PYTHON_EXEC": options.python, "TMPDIR": self.room, "OF_THE_PARENT": "yes", **variables},
            text=True)
        self.addCleanup(self.clean_up, job)
        return job

    @staticmethod
    def clean_up(job):
        if job.poll() is None:
            job.terminate()  # which ends its workers too
        job.communicate(timeout=PATIENCE_S)

    def end(self, *words, **variables):
        job = self.start(*words, **variables)
        out, err = job.communicate(timeout=PATIENCE_S)
        return argparse.Namespace(status=job.returncode, out=out, err=err)

    def runs(self, *words, **variables):
        ended = self.end(*words, **variables)
        self.assertEqual(0, ended.status, ended.err)
        return ended

    def is_refused(self, *words, **variables):
        ended = self.end(*words, **variables)
        self.assertNotEqual(0, ended.status)
        self.assertEqual([], os.listdir(self.files), "something ran")

    def assert_ranks(self, count):
        self.assertEqual({str(rank) for rank in range(count)}, set(os.listdir(self.files)))


class OneNode(Case):
    def flags(self, workers=4):
        return ["--nnodes=1", f"--nproc-per-node={workers}", f"--rdzv-id={self.run_id}", "--monitor-interval=1",
                "--start-method=spawn"]

    def test_a_python_script(self):
        self.runs(*self.flags(), *self.python_script)
        self.assert_ranks(4)

    def test_a_python_script_without_an_id(self):
        self.runs("--nnodes=1", "--nproc-per-node=4", "--monitor-interval=1", "--start-method=spawn",
                  *self.python_script)
        self.assert_ranks(4)

    def test_a_python_script_with_the_masters_address(self):
        self.runs("--nnodes=1", "--nproc-per-node=4", "--monitor-interval=1", "--start-method=spawn",
                  "--master-addr=localhost", f"--master-port={free_port()}", "--node-rank=0", *self.python_script)
        self.assert_ranks(4)

    def test_a_program(self):
        self.runs(*self.flags(), "--no-python", *self.shell_script)
        self.assert_ranks(4)

    def test_a_program_that_is_to_be_a_module(self):
        self.is_refused(*self.flags(), "--no-python", "--module", *self.shell_script)

    def test_a_program_without_a_number_of_workers(self):
        self.runs("--nnodes=1", f"--rdzv-id={self.run_id}", "--monitor-interval=1", "--start-method=spawn",
                  "--no-python", *self.shell_script)
        self.assert_ranks(1)

    def test_flags_by_the_environment(self):
        variables = {"PET_NNODES": "1", "PET_NPROC_PER_NODE": "4", "PET_RDZV_ID": self.run_id,
                     "PET_MONITOR_INTERVAL": "1", "PET_START_METHOD": "spawn", "PET_NO_PYTHON": "1"}
        self.is_refused(*self.shell_script, **variables, PET_MODULE="1")
        self.runs(*self.shell_script, **variables, PET_MODULE="0")
        self.assert_ranks(4)

    def test_a_worker_for_each_cpu_where_there_is_no_gpu(self):
        self.runs(*self.flags("auto"), "--no-python", *self.shell_script, CUDA_VISIBLE_DEVICES="")
        self.assert_ranks(len(os.sched_getaffinity(0)))

    def test_a_number_of_workers_that_is_none(self):
        self.is_refused(*self.flags("unknown"), "--no-python", *self.shell_script)

    def test_a_worker_for_each_gpu_where_there_is_none(self):
        for kind in ("gpu", "xpu"):
            with self.subTest(kind):
                self.is_refused(*self.flags(kind), "--no-python", *self.shell_script, CUDA_VISIBLE_DEVICES="")

    def test_standalone(self):
        self.runs("--nnodes=1", "--nproc-per-node=4", "--standalone", "--monitor-interval=1", "--start-method=spawn",
                  *self.python_script)
        self.assert_ranks(4)

    def test_run_path(self):
        self.runs("--run-path", "--nnodes=1", "--nproc-per-node=4", "--monitor-interval=1", "--start-method=spawn",
                  *self.python_script)
        self.assert_ranks(4)

    def test_three_numbers_of_nodes(self):
        self.is_refused("--nnodes=2:20:30", *self.python_script)

    def test_logs_are_kept_and_shown_with_a_prefix(self):
        ended = self.runs(*self.flags(), "--redirect=3", "--tee=3", "--no-python", *self.shell_script,
                          TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE="[rank${rank}]: ")
        for rank in range(4):
            self.assertIn(f"[rank{rank}]: rank {rank} makes ", ended.out)

    def test_torchruns_own_logs_specs(self):
        self.runs("--run-path", "--nnodes=1", "--nproc-per-node=1", "--monitor-interval=1", "--logs_specs=default",
                  *self.python_script)
        self.assert_ranks(1)

    def test_other_logs_specs(self):
        self.is_refused("--run-path", "--nnodes=1", "--nproc-per-node=1", "--monitor-interval=1",
                        "--logs_specs=DOESNOT_EXIST", *self.python_script)


class Groups(Case):
    def flags(self, port):
        return ["--run-path", "--nnodes=1", "--nproc-per-node=4", "--master-addr=localhost", f"--master-port={port}",
                "--monitor-interval=1", str(SCRIPTS / "sum_ones.py")]

    def test_by_the_masters_address_and_port(self):
        port = free_port()
        self.runs(*self.flags(port), f"--init-method=tcp://localhost:{port}")

    def test_by_the_environment(self):
        self.runs(*self.flags(free_port()), "--init-method=env://")


class Elastic(Case):
    def flags(self, settings):
        return ["--nnodes=1:2", "--nproc-per-node=4", "--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{free_port()}",
                settings, f"--rdzv-id={self.run_id}", "--monitor-interval=1", "--start-method=spawn"]

    def test_one_of_two_nodes(self):
        self.runs(*self.flags("--rdzv-conf='join_timeout=5,last_call_timeout=1,timeout=5'"), *self.python_script)
        self.assert_ranks(4)

    def test_one_of_two_nodes_whose_workers_fail(self):
        ended = self.end(*self.flags("--rdzv-conf='join_timeout=5,last_call_timeout=1,timeout=5'"), "--max-restarts=0",
                         self.python_script[0], "--fail")
        self.assertEqual(1, ended.status, ended.err)

    def test_two_nodes(self):
        words = [*self.flags("--rdzv_conf=timeout=5"), *self.python_script]
        other = self.start(*words)
        self.runs(*words)
        out, err = other.communicate(timeout=PATIENCE_S)
        self.assertEqual(0, other.returncode, out + err)
        self.assert_ranks(8)


class Launch(Case):
    """torch.distributed.launch, which `ddprun --no-use-env` stands for."""

    def flags(self):
        return ["--nnodes=1", "--nproc-per-node=4", "--monitor-interval=1", "--start-method=spawn",
                "--master-addr=localhost", f"--master-port={free_port()}", "--node-rank=0"]

    def setUp(self):
        super().setUp()
        if "torch.distributed.run" in options.launcher:
            self.skipTest("torch.distributed.launch is another program there")

    def test_without_the_environment(self):
        self.runs("--no-use-env", *self.flags(), str(SCRIPTS / "needs_local_rank.py"))

    def test_with_the_environment(self):
        self.runs(*self.flags(), "--use-env", *self.python_script)
        self.assert_ranks(4)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--python", required=True, help="with torch, for the workers")
    parser.add_argument("--ddprun", help="the program; left out: torchrun of that interpreter")
    given, rest = parser.parse_known_args()
    options.python = given.python
    options.launcher = [given.ddprun] if given.ddprun else [given.python, "-m", "torch.distributed.run"]
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
