"""Bad samples, bad numbers, full disks, too little memory: one clear message each, and no snapshot is lost.
--inject causes the faults that a test cannot."""

import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import jobs
from examples_test import image_folder, make_folders
from resume_test import FLAGS, Steps

TRY_AGAIN, USAGE, BAD_NUMBERS, NO_MEMORY, BAD_FILE = 75, 2, 65, 71, 78
FOLDERS = ["--dataset", "image-folder", "--model", "linear", "--image-size", "32", "--batch-size", "4",
           "--epochs", "1"]


class Faults(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.snapshots = ["--snapshot-dir", str(self.root / "snapshots"), "--snapshot-every-steps", "4"]

    def run_ranks(self, *flags, world=1):
        dataset, directory = jobs.find_data()
        return jobs.Run(
            [jobs.DDPTRAIN, *FLAGS, "--dataset", dataset, "--data-dir", directory, *flags], world).wait()

    def run_folders(self, *flags, world=1):
        return jobs.Run([jobs.DDPTRAIN, *FOLDERS, "--data-dir", str(self.root / "images"), *flags], world).wait()

    def refused(self, result, status, *words):
        """The one line that a rank ends with."""
        self.assertEqual(status, result[0], result)
        lines = result[2].strip().splitlines()
        self.assertEqual(1, len(lines), result[2])
        for word in words:
            self.assertIn(word, lines[0])

    def assert_ends_as_without_faults(self, *flags, world=1):
        """With the saved snapshot: nothing was lost."""
        healed = jobs.final(self.run_ranks(*self.snapshots, *flags, world=world))
        self.assertEqual(jobs.final(self.run_ranks(world=world)), healed)

    # Samples ---------------------------------------------------------------------------------------

    def test_a_truncated_jpeg_is_named(self):
        make_folders(self.root / "images", image_folder)
        file = self.root / "images/train/n02/3.jpg"
        file.write_bytes(file.read_bytes()[:200])
        self.refused(self.run_folders()[0], BAD_FILE, "rank 0", str(file), "not a complete JPEG file")

    def test_a_file_that_is_no_image_is_named(self):
        make_folders(self.root / "images", image_folder)
        (self.root / "images/train/n02/3.jpg").write_text("no image")
        self.refused(self.run_folders()[0], BAD_FILE, "rank 0", "train/n02/3.jpg")

    def test_more_classes_than_the_model_tells_apart_are_refused(self):
        make_folders(self.root / "images", image_folder)
        self.refused(self.run_folders("--classes", "2")[0], BAD_FILE, "has 3 classes", "--classes")

    def test_a_class_that_only_one_of_train_and_val_has_is_named(self):
        make_folders(self.root / "images", image_folder)
        other = self.root / "images/val/n00"
        other.mkdir()
        shutil.copy(next((self.root / "images/val").glob("*/*.jpg")), other)
        self.refused(self.run_folders()[0], BAD_FILE, "'n00'", "to test with", "not among those to train with")
        shutil.rmtree(other)
        missing = min((self.root / "images/val").iterdir())
        shutil.rmtree(missing)
        self.refused(self.run_folders()[0], BAD_FILE, f"'{missing.name}'", "not among those to test with")

    def test_an_empty_class_folder_is_named(self):
        make_folders(self.root / "images", image_folder)
        (self.root / "images/train/n00").mkdir()
        self.refused(self.run_folders()[0], BAD_FILE, "n00")

    def test_an_empty_folder_of_images_is_named(self):
        (self.root / "images/train").mkdir(parents=True)
        self.refused(self.run_folders()[0], BAD_FILE, str(self.root / "images/train"))

    def test_weights_of_another_model_are_not_tested(self):
        jobs.final(self.run_ranks(*self.snapshots, "--epochs", "1"))
        file = next(self.root.glob("snapshots/snapshot-*/model.safetensors"))
        self.refused(self.run_ranks("--evaluate", str(file), "--model", "my_net")[0], BAD_FILE,
                     "--evaluate", str(file), "--model")

    # Numbers ---------------------------------------------------------------------------------------

    def test_a_loss_that_is_nan_ends_the_run_and_the_snapshot_before_resumes(self):
        results = self.run_ranks(*self.snapshots, "--inject", "nan@10")
        self.refused(results[0], BAD_NUMBERS, "rank 0", "loss is nan in step 10", "--learning-rate")
        self.assert_ends_as_without_faults()

    def test_in_fp16_a_step_that_overflows_is_left_out_and_training_continues(self):
        results = self.run_ranks("--amp", "fp16", "--epochs", "1", "--limit-train-samples", "64", "--inject", "nan@3")
        self.assertNotIn("nan", jobs.final(results)["loss"])

    def refused_for_weights_that_differ(self, world, *words):
        """On rank 0 from the third step on; all ranks say so."""
        results = self.run_ranks(
            "--check-replicas-every-steps", "5", "--test-flip-gradient-bit-at-step", "3", world=world)
        for status, _, err in results:
            self.assertEqual(BAD_NUMBERS, status, err)
            for word in words:
                self.assertIn(word, err)

    def test_weights_that_differ_between_two_ranks_name_neither(self):
        self.refused_for_weights_that_differ(2, "the weights of ranks 0 to 1 differ, and there is no majority")

    def test_weights_that_differ_on_one_rank_name_it(self):
        self.refused_for_weights_that_differ(3, "after step 5", "rank 0")

    # Snapshots -------------------------------------------------------------------------------------

    def test_a_disk_that_fills_up_blocks_nothing_and_the_snapshot_before_resumes(self):
        results = self.run_ranks(*self.snapshots, "--inject", "diskfull@9", "--inject", "kill@30")
        self.assertEqual(-signal.SIGKILL, results[0][0])
        self.assertIn("no snapshot at step 12, training continues: No space left on device", results[0][2])
        self.assert_ends_as_without_faults()

    def test_of_corrupt_snapshots_the_newest_whole_one_resumes(self):
        self.run_ranks(*self.snapshots, "--inject", "kill@30")
        newest = max(self.root.glob("snapshots/snapshot-*/manifest.json"), key=lambda path: path.stat().st_mtime_ns).parent
        file = next(newest.glob("*.safetensors"))
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
        results = self.run_ranks(*self.snapshots)
        self.assertIn(newest.name, results[0][2])
        self.assertEqual(jobs.final(self.run_ranks()), jobs.final(results))

    # The rest --------------------------------------------------------------------------------------

    def test_too_little_memory_is_told_with_what_needs_less(self):
        results = self.run_ranks(*self.snapshots, "--inject", "oom@10")
        self.refused(results[0], NO_MEMORY, "rank 0", "out of memory", "--batch-size", "--accumulate")
        self.assert_ends_as_without_faults()

    def test_one_rank_without_memory_ends_all_and_only_it_says_why(self):
        results = self.run_ranks(*self.snapshots, "--inject", "oom@10,rank=1", world=2)
        self.refused(results[1], NO_MEMORY, "rank 1", "out of memory")
        self.refused(results[0], TRY_AGAIN, "rank 0", "lost another rank")
        self.assert_ends_as_without_faults(world=2)

    def test_a_write_through_a_null_pointer_leaves_a_native_stack_and_ends_the_rank_by_sigsegv(self):
        status, _, err = self.run_ranks("--inject", "segv@3")[0]
        self.assertEqual(-signal.SIGSEGV, status)
        self.assertRegex(err, r"\Addptrain: rank 0: SIGSEGV \(address (0x0|\(nil\))\); stack of thread \d+")
        self.assertIn("FaultDrill", err)
        self.assertIn("__libc_start_main", err)

    def test_a_rank_that_hangs_stands_still_until_it_is_killed(self):
        dataset, directory = jobs.find_data()
        steps = Steps(str(self.root / "steps"))
        run = jobs.Run([jobs.DDPTRAIN, *FLAGS, "--dataset", dataset, "--data-dir", directory,
                        "--inject", "hang@3", "--metrics-file", steps.path], 1)
        steps.wait_for(event="step", step=2)
        with self.assertRaises(subprocess.TimeoutExpired):
            run.ranks[0].wait(timeout=2)
        run.ranks[0].kill()
        self.assertEqual(-signal.SIGKILL, run.wait()[0][0])

    def test_a_rank_that_hangs_is_waited_for_as_long_as_pg_timeout_says(self):
        dataset, directory = jobs.find_data()
        run = jobs.Run([jobs.DDPTRAIN, *FLAGS, "--dataset", dataset, "--data-dir", directory,
                        "--inject", "hang@3,rank=1", "--pg-timeout", "2"], 2)
        run.ranks[0].wait(timeout=jobs.WAIT_S)
        self.assertIsNone(run.ranks[1].poll(), "hangs on")
        run.ranks[1].kill()
        self.refused(run.wait()[0], TRY_AGAIN, "rank 0", "rank 1 kept the others waiting", "--pg-timeout")

    def test_who_is_late_at_the_start_is_waited_for_however_short_pg_timeout_is(self):
        """Its data may still be loading; --pg-timeout is for collectives."""
        dataset, directory = jobs.find_data()
        late = 'if [ "$RANK" = 1 ]; then sleep 5; fi; exec "$0" "$@"'
        run = jobs.Run(["sh", "-c", late, jobs.DDPTRAIN, *FLAGS, "--dataset", dataset, "--data-dir", directory,
                        "--pg-timeout", "2"], 2)
        self.assertEqual(jobs.final(self.run_ranks(world=2)), jobs.final(run.wait()))

    def test_a_slow_rank_is_slow_from_then_on(self):
        began = time.monotonic()
        jobs.final(self.run_ranks("--epochs", "1", "--limit-train-samples", "64", "--inject", "slow@5:400"))
        self.assertGreaterEqual(time.monotonic() - began, 4 * 0.4)


if __name__ == "__main__":
    unittest.main(verbosity=2)
