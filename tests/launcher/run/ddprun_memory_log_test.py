"""`ddprun --memory-log`: what it writes, and that it never harms the job.

    ddprun_memory_log_test.py --ddprun PROGRAM --ddpctl PROGRAM --fake-worker PROGRAM
                              --fake-nvml DIRECTORY [unittest arguments]

A job that samples GPUs reports each sample by a FIFO (tests/support/fake_nvml.cpp); as many samples of
processes have been written by then.
"""

import argparse
import os
import pathlib
import re
import resource
import select
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

options = argparse.Namespace()
PATIENCE_S = 60
GPU_HEADER = "timestamp, index, name, memory.used [MiB], memory.total [MiB]"
USAGE_HEADER = "timestamp, index, name, temp_c, power_w, gpu_percent, memory_percent"
TIMESTAMP = r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}"

# At a signal it allocates memory, real (written to) and virtual, and so does a grandchild in a separate
# session; uses one second of CPU time; reports its pid; ends at the next signal.
TAKES_MEMORY = """
import mmap, os, sys, time

notes, begin, end = sys.argv[1], *(os.open(path, os.O_RDONLY) for path in sys.argv[2:])
os.read(begin, 1)
began_s = time.process_time()
real = b"x" * (int(os.environ["RANK"]) * 20 + 60 << 20)
more = mmap.mmap(-1, 300 << 20)
if os.fork() == 0:
    os.setsid()
    if os.fork() != 0:
        os._exit(0)
    own = b"y" * (40 << 20)
else:
    os.wait()
    while time.process_time() < began_s + 1:
        pass
with open(notes, "w") as file:
    file.write(f"{os.getpid()}\\n")
os.read(end, 1)
os._exit(0)
"""


class Fifo:
    """Open for both, so it never ends, and opening it never blocks."""

    def __init__(self, path):
        self.path = str(path)
        os.mkfifo(self.path)
        self.file = os.fdopen(os.open(self.path, os.O_RDWR), "r+b", buffering=0)
        self.rest = b""

    def lines(self, count):
        while self.rest.count(b"\n") < count:
            ready, _, _ = select.select([self.file], [], [], PATIENCE_S)
            assert ready, f"only {self.rest!r} after {PATIENCE_S} s"
            self.rest += self.file.read(65536)
        *lines, self.rest = self.rest.split(b"\n", count)
        return [line.decode() for line in lines]

    def later_lines(self, count):
        """`count` samples written from now on, and one that may be in progress."""
        os.set_blocking(self.file.fileno(), False)
        self.file.read(1 << 20)
        os.set_blocking(self.file.fileno(), True)
        self.rest = b""
        return self.lines(count + 1)


def rss_mb(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)[1]) / 1024


