"""Which samples a run trains on, and with how many threads it loads them."""

import os
import pathlib
import socket
import subprocess
import tempfile
import time
import unittest

import jobs

FAKE = ["--dataset", "fake", "--image-size", "16", "--model", "dummy", "--batch-size", "8",
        "--fake-train-samples", "200", "--fake-test-samples", "10"]
PATIENCE_S = 120


class Loading(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name)

    def trained_on(self, *flags):
        """The samples of an epoch of two ranks, including repeated ones."""
        trace = self.root / f"trace{len(list(self.root.iterdir()))}"
        jobs.final(jobs.Run(
            [jobs.DDPTRAIN, *FAKE, "--workers", "1", "--sample-trace", str(trace), *flags], 2).wait())
        return [sample for record in jobs.records(trace) for sample in record["samples"]]

    def test_a_limit_counts_what_is_trained_on_after_the_split(self):
        whole = self.trained_on("--validation-share", "0.1", "--limit-train-samples", "0")
        self.assertEqual((180, 180), (len(whole), len(set(whole))))
        limited = self.trained_on("--validation-share", "0.1", "--limit-train-samples", "100")
        self.assertEqual((100, 100), (len(limited), len(set(limited))))
        self.assertEqual(set(), set(limited) - set(whole))

    def threads_of(self, environment, *flags):
        """The threads of the second of two Slurm tasks on this machine, which wait before their second step."""
        metrics = self.root / f"metrics{len(list(self.root.iterdir()))}"
        command = [jobs.DDPTRAIN, *FAKE, "--metrics-file", str(metrics), "--inject", "hang@2,rank=all", *flags]
        others = {name: value for name, value in os.environ.items()
                  if not name.startswith("SLURM_") and name not in jobs.RANK_VARIABLES}
        # Bound to it, so that no other process is given it; rank 0 may listen there.
        reservation = self.enterContext(socket.socket())
        reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reservation.bind(("127.0.0.1", 0))
        port = reservation.getsockname()[1]
        tasks = [subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=others | jobs.ENVIRONMENT | environment | {
                "SLURM_PROCID": str(task), "SLURM_NTASKS": "2", "SLURM_LOCALID": str(task),
                "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)})
            for task in range(2)]
        try:
            deadline = time.monotonic() + PATIENCE_S
            while not (metrics.exists() and any(one["step"] == 1 for one in jobs.records(metrics))):
                self.assertEqual([None, None], [task.poll() for task in tasks])
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.05)
            return len(list(pathlib.Path(f"/proc/{tasks[1].pid}/task").iterdir()))
        finally:
            for task in tasks:
                task.kill()
                task.wait()

    def test_a_task_of_slurms_loads_with_all_of_its_cpus(self):
        """A regression: it took half of them, as if a launcher had forked two ranks in one task."""
        without = self.threads_of({"SLURM_CPUS_PER_TASK": "6"}, "--workers", "0")
        self.assertEqual(6, self.threads_of({"SLURM_CPUS_PER_TASK": "6"}) - without)
        forked = {"SLURM_CPUS_PER_TASK": "6", "TORCHELASTIC_RUN_ID": "1"}
        self.assertEqual(3, self.threads_of(forked) - without)


if __name__ == "__main__":
    unittest.main(verbosity=2)
