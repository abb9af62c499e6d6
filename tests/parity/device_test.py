"""--device cuda without a GPU: what is loaded and when, how it ends if there is none, and how a GPU would be
used, shown by a device module that computes on the CPU (tests/support/fake_device.cpp)."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time
import unittest

import jobs

FAKE = os.environ["FAKE_DEVICE_MODULE"]
CUDA = os.environ.get("CUDA_MODULE", "")  # empty: this build has none
# Of CUDA, libtorch_cpu itself loads libcudart and libcupti.
OF_GPUS = re.compile(r"torch_cuda|c10_cuda|ddprun_cuda|nccl|cudnn|cublas|cufft|nvToolsExt|nvidia-ml|libcuda\.so")


def flags(*more):
    dataset, directory = jobs.find_data()
    return ["--dataset", dataset, "--data-dir", directory, "--batch-size", "16", "--limit-train-samples", "320",
            "--limit-test-samples", "64", *more]


def libraries_of(pid):
    return {line.split()[-1] for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()
            if ".so" in line}


class OnTheCpu(unittest.TestCase):
    def test_nothing_of_gpus_is_loaded(self):
        with tempfile.TemporaryDirectory() as directory:
            metrics = pathlib.Path(directory, "m")
            run = jobs.Run([jobs.DDPTRAIN, *flags("--metrics-file", str(metrics), "--inject", "hang@10")], 1)
            self.addCleanup(run.ranks[0].kill)
            while not metrics.exists() or not re.search(r'"step": ?9\b', metrics.read_text()):
                self.assertIsNone(run.ranks[0].poll())
                time.sleep(0.05)
            loaded = libraries_of(run.ranks[0].pid)
            run.ranks[0].kill()
            run.wait()
        self.assertTrue(any("libtorch_cpu" in library for library in loaded))
        self.assertEqual([], [library for library in loaded if OF_GPUS.search(library)])

    def test_deterministic_changes_no_bit_here(self):
        hashes = {jobs.final(jobs.Run([jobs.DDPTRAIN, *flags(*more)], 2).wait())["weights_sha256"]
                  for more in ([], ["--deterministic"])}
        self.assertEqual(1, len(hashes))


class ByDefault(unittest.TestCase):
    """Without --device: what the machine has."""

    def setUp(self):
        self.directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def train(self, *more, world=2, **environment):
        """The last line's fields, rank 0's stderr, and whether a device was opened."""
        environment = {"DDPRUN_CUDA_MODULE": FAKE, "FAKE_DEVICE_NOTES": str(self.directory / "notes."), **environment}
        results = jobs.Run([jobs.DDPTRAIN, *flags(*more)], world, environment).wait()
        notes = self.directory / "notes.0"
        return jobs.final(results), results[0][2], notes.exists() and "open 0" in notes.read_text()

    def test_a_gpu_for_each_rank_is_used(self):
        _, err, has_opened = self.train()
        self.assertEqual(("", True), (err, has_opened))

    def test_fewer_gpus_than_ranks_leave_the_cpu_and_one_line(self):
        fields, err, has_opened = self.train(world=3)
        self.assertFalse(has_opened)
        self.assertRegex(err, r"\Addptrain: training on the CPU: LOCAL_RANK is 0 of 3, but this process sees 2 GPUs.*\n\Z")
        self.assertEqual(jobs.final(jobs.Run([jobs.DDPTRAIN, *flags("--device", "cpu")], 3).wait()), fields)

    def test_no_gpu_leaves_the_cpu(self):
        _, err, has_opened = self.train(world=1, FAKE_DEVICE="none")
        self.assertFalse(has_opened)
        self.assertIn("ddptrain: training on the CPU: this process sees no GPU (a made-up reason)", err)

    def test_gpus_that_are_hidden_or_not_wanted_are_not_looked_for(self):
        for more, environment in (([], {"CUDA_VISIBLE_DEVICES": ""}), (["--device", "cpu"], {})):
            _, err, has_opened = self.train(*more, world=1, **environment)
            self.assertEqual(("", False), (err, has_opened))

    def test_a_flag_of_gpus_is_refused_on_a_machine_without_one(self):
        (status, out, err), = jobs.Run([jobs.DDPTRAIN, *flags("--tf32")], 1, {"CUDA_VISIBLE_DEVICES": ""}).wait()
        self.assertEqual((2, ""), (status, out))
        self.assertIn("--tf32 is for GPUs, but this run is on the CPU", err)


class WithoutAGpu(unittest.TestCase):
    def refusal(self, **environment):
        """The one line of a rank that cannot have its device."""
        (status, out, err), = jobs.Run(
            [jobs.DDPTRAIN, *flags("--device", "cuda")], 1, environment).wait()
        self.assertEqual((2, ""), (status, out))
        self.assertRegex(err, r"\Addptrain: rank 0: --device cuda: .*\n\Z")
        return err

    def test_a_program_without_its_module_says_how_to_get_it(self):
        with tempfile.TemporaryDirectory() as directory:
            alone = shutil.copy(jobs.DDPTRAIN, directory)
            done = subprocess.run([alone, *flags("--device", "cuda")], capture_output=True, text=True)
        self.assertEqual(2, done.returncode)
        self.assertIn(f"there is no {alone.replace('ddptrain', 'ddprun_cuda.so')}", done.stderr)
        self.assertIn("-DDDPRUN_CUDA=ON", done.stderr)
        self.assertIn("/nowhere/m.so", self.refusal(DDPRUN_CUDA_MODULE="/nowhere/m.so"))

    def test_a_module_that_is_none_is_refused(self):
        with tempfile.NamedTemporaryFile(suffix=".so") as empty:
            self.assertIn("file too short", self.refusal(DDPRUN_CUDA_MODULE=empty.name))

    def test_a_module_of_another_build_is_refused(self):
        self.assertIn("is of ddprun 0.0.9, but this program is of ddprun ",
                      self.refusal(DDPRUN_CUDA_MODULE=FAKE, FAKE_DEVICE="old"))

    def test_a_machine_without_a_device_is_told(self):
        self.assertIn("this process sees no GPU (a made-up reason)",
                      self.refusal(DDPRUN_CUDA_MODULE=FAKE, FAKE_DEVICE="none"))

    def test_a_device_that_cannot_be_opened_is_told(self):
        self.assertIn("GPU 0: a made-up fault", self.refusal(DDPRUN_CUDA_MODULE=FAKE, FAKE_DEVICE="broken"))

    @unittest.skipUnless(CUDA, "this build has no ddprun_cuda.so (DDPRUN_CUDA=OFF, or torch has no CUDA)")
    def test_the_real_module_is_found_beside_the_program_and_loads_without_a_driver(self):
        if any(pathlib.Path("/dev").glob("nvidia[0-9]*")):
            self.skipTest("this machine has a GPU")
        self.assertRegex(self.refusal(), r"this process sees no GPU \(.+\); check nvidia-smi on this node")


class AsOnAGpu(unittest.TestCase):
    """Used like a GPU, with the results of a CPU."""

    def setUp(self):
        self.directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def train(self, *more, world=2):
        run = jobs.Run(
            [jobs.DDPTRAIN, *flags("--device", "cuda", *more)], world,
            {"DDPRUN_CUDA_MODULE": FAKE, "FAKE_DEVICE_NOTES": str(self.directory / "notes.")})
        return jobs.final(run.wait())

    def notes(self, rank=0):
        return (self.directory / f"notes.{rank}").read_text().splitlines()

    def test_each_rank_has_the_device_of_its_local_number(self):
        self.train()
        for rank in (0, 1):
            self.assertEqual([f"open {rank}", "join 2", "workspace "], self.notes(rank)[:3])

    def test_the_next_batch_is_on_its_way_before_one_is_used(self):
        """Ten batches of two copies each. Before the first is awaited, only it is in progress; the second is started
        before the first is used; after the last nothing is started."""
        self.train("--evaluate-every-epochs", "0", world=2)
        notes = [note.replace("copy images", "i").replace("copy labels", "l").replace("await", "a")
                 for note in self.notes() if note.startswith(("copy", "await"))]
        training = "".join(notes)[:2 + 10 * 3 - 2]
        self.assertEqual("il" + "ail" * 9 + "a", training)

    def test_batches_are_the_same_as_on_the_cpu(self):
        """In order, and none is overwritten while it is being copied."""
        for more in ([], ["--accumulate", "3", "--epochs", "2"], ["--workers", "2"]):
            plain = jobs.final(jobs.Run([jobs.DDPTRAIN, *flags(*more)], 2).wait())
            self.assertEqual(plain["weights_sha256"], self.train(*more)["weights_sha256"], more)
            self.assertEqual(plain["accuracy"], self.train(*more)["accuracy"], more)

    def test_crops_drawn_as_in_python_are_drawn_when_their_batch_is_used(self):
        """Else a snapshot would have the generator of a batch later."""
        augmented = ["--dataset", "fake", "--fake-train-samples", "320", "--fake-test-samples", "20",
                     "--model", "crusoe_vit_tiny", "--transforms", "cifar10-augment", "--python-transforms"]
        plain = jobs.final(jobs.Run([jobs.DDPTRAIN, *flags(*augmented)], 2).wait())
        self.assertEqual(plain["weights_sha256"], self.train(*augmented)["weights_sha256"])

    def test_one_epoch_is_captured_with_its_phases(self):
        self.train("--epochs", "3", "--profile-epoch", "1", world=1)
        notes = self.notes()
        begin, end = notes.index("begin capture"), notes.index("end capture")
        self.assertEqual((1, 1), (notes.count("begin capture"), notes.count("end capture")))
        names = [note for note in notes[begin:end] if note[0].isupper()]
        self.assertEqual(["Train", "Data loading", "Copy to device", "Forward pass", "Backward pass",
                          "Optimizer step"] * 20, names)
        awaits = [index for index, note in enumerate(notes) if note == "await"]
        # 20 steps an epoch: those of the first come before it, those of the third and the test after it.
        self.assertEqual(20, sum(index < begin for index in awaits))
        self.assertEqual(20, sum(begin < index < end for index in awaits))

    def test_the_clock_of_phases_waits_for_the_device_only_where_phases_are_told(self):
        self.train(world=1)
        self.assertNotIn("synchronise", self.notes())
        self.train("-vv", world=1)
        self.assertGreater(self.notes().count("synchronise"), 20)

    def test_cublas_is_told_to_be_deterministic(self):
        self.train("--deterministic", world=1)
        self.assertIn("workspace :4096:8", self.notes())

    def test_a_burn_in_tells_how_the_gpu_stands(self):
        run = jobs.Run([jobs.DDPTRAIN, *flags("--device", "cuda", "--model", "linear", "--burn-in", "0.001")], 1,
                       {"DDPRUN_CUDA_MODULE": FAKE})
        (status, out, err), = run.wait()
        self.assertEqual((0, ""), (status, err))
        self.assertRegex(out, r"burn-in .* allocated_mib=1 reserved_mib=2 max_allocated_mib=3 temp_c=41\.0\n")

    def test_the_memory_of_tensors_is_in_the_last_record(self):
        self.train("--metrics-file", str(self.directory / "m"), world=1)
        self.assertEqual(3 << 20, jobs.records(self.directory / "m")[-1]["peak_tensor_bytes"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
