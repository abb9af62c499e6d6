"""A rank is killed in mid-epoch, all are restarted, and the weights do not show it."""

import ctypes
import gzip
import hashlib
import itertools
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import struct
import subprocess
import tempfile
import threading
import unittest

import jobs

# Small enough to be run often; dropout makes the generator's state matter, and 330 samples leave a
# last batch that is not full.
FLAGS = ["--model", "simple_conv_net", "--limit-train-samples", "330", "--epochs", "3",
         "--limit-test-samples", "51", "--batch-size", "8"]
LONG_EVALUATION = ["--limit-test-samples", "2000"]  # a second or so, during which a notice can arrive
TRY_AGAIN, BAD_FILE = 75, 78


def command(*more):
    dataset, directory = jobs.find_data()
    return [jobs.DDPTRAIN, *FLAGS, "--dataset", dataset, "--data-dir", directory, *more]


def as_an_ordinary_user():
    """For preexec_fn: drops root's access to every file; other users have no such access."""
    libc = ctypes.CDLL(None)
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


def forge(snapshot, counted=None, **fields):
    """Sets fields of the manifest, and the samples that each rank counts, with checksums that fit."""
    manifest = json.loads((snapshot / "manifest.json").read_text()) | fields
    ranks = snapshot / "ranks.safetensors"
    content = bytearray(ranks.read_bytes())
    (length,) = struct.unpack_from("<Q", content)
    header = json.loads(content[8:8 + length])
    for rank, samples in enumerate(counted or ()):
        begin, _ = header[f"rank{rank}.sum.samples"]["data_offsets"]
        struct.pack_into("<d", content, 8 + length + begin, samples)
    ranks.write_bytes(content)
    (entry,) = (file for file in manifest["files"] if file["name"] == ranks.name)
    entry["sha256"] = hashlib.sha256(content).hexdigest()
    text = json.dumps(manifest).encode()
    (snapshot / "manifest.json").write_bytes(text)
    (snapshot / "manifest.json.sha256").write_text(f"{hashlib.sha256(text).hexdigest()}  manifest.json\n")


class Steps:
    """The metrics of rank 0 through a FIFO: each read waits for the next record, nothing polls."""

    def __init__(self, path):
        os.mkfifo(path)
        self.path = path
        # Opened for both ways, so that it neither waits for a writer nor ends with one.
        self.file = os.fdopen(os.open(path, os.O_RDWR | os.O_CLOEXEC), "r")

    def wait_for(self, **fields):
        """The next record that has these fields."""
        for line in self.file:
            record = json.loads(line)
            if fields.items() <= record.items():
                return record