def processor_s():
    """Of all processes that this one has reaped, and that those have reaped."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def child_of(pid):
    # Of whichever thread: the agent has one that starts workers.
    (child,) = (child for task in pathlib.Path(f"/proc/{pid}/task").iterdir()
                for child in (task / "children").read_text().split())
    return int(child)


def await_end(pidfd):
    assert select.select([pidfd], [], [], PATIENCE_S)[0], "a process is still there"
    os.close(pidfd)


class Case(unittest.TestCase):
    def setUp(self):
        self.room = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.samples = Fifo(self.room / "samples")
        self.notes = Fifo(self.room / "notes")
        self.begin = Fifo(self.room / "begin")
        self.end = Fifo(self.room / "end")
        for fifo in (self.samples, self.notes, self.begin, self.end):
            self.addCleanup(fifo.file.close)

    def environment(self, gpus=None, **more):
        """Without any GPU, or with those of the fake library; `gpus` sets its behavior."""
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith(("SLURM_", "PET_", "CUDA_"))}
        if gpus is not None:
            kept |= {"LD_LIBRARY_PATH": os.path.abspath(options.fake_nvml), "FAKE_NVML": gpus,
                     "FAKE_NVML_NOTES": self.samples.path}
        return kept | more

    def start(self, *program, flags=(), environment=None, interval="0.1", before=(),
              **how):
        job = subprocess.Popen(
            [*before, os.path.abspath(options.ddprun), "--log-dir", "/dev/null", "--rdzv-id", "run7",
             "--memory-log", "logs", *(("--memory-log-interval", interval) if interval else ()),
             *flags, "--no-python", *program],
            cwd=self.room, env=environment or self.environment(gpus="well"), text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **how)
        self.addCleanup(self.clean_up, job)
        return job

    @staticmethod
    def clean_up(job):
        job.kill()
        job.communicate(timeout=PATIENCE_S)

    def start_until_told(self, **how):
        return self.start(os.path.abspath(options.fake_worker), "read", self.end.path, "exit", "0", **how)

    def tell(self, workers=1):
        self.end.file.write(b"e" * workers)

    def end_of(self, job):
        out, err = job.communicate(timeout=PATIENCE_S)
        return argparse.Namespace(status=job.returncode, out=out, err=err)

    def run_job(self, **how):
        return self.end_of(self.start(os.path.abspath(options.fake_worker), "exit", "0", **how))

    def lines(self, name):
        text = (self.room / "logs" / name).read_text()
        self.assertTrue(text.endswith("\n"), text[-80:])
        return text.splitlines()

    def cpu_rows(self, job="run7"):
        header, *rows = self.lines(f"cpu_memory/{job}/cpu_memory_log.txt")
        self.assertTrue(header.startswith("#"), header)
        return [[float(column) for column in row.split()] for row in rows]


class Gpus(Case):
    def test_memory_and_usage_have_a_row_for_each_gpu_and_sample(self):
        job = self.start_until_told()
        self.samples.lines(3)
        self.tell()
        self.assertEqual((0, ""), (lambda e: (e.status, e.err))(self.end_of(job)))

        header, *rows = self.lines("gpu_memory/run7/gpu_memory_log.csv")
        self.assertEqual(GPU_HEADER, header)
        self.assertGreaterEqual(len(rows), 2 * 2)
        self.assertEqual(0, len(rows) % 2)
        for number, row in enumerate(rows):
            self.assertRegex(row, rf"\A{TIMESTAMP}, " + (
                "1, Fake GPU B, 1001, 81920" if number % 2 else "0, Fake GPU A, 1000, 81920") + r"\Z")

        header, *usage = self.lines("gpu_usage/run7/gpu_usage_log.csv")
        self.assertEqual(USAGE_HEADER, header)
        self.assertEqual(len(rows), len(usage))
        self.assertRegex(usage[0], rf"\A{TIMESTAMP}, 0, Fake GPU A, 41, 123\.45, 97, 31\Z")
        self.assertRegex(usage[1], rf"\A{TIMESTAMP}, 1, Fake GPU B, 42, , , \Z")

    def test_where_none_was_given_to_the_job_nothing_is_said(self):
        ended = self.run_job(environment=self.environment(CUDA_VISIBLE_DEVICES=""))
        self.assertEqual((0, ""), (ended.status, ended.err))
        self.assertEqual(["cpu_memory"], os.listdir(self.room / "logs"))
        self.assertTrue(self.cpu_rows())

    def test_where_some_were_one_line_says_what_is_missing(self):
        ended = self.run_job(environment=self.environment(CUDA_VISIBLE_DEVICES="0"))
        self.assertEqual(0, ended.status)
        self.assertRegex(ended.err, r"\A[^\n]*--memory-log: GPUs are not sampled: libnvidia-ml\.so\.1: "
                                    r"[^\n]*\n\Z")
        ended = self.run_job(
            environment=self.environment(gpus="driverless", CUDA_VISIBLE_DEVICES="0"))
        self.assertIn("not sampled: libnvidia-ml.so.1: Driver Not Loaded\n", ended.err)
        self.assertEqual(["cpu_memory"], os.listdir(self.room / "logs"))

    def test_a_driver_that_never_answers_does_not_hold_up_the_job(self):
        job = self.start_until_told(environment=self.environment(gpus="stuck"))
        self.samples.lines(1)
        self.tell()
        ended = self.end_of(job)
        self.assertEqual((0, ""), (ended.status, ended.err))


class Processes(Case):
    def start_family(self, workers=2):
        script = self.room / "takes_memory.py"
        script.write_text(TAKES_MEMORY)
        job = self.start(sys.executable, str(script), self.notes.path, self.begin.path, self.end.path,
                         flags=("--nproc-per-node", str(workers)))
        self.samples.lines(1)
        self.begin.file.write(b"b" * workers)
        return job, [int(pid) for pid in self.notes.lines(2 * workers)]

    def test_real_memory_is_that_of_workers_and_all_that_descends_from_them(self):
        job, pids = self.start_family()
        self.samples.later_lines(1)
        expected = sum(rss_mb(pid) for pid in pids)
        row = self.cpu_rows()[-1]
        self.tell(len(pids))
        self.assertEqual(0, self.end_of(job).status)
        self.assertEqual(4, len(row))
        self.assertAlmostEqual(row[2], expected, delta=0.05 * expected)
        self.assertGreater(row[3], row[2] + 2 * 300)

    def test_percent_and_seconds_come_to_the_time_of_the_processors(self):
        before = processor_s()
        job, pids = self.start_family()
        self.samples.later_lines(1)
        self.tell(len(pids))
        self.assertEqual(0, self.end_of(job).status)
        rows = self.cpu_rows()
        used_s = sum(row[1] / 100 * (row[0] - before[0]) for before, row in zip(rows, rows[1:]))
        self.assertGreater(used_s, 1.9)  # a second each, less what the kernel's ticks leave out
        self.assertLess(used_s, processor_s() - before + 0.1)
        self.assertEqual(sorted(row[0] for row in rows), [row[0] for row in rows])

    def test_every_five_seconds_unless_asked(self):
        job = self.start_until_told(interval=None)
        self.samples.lines(2)
        self.tell()
        self.assertEqual(0, self.end_of(job).status)
        elapsed = [row[0] for row in self.cpu_rows()]
        self.assertGreater(len(elapsed), 1)
        for before, after in zip(elapsed, elapsed[1:]):  # the end of the job adds no sample
            self.assertGreaterEqual(after - before, 4.5)

    def test_ddpctl_reads_them(self):
        job, pids = self.start_family()
        self.samples.later_lines(1)
        self.tell(len(pids))
        self.assertEqual(0, self.end_of(job).status)
        told = subprocess.run([os.path.abspath(options.ddpctl), "analyze-memory", "run7", "--path",
                               str(self.room / "logs"), "--strict"],
                              capture_output=True, text=True, timeout=PATIENCE_S)
        self.assertEqual((0, ""), (told.returncode, told.stderr))
        self.assertIn("[gpu_memory_log - GPU 0] Peak = 1000 MiB, Avg = 1000.00 MiB, Mode = 1000 MiB\n"
                      "[gpu_memory_log - GPU 1] Peak = 1001 MiB, Avg = 1001.00 MiB, Mode = 1001 MiB\n",
                      told.stdout)
        peak = max(row[2] for row in self.cpu_rows())
        self.assertIn(f"   Peak =    {peak:.0f} MB\n", told.stdout)


class TheEnd(Case):
    def test_sampling_continues_through_a_restart(self):
        job = self.start(os.path.abspath(options.fake_worker), "restarted", "0", "note",
                         self.notes.path, "up", "read", self.end.path, "exit", "3",
                         flags=("--max-restarts", "1"))
        self.notes.lines(1)
        self.samples.lines(1)
        self.tell()
        self.assertEqual(0, self.end_of(job).status)
        elapsed = [row[0] for row in self.cpu_rows()]
        self.assertEqual(sorted(elapsed), elapsed)

    def test_nothing_is_left_when_the_agent_is_killed_and_a_later_job_appends(self):
        job = self.start_until_told()
        self.samples.lines(2)
        agent = child_of(job.pid)
        watched = [os.pidfd_open(pid) for pid in (agent, child_of(agent))]
        os.kill(agent, signal.SIGKILL)
        self.assertEqual(128 + signal.SIGKILL, self.end_of(job).status)
        for pidfd in watched:
            await_end(pidfd)
        before = self.cpu_rows()
        self.assertEqual(0, self.run_job().status)
        self.assertEqual(before, self.cpu_rows()[:len(before)])
        self.assertGreater(len(self.cpu_rows()), len(before))
        self.assertEqual(1, self.lines("gpu_memory/run7/gpu_memory_log.csv").count(GPU_HEADER))


class NeverHarmsTheJob(Case):
    ENDS = r"\A[^\n]*--memory-log: [^\n]*; no more samples are taken, the job continues\n\Z"

    def assert_said_once(self, what, ended):
        self.assertEqual(0, ended.status)
        self.assertRegex(ended.err, self.ENDS)
        self.assertIn(what, ended.err)

    def test_a_directory_that_cannot_be_made(self):
        (self.room / "logs").write_text("a file")
        self.assert_said_once("cannot write logs/cpu_memory/run7/cpu_memory_log.txt: Not a directory",
                              self.run_job())

    def test_something_else_in_the_place_of_a_file(self):
        place = self.room / "logs/cpu_memory/run7"
        place.mkdir(parents=True)
        os.mkfifo(place / "cpu_memory_log.txt")
        reader = os.open(place / "cpu_memory_log.txt", os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        self.assert_said_once("not a regular file", self.run_job())

    @unittest.skipUnless(os.getuid() == 0, "only root can mount")
    def test_a_directory_that_is_read_only(self):
        (self.room / "logs").mkdir()
        mounted = ("unshare", "--mount", "sh", "-ec",
                   'mount -t tmpfs -o ro none logs; touch mounted; exec "$@"', "sh")
        ended = self.run_job(before=mounted)
        if not (self.room / "mounted").exists():
            self.skipTest("mounts are forbidden here")
        self.assert_said_once("Read-only file system", ended)

    def test_a_disk_that_is_full_keeps_whole_rows(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))

        job = self.start_until_told(environment=self.environment(), preexec_fn=limit)
        said = job.stderr.readline()
        self.tell()
        ended = self.end_of(job)
        self.assert_said_once("File too large", argparse.Namespace(status=ended.status,
                                                                   err=said + ended.err))
        self.assertEqual([4] * 2, [len(row) for row in self.cpu_rows()])

    def test_a_second_agent_of_the_job_on_this_host(self):
        # Bound to it, so that no other process is given it; ddprun may listen there.
        reservation = self.enterContext(socket.socket())
        reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reservation.bind(("127.0.0.1", 0))
        endpoint = f"127.0.0.1:{reservation.getsockname()[1]}"
        jobs = [self.start_until_told(flags=("--nnodes", "2", "--node-rank", rank, "--rdzv-backend",
                                             "c10d", "--rdzv-endpoint", endpoint))
                for rank in "01"]
        self.samples.lines(2)
        self.tell(2)
        ended = [self.end_of(job) for job in jobs]
        self.assertEqual([0, 0], [node.status for node in ended])
        self.assert_said_once("another ddprun of this job's id on this host writes",
                              argparse.Namespace(status=0, err="".join(node.err for node in ended)))
        host = socket.gethostname()
        self.lines(f"cpu_memory/run7/cpu_memory_log_{host}.txt")
        self.lines(f"gpu_memory/run7/gpu_memory_log_{host}.csv")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    for flag in ("--ddprun", "--ddpctl", "--fake-worker", "--fake-nvml"):
        parser.add_argument(flag, required=True)
    options, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
