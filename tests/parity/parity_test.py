"""Weights, losses and accuracy of ddptrain against Python's DistributedDataParallel.

Where MNIST is at hand and the AVX2 kernels can be had, against the table in expected.json, which
Python made; else against Python on this machine, run beside it.
"""

import json
import pathlib
import sys
import tempfile
import unittest

import jobs

EXPECTED = json.loads((jobs.HERE / "expected.json").read_text())
JOBS = {
    "J1": ["--model", "convnet", "--limit-train-samples", "6400", "--first-epoch", "1",
           "--epochs", "2"],
    "J2": ["--model", "simple_conv_net", "--limit-train-samples", "1600", "--epochs", "2"],
}
BATCH = {"J1": 64, "J2": 32}  # of all ranks together


def flags(job, world):
    dataset, directory = jobs.find_data()
    return [*JOBS[job], "--dataset", dataset, "--data-dir", directory,
            "--limit-test-samples", "500", "--batch-size", str(BATCH[job] // world)]


class Parity(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)

    def train(self, command, world):
        """(fields of the last line, records, kernels or None)"""
        metrics = pathlib.Path(self.directory.name, f"metrics-{len(command)}-{command[0][-6:]}")
        results = jobs.Run([*command, "--metrics-file", str(metrics)], world).wait()
        fields = jobs.final(results)
        return fields, jobs.records(metrics), results

    def assert_equals_python(self, job, world):
        fields, records, results = self.train([jobs.DDPTRAIN, *flags(job, world)], world)
        dataset, _ = jobs.find_data()
        if dataset == "mnist" and jobs.kernels(results) == "AVX2":
            self.assert_equals_table(EXPECTED[job][str(world)], fields, records)
        else:
            self.assert_equals_peer(job, world, fields, records)

    def assert_equals_table(self, expected, fields, records):
        steps = [r["loss"] for r in records if r["event"] == "step"]
        epochs = [r for r in records if r["event"] == "epoch"]
        for index, loss in expected.get("step_losses", {}).items():
            self.assertAlmostEqual(steps[int(index)], loss, delta=5.1e-7)
        self.assertAlmostEqual(epochs[-1]["loss"], expected["loss"], delta=5.1e-7)
        self.assertAlmostEqual(epochs[-1]["accuracy"], expected["accuracy"], delta=5.1e-5)
        self.assertEqual(fields["weights_sha256"], expected["weights_sha256"])

    def assert_equals_peer(self, job, world, fields, records):
        peer, peer_records, _ = self.train([*jobs.PYTHON_PEER, *flags(job, world)], world)
        ours, theirs = ([r["loss"] for r in of if r["event"] == "step"]
                        for of in (records, peer_records))
        worst = max(abs(a - b) for a, b in zip(ours, theirs, strict=True))
        print(f"{job} world {world}: largest difference of a loss {worst}", file=sys.stderr)
        self.assertEqual(ours, theirs)
        self.assertEqual(fields["weights_sha256"], peer["weights_sha256"])

    def test_j1_at_world_1(self):
        self.assert_equals_python("J1", 1)

    def test_j1_at_world_2(self):
        self.assert_equals_python("J1", 2)

    def test_j1_at_world_4(self):
        self.assert_equals_python("J1", 4)

    def test_j2_at_world_1(self):
        self.assert_equals_python("J2", 1)

    def test_j2_at_world_2(self):
        self.assert_equals_python("J2", 2)

    def test_j2_at_world_4(self):
        self.assert_equals_python("J2", 4)

    def test_python_on_this_machine_gives_the_same(self):
        fields, records, _ = self.train([jobs.DDPTRAIN, *flags("J2", 2)], 2)
        self.assert_equals_peer("J2", 2, fields, records)

    def test_one_flipped_gradient_bit_is_seen(self):
        command = [jobs.DDPTRAIN, *flags("J2", 1)]
        right, _, _ = self.train(command, 1)
        flipped, _, _ = self.train([*command, "--test-flip-gradient-bit-at-step", "37"], 1)
        self.assertNotEqual(right["weights_sha256"], flipped["weights_sha256"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