class Resume(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)

    def path(self, name):
        return str(pathlib.Path(self.directory.name, name))

    def finish(self, world, *more):
        return jobs.final(jobs.Run(command(*more), world).wait())

    def kill_at(self, step, victim, world, *more):
        """Runs until `step`, kills one rank, and returns how each rank ended."""
        steps = Steps(self.path(f"steps-{step}-{victim}"))
        run = jobs.Run(command(*more, "--metrics-file", steps.path), world)
        steps.wait_for(event="step", step=step)
        run.ranks[victim].send_signal(signal.SIGKILL)
        # Later records must not fill the FIFO and block rank 0.
        threading.Thread(target=steps.file.read, daemon=True).start()
        return run.wait()

    def assert_same_bits_after_kills(self, world, kills, *flags):
        undisturbed = self.finish(world, *flags)
        snapshots = [*flags, "--snapshot-dir", self.path("snapshots"), "--snapshot-every-steps", "5"]
        for step, victim in kills:
            results = self.kill_at(step, victim, world, *snapshots)
            self.assertEqual(results[victim][0], -signal.SIGKILL)
        healed = self.finish(world, *snapshots)
        self.assertEqual(healed, undisturbed)

    def test_alone(self):
        self.assert_same_bits_after_kills(1, [(12, 0), (42, 0), (100, 0)])

    def test_with_two_ranks(self):
        self.assert_same_bits_after_kills(2, [(7, 1), (33, 0), (44, 1)])

    def test_with_four_ranks(self):
        self.assert_same_bits_after_kills(4, [(9, 2), (19, 0)])

    def test_python_transforms_resume_without_drawing(self):
        """Crops, flips and dropout share one generator: a sample that is read before the first step
        would shift all of them."""
        self.assert_same_bits_after_kills(
            2, [(7, 1), (33, 0)], "--dataset", "fake", "--fake-train-samples", "330", "--fake-test-samples", "20",
            "--model", "crusoe_vit_tiny", "--transforms", "cifar10-augment", "--python-transforms")

    def test_a_finished_run_is_found_finished(self):
        snapshots = ["--snapshot-dir", self.path("snapshots")]
        first = self.finish(2, *snapshots)
        self.assertEqual(self.finish(2, *snapshots), first)

    def test_the_weights_of_a_snapshot_are_tested_alone(self):
        """As the run itself tests them at its end, for every world size: two ranks do not divide 51 samples, and still
        none is tested twice."""
        metrics = self.path("metrics")
        ended = self.finish(2, "--snapshot-dir", self.path("snapshots"), "--snapshot-every-steps", "30",
                            "--evaluate-every-epochs", "1", "--metrics-file", metrics)
        tests = [record["samples"] for record in jobs.records(metrics) if record["event"] == "validation"]
        self.assertEqual([51, 51, 51], tests)
        *older, newest = sorted(pathlib.Path(self.path("snapshots")).glob("snapshot-*"))
        self.assertTrue(older)
        for world, path, style in (
                (1, newest / "model.safetensors", "plain"), (2, newest / "model.safetensors", "kaust"),
                (2, newest, "openacc"), (1, newest.parent, "mila-imagenet")):
            with self.subTest(style, world=world, path=path):
                tested = self.finish(world, "--evaluate", str(path), "--log-style", style)
                self.assertEqual({**ended, "epoch": "0", "step": "0"}, tested)

    def test_weights_that_are_not_there_are_not_tested(self):
        empty = pathlib.Path(self.path("empty"))
        empty.mkdir()
        for path in (empty, self.path("nowhere")):
            ((status, _, err),) = jobs.Run(command("--evaluate", str(path)), 1).wait()
            self.assertNotEqual(0, status)
            self.assertIn(f"--evaluate: {path}: ", err)

    def test_another_world_size_resumes_too(self):
        snapshots = ["--snapshot-dir", self.path("snapshots"), "--snapshot-every-steps", "5"]
        self.kill_at(13, 1, 4, *snapshots)
        fields = self.finish(2, *snapshots)
        self.assertEqual(fields["epoch"], "2")
        # 11 steps per epoch at world 4, of which 10 are done; 10 samples are left for two ranks of
        # batch size 8: one more step. Then two epochs of 21 steps.
        self.assertEqual(fields["step"], "53")

    def stop_at(self, step, world, *more, by=signal.SIGTERM):
        """Runs until `step`; a preemption notice, or Ctrl-C, stops it soon after."""
        steps = Steps(self.path(f"steps-{step}"))
        run = jobs.Run(command(*more, "--metrics-file", steps.path), world)
        steps.wait_for(event="step", step=step)
        for rank in run.ranks:
            rank.send_signal(by)
        threading.Thread(target=steps.file.read, daemon=True).start()
        for status, out, err in run.wait():
            self.assertEqual(status, TRY_AGAIN, out + err)

    def evaluations(self, metrics):
        keys = ("epoch", "step", "loss", "accuracy", "samples")
        return [[record[key] for key in keys] for record in jobs.records(metrics) if record["event"] == "validation"]

    def stop_evaluation(self, world, epoch, *more):
        """Sends the notice right after `epoch`; returns rank 0's output."""
        steps = Steps(self.path(f"steps-{world}-{epoch}"))
        run = jobs.Run(command(*more, "--metrics-file", steps.path), world)
        steps.wait_for(event="epoch", epoch=epoch)
        for rank in run.ranks:
            rank.send_signal(signal.SIGTERM)
        rest = []
        reader = threading.Thread(target=lambda: rest.extend(steps.file), daemon=True)
        reader.start()
        results = run.wait()
        for status, out, err in results:
            self.assertEqual(status, TRY_AGAIN, out + err)
        self.assertEqual(set(), {json.loads(line)["event"] for line in rest} & {"step", "validation", "final"})
        return results[0][1]

    def test_a_notice_is_seen_during_evaluation(self):
        """All ranks stop within a batch of it; the next run evaluates that epoch first, and nothing differs."""
        flags = [*LONG_EVALUATION, "--evaluate-every-epochs", "1", "--keep-best", "loss"]
        metrics, resumed = self.path("metrics"), self.path("resumed-metrics")
        for world in (1, 2):
            undisturbed = self.finish(world, *flags, "--snapshot-dir", self.path(f"kept-{world}"), "--metrics-file", metrics)
            snapshots = [*flags, "--snapshot-dir", self.path(f"snapshots-{world}")]
            out = self.stop_evaluation(world, 0, *snapshots)
            self.assertRegex(out, r"stopped epoch=0 step=\d+\n\Z")
            healed = self.finish(world, *snapshots, "--metrics-file", resumed)
            self.assertEqual(healed, undisturbed)
            self.assertEqual(self.evaluations(metrics), self.evaluations(resumed))
            for path in (metrics, resumed):
                os.remove(path)

    def test_a_notice_is_seen_during_the_last_evaluation(self):
        flags = [*LONG_EVALUATION, "--epochs", "1"]
        snapshots = [*flags, "--snapshot-dir", self.path("snapshots")]
        self.assertRegex(self.stop_evaluation(2, 0, *snapshots), r"stopped epoch=1 step=\d+\n\Z")
        self.assertEqual(self.finish(2, *snapshots), self.finish(2, *flags))

    def test_an_epoch_at_four_two_and_four_ranks_has_each_sample_once(self):
        """Only the stop saves a snapshot, so no trained step may be lost."""
        samples, trace = 1600, self.path("trace")  # no world size pads them
        flags = ["--limit-train-samples", str(samples), "--epochs", "1", "--batch-size", "4",
                 "--snapshot-dir", self.path("snapshots"), "--snapshot-every-steps", "1000",
                 "--sample-trace", trace]
        self.stop_at(20, 4, *flags)
        self.stop_at(50, 2, *flags, by=signal.SIGINT)
        self.finish(4, *flags)
        batches = jobs.records(trace)
        seen = [sample for batch in batches for sample in batch["samples"]]
        self.assertEqual(list(range(samples)), sorted(seen))
        worlds = [batch["world"] for batch in sorted(batches, key=lambda batch: batch["step"])]
        self.assertEqual([4, 2, 4], [world for world, _ in itertools.groupby(worlds)])

    def test_a_rank_that_a_notice_reaches_before_all_have_met_waits_for_nobody(self):
        """Rank 0 had died of the same signal while it loaded its libraries, and rank 1 waited for it until
        Slurm killed the job."""
        only_rank_1 = ["bash", "-c", '[[ $RANK == 0 ]] || exec "$@"', "bash"]
        run = jobs.Run([*only_rank_1, *command("--snapshot-dir", self.path("snapshots"))], 2)
        run.store.wait(["/worker/attempt_0/default_pg/ddptrain_begun/1"])
        run.ranks[1].send_signal(signal.SIGTERM)
        self.assertEqual(-signal.SIGTERM, run.wait()[1][0])

    def test_a_larger_world_resumes_an_epoch_that_has_more_steps_done_than_it_would_have(self):
        snapshots = ["--snapshot-dir", self.path("snapshots"), "--snapshot-every-steps", "5"]
        self.kill_at(38, 0, 1, *snapshots)
        results = jobs.Run(command(*snapshots), 4).wait()
        fields = jobs.final(results)
        (done,) = re.findall(r"^resumed epoch=0 step=(\d+)$", results[0][1], re.MULTILINE)
        # At world 1 an epoch has 42 steps, at world 4 it has 11.
        self.assertGreater(int(done), 11)
        left = -(-(330 - 8 * int(done)) // (4 * 8))
        self.assertEqual(int(fields["step"]), int(done) + left + 2 * 11)

    def test_survivors_end_at_once_and_say_why(self):
        results = self.kill_at(6, 1, 2)
        status, _, err = results[0]
        self.assertEqual(status, TRY_AGAIN, err)
        self.assertIn("lost another rank", err)
        self.assertEqual(len(err.strip().splitlines()), 1, err)

    def test_the_error_file_says_it_too(self):
        error_file = self.path("error.json")
        results = jobs.Run(command("--metrics-file", self.path("no/such/directory")), 1,
                           {"TORCHELASTIC_ERROR_FILE": error_file}).wait()
        self.assertEqual(results[0][0], BAD_FILE)
        self.assertIn("--metrics-file", pathlib.Path(error_file).read_text())

    def test_other_flags_are_refused_by_all_ranks(self):
        snapshots = ["--snapshot-dir", self.path("snapshots")]
        self.finish(2, *snapshots)
        results = jobs.Run(command(*snapshots, "--seed", "1"), 2).wait()
        # A rank that is not the cause ends like one that lost a peer, which no launcher takes for the cause.
        self.assertEqual([status for status, _, _ in results], [BAD_FILE, TRY_AGAIN])
        self.assertIn("saved with --seed 0, but this run has 1", results[0][2])
        self.assertIn("rank 1: rank 0 refused the snapshots; its message says why", results[1][2])

    def test_counts_that_cannot_belong_together_are_refused(self):
        """Each of them ended in a defect of ddptrain's, or left samples of the epoch out."""
        flags = ["--model", "linear", "--epochs", "2", "--snapshot-dir"]
        kept, forged = pathlib.Path(self.path("kept")), pathlib.Path(self.path("forged"))
        self.finish(2, *flags, str(kept), "--epochs", "1")
        for consumed, batches, counted, reason in (
                (331, 0, None, "'samples_consumed' is 331, but batches_consumed is 0"),
                (16, 0, None, "'samples_consumed' is 16, but batches_consumed is 0"),
                (160, 0, (80, 80), "'samples_consumed' is 160, but batches_consumed is 0"),
                (0, 10, None, "'batches_consumed' is 10, but samples_consumed is only 0"),
                (160, 10, None, "'samples_consumed' is 160, but the ranks count 0 samples"),
                (400, 25, (200, 200), "'samples_consumed' is 400 after 25 batches, which is impossible with 330 "
                                      "training samples: the epoch ends at 331"),
                (18, 18, (9, 9), "'samples_consumed' is 18 after 18 batches, which is impossible with 330 training "
                                 "samples: with 2 ranks there are at least 19")):
            with self.subTest(consumed=consumed, batches=batches, counted=counted):
                shutil.rmtree(forged, ignore_errors=True)
                shutil.copytree(kept, forged)
                (snapshot,) = forged.glob("snapshot-*")
                forge(snapshot, counted, samples_consumed=consumed, batches_consumed=batches)
                (status, _, err), (other, *_) = jobs.Run(command(*flags, str(forged)), 2).wait()
                self.assertEqual((BAD_FILE, TRY_AGAIN), (status, other), err)
                self.assertIn(reason, err)
                self.assertIn(snapshot.name, err)
        # And the same file, restored, resumes.
        self.assertEqual("2", self.finish(2, *flags, str(kept), "--epochs", "3")["epoch"])

    def test_a_job_that_is_refused_for_its_flags_leaves_the_directory_to_its_owner(self):
        snapshots = ["--snapshot-dir", self.path("snapshots")]
        self.finish(1, *snapshots)
        before = sorted(os.listdir(self.path("snapshots")))
        results = jobs.Run(command(*snapshots, "--seed", "1"), 1).wait()
        self.assertEqual(results[0][0], BAD_FILE)
        self.assertEqual(sorted(os.listdir(self.path("snapshots"))), before)

    def test_a_last_line_that_cannot_be_printed_is_a_failure(self):
        with open("/dev/full", "w") as full:
            ended = subprocess.run(command("--epochs", "1"), stdout=full, stderr=subprocess.PIPE,
                                   text=True)
        self.assertEqual(ended.returncode, BAD_FILE, ended.stderr)
        self.assertIn("cannot write to stdout: No space left on device", ended.stderr)

    def test_a_closed_stdout_is_a_failure_and_no_file_gets_its_lines(self):
        metrics = self.path("metrics")
        ended = subprocess.run(
            ["/bin/sh", "-c", 'exec "$@" >&-', "sh", *command("--epochs", "1"),
             "--metrics-file", metrics], stderr=subprocess.PIPE, text=True)
        self.assertEqual(ended.returncode, BAD_FILE, ended.stderr)
        self.assertIn("cannot write to stdout: Bad file descriptor", ended.stderr)
        self.assertEqual(jobs.records(metrics)[-1]["event"], "final")

    def test_a_refusal_keeps_its_status_where_stderr_is_closed(self):
        for flags, status in ((["--epochs", "none"], 2),
                              (["--data-dir", self.path("none")], BAD_FILE)):
            ended = subprocess.run(["/bin/sh", "-c", 'exec "$@" 2>&-', "sh", *command(*flags)])
            self.assertEqual(ended.returncode, status, flags)

    def test_a_snapshot_that_cannot_be_saved_is_told_with_its_own_remedy_only(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

        # Python ignores the signal of that limit, and so does ddptrain when it is not restored.
        ended = subprocess.run(
            command("--epochs", "1", "--snapshot-dir", self.path("snapshots")), preexec_fn=limit,
            restore_signals=False, capture_output=True, text=True)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertRegex(ended.stderr, r"training continues: cannot write .*: File too large\n$")

    def test_an_unwritable_snapshot_directory_is_refused(self):
        pathlib.Path(self.path("file")).write_text("")
        results = jobs.Run(command("--snapshot-dir", self.path("file")), 1).wait()
        self.assertEqual(results[0][0], BAD_FILE)
        self.assertIn("--snapshot-dir", results[0][2])

    def test_a_missing_data_file_is_refused(self):
        results = jobs.Run([jobs.DDPTRAIN, "--data-dir", self.directory.name], 1).wait()
        self.assertEqual(results[0][0], BAD_FILE)
        self.assertIn("train-images-idx3-ubyte", results[0][2])
        self.assertIn("--data-dir", results[0][2])

    def test_a_truncated_data_file_is_refused(self):
        _, directory = jobs.find_data()
        for source in pathlib.Path(directory).iterdir():
            content = source.read_bytes()
            if source.name == "train-images-idx3-ubyte.gz":
                content = content[:len(content) // 2]
            pathlib.Path(self.directory.name, source.name).write_bytes(content)
        results = jobs.Run([jobs.DDPTRAIN, "--data-dir", self.directory.name], 1).wait()
        self.assertEqual(results[0][0], BAD_FILE)
        self.assertRegex(results[0][2], r"train-images-idx3-ubyte\.gz: .*truncated")

    def test_a_data_file_cut_off_while_training_disturbs_nothing(self):
        """If the file were mapped, the worker would end with SIGBUS at the next sample after the cut."""
        dataset, directory = jobs.find_data()
        for source in pathlib.Path(directory).glob("*-ubyte.gz"):
            plain = pathlib.Path(self.directory.name, source.stem)
            plain.write_bytes(gzip.decompress(source.read_bytes()))
        steps = Steps(self.path("steps"))
        run = jobs.Run(command("--data-dir", self.directory.name, "--metrics-file", steps.path), 1)
        steps.wait_for(event="step", step=2)
        for plain in pathlib.Path(self.directory.name).glob("*-ubyte"):
            os.truncate(plain, 0)
        threading.Thread(target=steps.file.read, daemon=True).start()
        self.assertEqual(jobs.final(run.wait()), self.finish(1))

    def test_a_snapshot_directory_without_the_right_to_write_is_refused_before_training(self):
        directory = pathlib.Path(self.path("snapshots"))
        directory.mkdir(mode=0o555)
        for name in (directory, directory / "of-this-job"):
            ended = subprocess.run(
                command("--snapshot-dir", str(name)), preexec_fn=as_an_ordinary_user,
                capture_output=True, text=True)
            self.assertEqual(ended.returncode, BAD_FILE, ended.stderr)
            self.assertIn("--snapshot-dir", ended.stderr)
            self.assertIn(str(name), ended.stderr)
            self.assertIn("Permission denied; make it writable for this user", ended.stderr)
            self.assertEqual(ended.stdout, "", "training began")


if __name__ == "__main__":
    unittest.main(verbosity=2)
