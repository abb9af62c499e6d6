"""What --profile leaves behind, read as TensorBoard's plugin and chrome://tracing read it."""

import json
import pathlib
import re
import tempfile
import unittest

import jobs

PHASES = {"Train", "Data loading", "Copy to device", "Forward pass", "Backward pass", "Optimizer step"}


def read(path):
    trace = json.loads(path.read_text())
    events = [event for event in trace["traceEvents"] if event.get("ph") == "X"]
    return trace, events


def steps(events):
    names = {event["name"] for event in events}
    return sorted(int(name.split("#")[1]) for name in names if name.startswith("ProfilerStep#"))


class Profile(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()), "made", "for it")

    def train(self, *flags, world=2, samples=640):
        dataset, directory = jobs.find_data()
        results = jobs.Run(
            [jobs.DDPTRAIN, "--dataset", dataset, "--data-dir", directory, "--batch-size", "32",
             "--limit-train-samples", str(samples), "--limit-test-samples", "32", *flags], world).wait()
        return jobs.final(results), results

    def traces(self, rank):
        """In the order in which they were written."""
        paths = self.directory.glob(f"rank_{rank}.*.pt.trace.json")
        return sorted(paths, key=lambda path: int(path.name.split(".")[1]))

    def test_has_a_trace_for_each_rank_and_cycle(self):
        self.train("--profile", str(self.directory), "--profile-schedule", "1,1,2,2")
        self.assertEqual(4, len(list(self.directory.iterdir())))
        for rank in (0, 1):
            cycles = []
            for path in self.traces(rank):
                trace, events = read(path)
                self.assertEqual({"backend": "gloo", "rank": rank, "world_size": 2}, trace["distributedInfo"])
                cycles.append(steps(events))
            self.assertEqual([[2, 3], [6, 7]], cycles)

    def test_shows_the_operators_and_the_phases_of_a_step(self):
        self.train("--profile", str(self.directory))
        _, events = read(self.traces(1)[0])
        self.assertEqual([4, 5], steps(events))  # 2,2,2,1
        names = {event["name"] for event in events}
        self.assertLessEqual(PHASES, names)
        self.assertTrue({"aten::conv2d", "aten::addmm", "gloo:all_reduce"} <= names, names)
        convolution = next(event for event in events if event["name"] == "aten::conv2d")
        self.assertEqual([32, 1, 28, 28], convolution["args"]["Input Dims"][0])
        # A phase is inside its step, and contains what it calls.
        step = next(event for event in events if event["name"] == "ProfilerStep#4")
        forward = min((event for event in events if event["name"] == "Forward pass"), key=lambda event: event["ts"])
        self.assertTrue(step["ts"] <= forward["ts"] and
                        forward["ts"] + forward["dur"] <= step["ts"] + step["dur"])
        self.assertTrue(forward["ts"] <= convolution["ts"] <= forward["ts"] + forward["dur"])

    def test_has_crusoes_schedule_with_crusoes_lines(self):
        self.train("--profile", str(self.directory), "--log-style", "crusoe", world=1)
        self.assertEqual([[2, 3, 4], [7, 8, 9]], [steps(read(path)[1]) for path in self.traces(0)])

    def test_ends_with_the_epochs_that_it_is_for(self):
        """Ten steps each; the second cycle is cut short by the end of the second epoch."""
        self.train("--profile", str(self.directory), "--profile-schedule", "3,1,8,0", "--epochs", "4")
        self.assertEqual([list(range(4, 12)), [16, 17, 18, 19]],
                         [steps(read(path)[1]) for path in self.traces(0)])

    def test_changes_no_bit(self):
        profiled, _ = self.train("--profile", str(self.directory), "--profile-schedule", "1,0,9,1")
        plain, _ = self.train()
        self.assertEqual(plain["weights_sha256"], profiled["weights_sha256"])

    def test_a_trace_that_cannot_be_written_ends_no_training(self):
        _, results = self.train("--profile", "/proc")  # not even root can create files there
        self.assertRegex(results[1][2], r"ddptrain: rank 1: no profile of steps 5 to 6: .* training continues")

    def test_a_directory_that_cannot_be_made_is_refused_before_the_first_step(self):
        file = pathlib.Path(self.enterContext(tempfile.NamedTemporaryFile()).name)
        dataset, directory = jobs.find_data()
        (status, out, err), = jobs.Run(
            [jobs.DDPTRAIN, "--dataset", dataset, "--data-dir", directory, "--profile", str(file / "x")], 1).wait()
        self.assertEqual((78, ""), (status, out))
        self.assertIn("--profile: ", err)

    def test_tells_where_the_trace_is_and_nothing_else(self):
        _, results = self.train("--profile", str(self.directory))
        trace = self.traces(0)[0]
        # Without a driver Kineto prints one harmless line.
        said = [[line for line in err.splitlines() if "gpuGetDeviceCount failed" not in line] for _, _, err in results]
        self.assertEqual([[f"ddptrain: profile of steps 5 to 6: {trace}"], []], said)
        self.assertFalse(re.search("profile", results[0][1]))


if __name__ == "__main__":
    unittest.main(verbosity=2)
