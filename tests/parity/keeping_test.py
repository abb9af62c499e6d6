"""What a run keeps: the best snapshot, and files that Python's scripts load; and what it loads from Python's
files. All comparisons are of bits."""

import hashlib
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import tempfile
import unittest

import torch
from safetensors.torch import load_file

import jobs
import model_peers

DDPCTL = os.environ.get("DDPCTL", str(jobs.HERE.parents[1] / "build/release/bin/ddpctl"))
# 20 steps an epoch alone, 10 with two ranks. The peer has no other model without dropout.
SMALL = ["--limit-train-samples", "320", "--limit-test-samples", "100", "--batch-size", "16"]
CONVNET = ["--model", "convnet", *SMALL]
# Two epochs of learning, then two that undo it: the best comes before the last.
SPOILED = ["--epochs", "4", "--learning-rate", "0.02", "--schedule", "step", "--step-size", "2",
           "--gamma", "100", "--clip-norm", "1", "--snapshot-every-steps", "5", "--keep-snapshots", "1"]
USAGE, BAD_FILE = 2, 78


class Keeping(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.room = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.snapshots = self.room / "snapshots"

    # Verbs. -------------------------------------------------------------------------------------

    def data(self):
        dataset, directory = jobs.find_data()
        return ["--dataset", dataset, "--data-dir", directory]

    def train(self, *flags, world=1):
        """The result of jobs.final() for ddptrain, and rank 0's stderr."""
        results = jobs.Run([jobs.DDPTRAIN, *self.data(), *map(str, flags)], world).wait()
        return jobs.final(results), results[0][2]

    def refusal(self, *flags):
        status, out, err = jobs.Run([jobs.DDPTRAIN, *self.data(), *map(str, flags)], 1).wait()[0]
        self.assertEqual(BAD_FILE, status, out + err)
        return err

    def train_python(self, *flags, world=1):
        return jobs.final(jobs.Run([*jobs.PYTHON_PEER, *self.data(), *map(str, flags)], world).wait())

    def ddpctl(self, *words, status=0):
        ended = subprocess.run([DDPCTL, "snapshot", *map(str, words)], capture_output=True, text=True,
                               timeout=jobs.WAIT_S)
        self.assertEqual(status, ended.returncode, ended.stderr)
        return ended

    def manifests(self, directory=None):
        """Of all snapshots, the newest first."""
        found = sorted((directory or self.snapshots).glob("snapshot-*"), reverse=True)
        return [json.loads((path / "manifest.json").read_text()) for path in found]

    def assert_whole(self, snapshot):
        for file in json.loads((snapshot / "manifest.json").read_text())["files"]:
            content = (snapshot / file["name"]).read_bytes()
            self.assertEqual(file["sha256"], hashlib.sha256(content).hexdigest(), snapshot)

    def assert_same_tensors(self, left, right):
        self.assertEqual(sorted(left), sorted(right))
        for name, tensor in left.items():
            other = right[name]
            self.assertEqual((tensor.dtype, tensor.shape), (other.dtype, other.shape), name)
            self.assertEqual(tensor.contiguous().numpy().tobytes(), other.contiguous().numpy().tobytes(),
                             f"{name} differs")


class Best(Keeping):
    def run_spoiled(self, metric, directory, *more, world=1):
        flags = [*CONVNET, *SPOILED, "--keep-best", metric, "--snapshot-dir", directory, *more]
        return self.train(*flags, world=world)

    def test_the_best_stays_beside_the_newest_and_is_what_was_measured(self):
        for metric, choose in (("accuracy", max), ("loss", min)):
            with self.subTest(metric):
                directory, metrics = self.room / metric, self.room / f"{metric}.jsonl"
                self.run_spoiled(metric, directory, "--metrics-file", metrics, world=2)
                measured = [(r["epoch"], r[metric]) for r in jobs.records(metrics)
                            if r["event"] == "validation"]
                self.assertEqual([0, 1, 2, 3], [epoch for epoch, _ in measured])
                value = choose(value for _, value in measured)
                epoch = next(epoch for epoch, one in measured if one == value)
                self.assertLess(epoch, 3, f"nothing was spoiled: {measured}")

                newest, best = self.manifests(directory)
                self.assertEqual({"metric": metric, "value": value, "epoch": epoch,
                                  "snapshot": newest["best"]["snapshot"]}, newest["best"])
                self.assertEqual(newest["best"], best["best"])
                self.assertEqual((epoch + 1, 10 * (epoch + 1)), (best["epoch"], best["step"]))
                tested, _ = self.train(
                    *CONVNET, "--evaluate", directory / newest["best"]["snapshot"] / "model.safetensors")
                self.assertAlmostEqual(value, float(tested[metric]), places=4)

                rows = json.loads(self.ddpctl("ls", directory, "--json").stdout)
                self.assertEqual([None, newest["best"]], [row.get("best") for row in rows])
                inspected = json.loads(self.ddpctl("inspect", "--best", directory, "--json").stdout)
                self.assertEqual(newest["best"]["snapshot"], inspected["name"])

    def test_the_best_survives_a_kill_and_a_resume(self):
        undisturbed, _ = self.run_spoiled("accuracy", self.room / "undisturbed")
        flags = [jobs.DDPTRAIN, *self.data(), *CONVNET, *SPOILED, "--keep-best", "accuracy",
                 "--snapshot-dir", str(self.snapshots)]
        for step in (13, 65):  # each epoch ends after a restart
            status, _, _ = jobs.Run([*flags, "--inject", f"kill@{step}"], 1).wait()[0]
            self.assertEqual(-signal.SIGKILL, status)
        healed, _ = self.run_spoiled("accuracy", self.snapshots)
        self.assertEqual(undisturbed, healed)
        mine, theirs = (self.manifests(directory)[0]["best"]
                        for directory in (self.snapshots, self.room / "undisturbed"))
        self.assertNotEqual(mine.pop("snapshot"), theirs.pop("snapshot"), "another claim's")
        self.assertEqual(theirs, mine)

    def test_a_kill_at_any_instant_leaves_the_old_best_or_the_new_one(self):
        chance = random.Random(0)
        command = [jobs.DDPTRAIN, *self.data(), *CONVNET, "--epochs", "1000", "--limit-train-samples",
                   "32", "--keep-best", "loss", "--keep-snapshots", "1", "--snapshot-every-steps", "1",
                   "--snapshot-dir", str(self.snapshots), "--log-every", "1"]
        values = []
        for kill in range(20):
            trainer = subprocess.Popen(command, env=os.environ | jobs.ENVIRONMENT, text=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            trainer.stdout.readline()  # files are open, the snapshot is resumed
            try:
                trainer.wait(timeout=chance.uniform(0, 0.5))
            except subprocess.TimeoutExpired:
                trainer.kill()
            _, err = trainer.communicate()
            self.assertEqual(-signal.SIGKILL, trainer.returncode, err)
            newest = self.manifests()[:1]
            if not newest or "best" not in newest[0]:
                self.assertEqual([], values, f"kill {kill}: the best is forgotten")
                continue
            best = newest[0]["best"]
            self.assert_whole(self.snapshots / best["snapshot"])
            values.append(best["value"])
        self.assertEqual(sorted(values, reverse=True), values, "a best that is worse")
        self.assertGreater(len(set(values)), 1, "no kill came between two of them")

    def test_what_could_not_be_saved_is_not_the_best(self):
        """A better epoch that came while the disk was full does not push the old best out."""
        flags = [*CONVNET, "--epochs", "3", "--keep-best", "loss", "--keep-snapshots", "1",
                 "--snapshot-dir", self.snapshots]
        _, err = self.train(*flags, "--inject", "diskfull@40")
        self.assertEqual(2, err.count("training continues: No space left"), err)
        self.assertEqual(0, self.manifests()[0]["best"]["epoch"])
        self.train(*flags)
        self.assertGreater(self.manifests()[0]["best"]["epoch"], 0)

    def test_another_metric_starts_again_and_says_so(self):
        flags = [*CONVNET, "--snapshot-dir", self.snapshots]
        self.train(*flags, "--keep-best", "accuracy")
        _, err = self.train(*flags, "--keep-best", "loss", "--epochs", "2")
        self.assertIn("changes from accuracy to loss", err)
        self.assertEqual("loss", self.manifests()[0]["best"]["metric"])


class Checkpoints(Keeping):
    FILES = {
        "ddprun": ["epoch_1.pt", "epoch_2.pt"],
        "mila": ["epoch_0.pt", "epoch_1.pt", "epoch_2.pt"],
        "mila-cifar": ["checkpoint.pth", "model_best.pth"],
        "crusoe": ["checkpoint_epoch_0.pt", "checkpoint_epoch_1.pt"],
        "openacc": ["model0.pt", "model1.pt"],
        "openacc-weights": ["resnet_distributed.pth"],
        "snapshot": ["snapshot.pt"],
        "imagenet": ["checkpoint.pth.tar", "model_best.pth.tar"],
    }
    WEIGHTS = {"ddprun": "model", "mila": "model", "mila-cifar": "model_state",
               "crusoe": "model_state_dict", "openacc": "model_state", "snapshot": "MODEL_STATE",
               "imagenet": "state_dict"}
    OPTIMIZER = {"ddprun": "optimizer", "mila": "optimizer", "mila-cifar": "optimizer_state",
                 "crusoe": "optimizer_state_dict", "openacc": "optim_state", "imagenet": "optimizer"}
    PLAIN = {"mila": {"epoch": 2, "step": 20, "num_samples": 640, "python_rng_state": None},
             "mila-cifar": {"epoch": 1, "random_state": None}, "crusoe": {"epoch": 1},
             "openacc": {"epoch": 1}, "snapshot": {"EPOCHS_RUN": 2},
             "imagenet": {"epoch": 2, "arch": "convnet"}, "ddprun": {"epoch": 2, "step": 20}}

    def test_every_style_is_what_its_script_loads(self):
        for style, files in self.FILES.items():
            with self.subTest(style):
                self.check_style(style, files)

    def check_style(self, style, files):
        snapshots, directory = self.room / f"s-{style}", self.room / f"c-{style}"
        directory.mkdir()
        (directory / f"{files[-1]}.4711.tmp").write_text("of a process that was killed")
        (directory / "notes.tmp").write_text("somebody's")
        self.train(*CONVNET, "--epochs", "2", "--schedule", "step", "--step-size", "1", "--gamma", "0.5",
                   "--snapshot-dir", snapshots, "--checkpoint-style", style, "--checkpoint-dir",
                   directory, world=2)
        self.assertEqual(sorted([*files, "notes.tmp"]), sorted(os.listdir(directory)))
        newest = sorted(snapshots.glob("snapshot-*"))[-1]
        last = files[0] if style in ("mila-cifar", "imagenet") else files[-1]
        saved = torch.load(directory / last, weights_only=True)

        weights = saved[self.WEIGHTS[style]] if style in self.WEIGHTS else saved
        if style in ("openacc", "openacc-weights", "imagenet"):
            self.assertTrue(all(name.startswith("module.") for name in weights))
            weights = {name.removeprefix("module."): tensor for name, tensor in weights.items()}
        self.assert_same_tensors(load_file(newest / "model.safetensors"), weights)
        torch.manual_seed(1)
        net = model_peers.make("convnet", 1, 28, 10)
        net.load_state_dict(weights)
        for key, value in self.PLAIN.get(style, {}).items():
            self.assertEqual(value, saved[key], key)
        if style not in self.OPTIMIZER:
            return
        optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
        optimizer.load_state_dict(saved[self.OPTIMIZER[style]])
        group = optimizer.param_groups[0]
        self.assertEqual((0.01 * 0.5 * 0.5, 0.9), (group["lr"], group["momentum"]))
        kept = load_file(newest / "optimizer.safetensors")
        names = [name for name, _ in net.named_parameters()]
        self.assert_same_tensors(kept, {f"{names[i]}.momentum_buffer": state["momentum_buffer"]
                                        for i, state in saved[self.OPTIMIZER[style]]["state"].items()})
        if style == "imagenet":
            schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
            schedule.load_state_dict(saved["scheduler"])
            self.assertEqual([0.01 * 0.5 * 0.5], schedule.get_last_lr())
            self.assertEqual(2, schedule.last_epoch)

    def test_the_best_file_is_the_best_epochs(self):
        metrics = self.room / "metrics"
        self.train(*CONVNET, *SPOILED, "--checkpoint-style", "imagenet", "--checkpoint-dir", self.room,
                   "--metrics-file", metrics)
        measured = [r["accuracy"] for r in jobs.records(metrics) if r["event"] == "validation"]
        best = torch.load(self.room / "model_best.pth.tar", weights_only=True)
        last = torch.load(self.room / "checkpoint.pth.tar", weights_only=True)
        self.assertEqual([max(measured)] * 2, [best["best_acc1"], last["best_acc1"]])
        self.assertEqual((measured.index(max(measured)) + 1, 4), (best["epoch"], last["epoch"]))

    def test_files_lie_beside_the_snapshots_and_the_log_names_them(self):
        results = jobs.Run([jobs.DDPTRAIN, *self.data(), *CONVNET, "--epochs", "3", "--first-epoch", "1",
                            "--snapshot-dir", str(self.snapshots), "--checkpoint-style", "crusoe",
                            "--checkpoint-interval", "2", "--log-style", "crusoe"], 1).wait()
        told = re.findall(r"^Checkpoint saved to (.*)$", results[0][1], re.MULTILINE)
        expected = [str(self.snapshots / f"checkpoint_epoch_{epoch}.pt") for epoch in (2, 3)]
        self.assertEqual((0, expected), (results[0][0], told), results[0][2])
        self.assertTrue(all(os.path.exists(path) for path in expected))

    def test_a_directory_that_cannot_be_made_is_refused(self):
        (self.room / "file").write_text("")
        err = self.refusal(*CONVNET, "--checkpoint-style", "mila", "--checkpoint-dir", self.room / "file")
        self.assertIn("--checkpoint-dir", err)

    def test_the_link_leads_to_the_directory(self):
        ended = subprocess.run(
            [jobs.DDPTRAIN, *self.data(), *CONVNET, "--snapshot-dir", "runs/7", "--link-checkpoints"],
            cwd=self.room, capture_output=True, text=True, env=os.environ | jobs.ENVIRONMENT)
        self.assertEqual((0, ""), (ended.returncode, ended.stderr))
        self.assertEqual(self.room / "runs/7", (self.room / "checkpoints").resolve())


class Back(Keeping):
    SGD = []
    ADAMW = ["--optimizer", "adamw", "--learning-rate", "0.001", "--weight-decay", "0.05"]

    def imported(self, file, *words):
        to = self.room / f"imported-{len(list(self.room.iterdir()))}"
        return to, self.ddpctl("import", file, "--to", to, *words)

    def test_what_was_exported_and_imported_resumes_as_if_nothing_had_happened(self):
        undisturbed, _ = self.train(*CONVNET, "--epochs", "2", world=2)
        self.train(*CONVNET, "--snapshot-dir", self.snapshots, world=2)
        self.ddpctl("export", self.snapshots, "--to", self.room / "c.pt")
        to, ended = self.imported(self.room / "c.pt")
        self.assertRegex(ended.stdout, r"next epoch 1, 10 steps done; 8 tensors of the model, "
                                       r"8 of the optimizer \(sgd\)\n$")
        healed, _ = self.train(*CONVNET, "--epochs", "2", "--snapshot-dir", to, world=2)
        self.assertEqual(undisturbed, healed)

    def test_a_file_of_milas_style_has_the_generator_for_dropout(self):
        dropout = ["--model", "simple_conv_net", *SMALL, "--epochs", "2"]
        undisturbed, _ = self.train(*dropout)
        self.train(*dropout, "--checkpoint-style", "mila", "--checkpoint-dir", self.room / "c")
        to, ended = self.imported(self.room / "c" / "epoch_1.pt")
        self.assertEqual("", ended.stderr)
        healed, _ = self.train(*dropout, "--resume", to)
        self.assertEqual(undisturbed, healed)

    def test_ddptrain_resumes_from_pythons_file_as_python_does(self):
        for world, name, flags in ((1, "SGD", self.SGD), (2, "AdamW", self.ADAMW)):
            with self.subTest(name, world=world):
                python = self.room / f"python-{name}"
                steps = 20 // world
                undisturbed = self.train_python(*CONVNET, *flags, "--epochs", 3, world=world)
                self.train_python(*CONVNET, *flags, "--epochs", 2, "--snapshot-dir", python,
                                  "--snapshot-every-steps", 2 * steps, world=world)
                to, _ = self.imported(python / "checkpoint.pt")
                ours, _ = self.train(*CONVNET, *flags, "--epochs", 3, "--resume", to, "--snapshot-dir",
                                     self.room / f"ours-{name}", world=world)
                self.assertEqual((undisturbed["weights_sha256"], undisturbed["step"]),
                                 (ours["weights_sha256"], ours["step"]))

    def test_python_resumes_from_our_file_as_ddptrain_does(self):
        for name, flags in (("SGD", self.SGD), ("AdamW", self.ADAMW)):
            with self.subTest(name):
                undisturbed, _ = self.train(*CONVNET, *flags, "--epochs", 2, world=2)
                directory = self.room / name
                self.train(*CONVNET, *flags, "--checkpoint-style", "ddprun", "--checkpoint-dir", directory,
                           world=2)
                theirs = self.train_python(*CONVNET, *flags, "--epochs", 2, "--resume",
                                           directory / "epoch_1.pt", world=2)
                self.assertEqual((undisturbed["weights_sha256"], undisturbed["step"]),
                                 (theirs["weights_sha256"], theirs["step"]))

    def test_weights_alone_are_what_pretrained_weights_are(self):
        torch.manual_seed(3)
        weights = model_peers.make("convnet", 1, 28, 10).state_dict()
        torch.save(weights, self.room / "w.pt")
        to, ended = self.imported(self.room / "w.pt")
        self.assertIn("it has no optimizer state: only the weights are imported", ended.stderr)
        begun, _ = self.train(*CONVNET, "--snapshot-dir", to)
        pretrained, _ = self.train(*CONVNET, "--pretrained", self.room / "w.pt")
        self.assertEqual(pretrained, begun)

    def test_weights_alone_leave_the_first_epoch_to_the_command_line(self):
        torch.save(model_peers.make("convnet", 1, 28, 10).state_dict(), self.room / "w.pt")
        to, _ = self.imported(self.room / "w.pt")
        flags = [*CONVNET, "--first-epoch", "1", "--epochs", "2"]
        begun, _ = self.train(*flags, "--resume", to)
        pretrained, _ = self.train(*flags, "--pretrained", self.room / "w.pt")
        self.assertEqual(pretrained, begun)

    def test_resume_is_for_a_directory_without_snapshots(self):
        self.train(*CONVNET, "--snapshot-dir", self.room / "old")
        flags = [*CONVNET, "--epochs", "2", "--resume", self.room / "old"]
        alone, _ = self.train(*flags)
        first, _ = self.train(*flags, "--snapshot-dir", self.snapshots)
        self.assertEqual(alone, first)
        before = self.manifests()
        again, _ = self.train(*flags, "--snapshot-dir", self.snapshots)
        self.assertEqual((first, before), (again, self.manifests()))

    def test_a_snapshot_that_is_not_there(self):
        self.assertIn("--resume", self.refusal(*CONVNET, "--resume", self.room / "nowhere"))
        (self.room / "empty").mkdir()
        _, err = self.train(*CONVNET, "--resume", self.room / "empty")
        self.assertIn("has no snapshot: training starts over", err)
        results = jobs.Run([jobs.DDPTRAIN, *self.data(), *CONVNET, "--snapshot-dir", str(self.snapshots)],
                           1, {"TORCHELASTIC_RESTART_COUNT": "1"}).wait()
        self.assertIn(f"restarted, but {self.snapshots} has no snapshot", results[0][2])

    def test_what_is_wrong_is_refused_by_name(self):
        torch.manual_seed(3)
        net = model_peers.make("convnet", 1, 28, 10)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        net(torch.randn(2, 1, 28, 28)).sum().backward()
        optimizer.step()
        whole = {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 1, "step": 20}

        def assert_refused(value, part):
            torch.save(value, self.room / "bad.pt")
            ended = self.ddpctl("import", self.room / "bad.pt", "--to", self.room / "to", status=BAD_FILE)
            self.assertIn(part, ended.stderr)
            self.assertRegex(ended.stderr, r"\Addpctl: [^\n]*bad\.pt: [^\n]+\n\Z")
            self.assertFalse((self.room / "to").exists())

        assert_refused({**whole, "epoch": -1}, "'epoch' is -1")
        assert_refused({k: v for k, v in whole.items() if k != "epoch"}, "give --epoch N")
        assert_refused({k: v for k, v in whole.items() if k != "step"}, "give --step N")
        assert_refused({"model": {k: v.half() for k, v in whole["model"].items()}}, ".to(torch.float32)")
        assert_refused({**whole, "model": dict(list(whole["model"].items())[2:])}, "the model has 6")
        assert_refused({"nothing": 1}, "no weights")
        more = torch.zeros(1)
        assert_refused({**whole, "model": {**whole["model"], "__metadata__": more}}, "'__metadata__' occurs twice or is reserved")
        assert_refused({**whole, "model": {**whole["model"], "größe": more}}, "printable ASCII")
        assert_refused({**whole, "model": {**whole["model"], "a\nb": more}}, "printable ASCII")
        groups = torch.optim.SGD([{"params": [p]} for p in net.parameters()], lr=0.1)
        assert_refused({**whole, "optimizer": groups.state_dict()}, "8 groups of parameters")

        torch.save({**whole, "seed": 2**64 - 1}, self.room / "good.pt")  # torch.seed() makes such
        to, _ = self.imported(self.room / "good.pt")
        again = self.ddpctl("import", self.room / "good.pt", "--to", to, status=USAGE)
        self.assertIn("give a new one", again.stderr)
        for flags, part in ((["--model", "linear"], "the model has no tensor"),
                            (["--model", "my_net"], "'fc2.weight' is missing or has another shape"),
                            (["--model", "convnet", "--optimizer", "adamw"], "saved with --optimizer sgd"),
                            (["--model", "convnet", "--momentum", "0"], "the optimizer has no state '")):
            self.assertIn(part, self.refusal(*flags, *SMALL, "--resume", to))

    def test_an_optimizer_that_numbers_parameters_otherwise_is_refused(self):
        """Two parameters of the same shape are swapped in the file: the shapes do not show it."""
        net = model_peers.make("resnet18", 3, 28, 10)
        net.conv1 = torch.nn.Conv2d(1, 64, 7, 2, 3, bias=False)  # for grey images
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        for parameter in net.parameters():
            parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
        weights = list(net.state_dict().items())
        one, two = (next(i for i, (name, _) in enumerate(weights) if name == f"layer1.0.bn{n}.weight")
                    for n in (1, 2))
        weights[one], weights[two] = weights[two], weights[one]
        torch.save({"model": dict(weights), "optimizer": optimizer.state_dict(), "epoch": 1, "step": 20},
                   self.room / "swapped.pt")
        to, _ = self.imported(self.room / "swapped.pt")
        self.assertIn("its parameters have another order than the model's",
                      self.refusal("--model", "resnet18", *SMALL, "--resume", to))


if __name__ == "__main__":
    unittest.main(verbosity=2)
