"""`ddpctl analyze-memory` and `ddpctl scaling-report` as programs, on logs as KAUST's workshop has them.

    ddpctl_reports_test.py --ddpctl PROGRAM [unittest arguments]
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

options = argparse.Namespace()
PATIENCE_S = 60
HEADER = "timestamp, index, name, memory.used [MiB], memory.total [MiB]\n"
USED = (1, 10000, 26532, 26532, 26532)
BAD_FILE = 78


def gpu_log(gpus=2):
    """Each sample of GPU 1 is one above that of GPU 0, and so on."""
    return HEADER + "".join(
        f"2025/06/01 10:00:00.000, {gpu}, NVIDIA A100-SXM4-80GB, {used + gpu}, 81920\n"
        for used in USED for gpu in range(gpus))


def training_log(world, throughput):
    lines = [f"[Rank 0] World size: {world}"]
    lines += [f"Epoch [{epoch}/3] LR: 0.100000 | Loss (train, val): 5.149, 5.664 | Accuracy (train, "
              f"val): 2.16%, 0.98% | Throughput: {throughput + epoch:.1f} img/s" for epoch in (1, 2, 3)]
    return "\n".join(lines) + "\nFinished Training\n"


class Reports(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.room = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def write(self, name, text):
        file = self.room / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def run_with(self, *words):
        return subprocess.run([os.path.abspath(options.ddpctl), *words], capture_output=True, text=True,
                              cwd=self.room, timeout=PATIENCE_S)

    def assert_prints(self, lines, *words, status=0):
        ended = self.run_with(*words)
        self.assertEqual("".join(f"{line}\n" for line in lines), ended.stdout)
        self.assertEqual(status, ended.returncode, ended.stderr)
        self.assertEqual(bool(status), bool(ended.stderr))

    def assert_refused(self, part, *words):
        ended = self.run_with(*words)
        self.assertEqual((2, ""), (ended.returncode, ended.stdout))
        self.assertRegex(ended.stderr, r"\Addpctl: [^\n]{1,200}\n\Z")
        self.assertIn(part, ended.stderr)


class AnalyzeMemory(Reports):
    GPU_LINES = ["[gpu_memory_log - GPU 0] Peak = 26532 MiB, Avg = 17919.40 MiB, Mode = 26532 MiB",
                 "[gpu_memory_log - GPU 1] Peak = 26533 MiB, Avg = 17920.40 MiB, Mode = 26533 MiB"]
    CPU_LINES = ["   Peak =    3892 MB", "   Average = 2598.17 MB", "   Mode =    3892 MB"]

    def write_logs(self):
        self.write("gpu_memory/117/gpu_memory_log.csv", gpu_log())
        self.write("cpu_memory/117/cpu_memory_log.txt",
                   "# Elapsed time   CPU (%)     Real (MB)   Virtual (MB)\n"
                   "0.000 0.0 10.5 100\n5.001 99.0 3892 5000\n10.002 99.0 3892 5000\n")

    def test_prints_what_the_workshops_tool_prints(self):
        self.write_logs()
        self.assert_prints(
            ["Analyzing logs for job ID: 117 under .", "", "GPU Memory Usage", *self.GPU_LINES, "",
             "CPU Memory Usage", *self.CPU_LINES], "analyze-memory", "117")

    def test_one_half_may_be_left_out(self):
        self.write_logs()
        first = f"Analyzing logs for job ID: 117 under {self.room}"
        path = f"--path={self.room}"
        self.assert_prints([first, "", "GPU Memory Usage", *self.GPU_LINES],
                           "analyze-memory", "117", path, "--gpu-only")
        self.assert_prints([first, "", "CPU Memory Usage", *self.CPU_LINES],
                           "analyze-memory", "117", path, "--cpu-only")

    def test_files_of_several_nodes_in_order(self):
        for node in ("b", "a"):
            self.write(f"gpu_memory/117/gpu_memory_log_{node}.csv", gpu_log(gpus=1))
        self.write("gpu_memory/117/notes.txt", "no log")
        self.assert_prints(
            ["Analyzing logs for job ID: 117 under .", "", "GPU Memory Usage",
             *(self.GPU_LINES[0].replace("log -", f"log_{node} -") for node in "ab")],
            "analyze-memory", "117", "--gpu-only")

    def test_the_processes_of_several_nodes_in_order(self):
        for node, real in (("b", 20), ("a", 10)):
            self.write(f"cpu_memory/117/cpu_memory_log_{node}.txt", f"# header\n0.0 0.0 {real} 100\n")
        self.write("cpu_memory/117/notes.txt", "no log")
        self.assert_prints(
            ["Analyzing logs for job ID: 117 under .", "", "CPU Memory Usage",
             "[cpu_memory_log_a]", "   Peak =    10 MB", "   Average = 10.00 MB", "   Mode =    10 MB",
             "[cpu_memory_log_b]", "   Peak =    20 MB", "   Average = 20.00 MB", "   Mode =    20 MB"],
            "analyze-memory", "117", "--cpu-only", "--strict")

    def test_without_the_idle_start(self):
        self.write_logs()
        self.assert_prints(
            ["Analyzing logs for job ID: 117 under .", "", "GPU Memory Usage",
             *(line.replace("17919.40", "26532.00").replace("17920.40", "26533.00")
               for line in self.GPU_LINES)],
            "analyze-memory", "117", "--gpu-only", "--skip-warmup")

    def test_what_is_missing_is_named_and_no_failure_unless_asked(self):
        lines = ["Analyzing logs for job ID: 118 under .",
                 "[!] GPU log directory not found: ./gpu_memory/118",
                 "[!] CPU log not found: ./cpu_memory/118/cpu_memory_log.txt"]
        self.assert_prints(lines, "analyze-memory", "118")
        self.assert_prints(lines, "analyze-memory", "118", "--strict", status=BAD_FILE)
        (self.room / "gpu_memory/118").mkdir(parents=True)
        lines[1] = "[!] No GPU logs found in ./gpu_memory/118"
        self.assert_prints(lines, "analyze-memory", "118")

    def test_a_log_that_cannot_be_read_is_named_and_the_others_count(self):
        self.write_logs()
        self.write("gpu_memory/117/a.csv", "nonsense\n")
        self.write("cpu_memory/117/cpu_memory_log.txt", "# nothing\n")
        self.assert_prints(
            ["Analyzing logs for job ID: 117 under .", "", "GPU Memory Usage",
             "[!] Failed to read ./gpu_memory/117/a.csv: line 1, 'nonsense': expected the header of "
             "nvidia-smi's table, five columns", *self.GPU_LINES,
             "[!] Failed to read ./cpu_memory/117/cpu_memory_log.txt: it has no samples"],
            "analyze-memory", "117", "--strict", status=BAD_FILE)

    def test_refuses_bad_usage(self):
        self.assert_refused("job is required", "analyze-memory")
        self.assert_refused("'../117' is not a job id", "analyze-memory", "../117")
        self.assert_refused("--gpu-only", "analyze-memory", "117", "--gpu-only", "--cpu-only")


class ScalingReport(Reports):
    HEADING = ["| Nodes | GPUs | Train loss | Val loss | Train accuracy % | Val accuracy % | img/s | "
               "Throughput factor | GPU 0 peak MiB | GPU 0 average MiB | GPU 0 mode MiB | "
               "Memory factor |", "|" + " ---: |" * 12]

    def row(self, nodes, gpus, throughput, factor, memory="26532 | 17919.40 | 26532 | 1.00"):
        return (f"| {nodes} | {gpus} | 5.149 | 5.664 | 2.16 | 0.98 | {throughput} | {factor} | "
                f"{memory} |")

    def write_logs(self):
        for job, (name, world, throughput) in enumerate(
                (("ddp_G1N1", 1, 697), ("ddp_2G1N", 2, 1397), ("ddp_2G2N", 4, 2097)), start=1):
            self.write(f"log/{name}-{job}.out", training_log(world, throughput))
            self.write(f"gpu_memory/{job}/gpu_memory_log.csv", gpu_log())
        return sorted(str(file) for file in (self.room / "log").iterdir())

    def tables(self):
        return ["", "Scaling over the GPUs of one node, epoch 3", "", *self.HEADING,
                self.row(1, 1, "700.0", "1.00"), self.row(1, 2, "1400.0", "2.00"),
                "", "Scaling over nodes, epoch 3", "", *self.HEADING,
                self.row(1, 2, "1400.0", "1.00"), self.row(2, 4, "2100.0", "1.50")]

    def test_prints_both_tables_with_factors(self):
        logs = self.write_logs()
        self.assert_prints(self.tables(), "scaling-report", *logs)

    def test_another_epoch(self):
        logs = self.write_logs()
        self.assertIn("| 698.0 | 1.00 |", self.run_with("scaling-report", "--epoch=1", *logs).stdout)

    def test_what_is_missing_is_named_and_the_rest_is_told(self):
        logs = self.write_logs()
        self.write("log/other.out", "")
        self.write("log/ddp_4G1N-9.out", training_log(2, 1))
        self.write("log/ddp_8G1N-10.out", training_log(8, 2097))
        words = ["scaling-report", "log/other.out", "log/ddp_4G1N-9.out", "log/ddp_8G1N-10.out", *logs]
        lines = [
            "[!] 'other.out' is not a name such as ddp_2G4N-117.out (GPUs per node, nodes, job)",
            "[!] log/ddp_4G1N-9.out: its world size is 2, but its name says 4 GPUs",
            "[!] GPU log directory not found: ./gpu_memory/10", *self.tables()]
        lines.insert(3 + 7, self.row(1, 8, "2100.0", "3.00", "- | - | - | -"))
        self.assert_prints(lines, *words)
        self.assert_prints(lines, *words, "--strict", status=BAD_FILE)

    def test_refuses_bad_usage(self):
        self.assert_refused("logs is required", "scaling-report")
        self.assert_refused("--epoch", "scaling-report", "a", "--epoch=0")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddpctl", required=True)
    rest = parser.parse_known_args(namespace=options)[1]
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
