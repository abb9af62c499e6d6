"""`ddpctl snapshot` as a program, on snapshots that a process has saved.

    ddpctl_snapshot_test.py --ddpctl PROGRAM --snapshot-writer PROGRAM --manual FILE [unittest arguments]
"""

import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

options = argparse.Namespace()
PATIENCE_S = 60
DIFFERENT, BAD_USAGE, NOT_THERE, BAD_FILE = 1, 2, 75, 78
OLD = "snapshot-c000001-g000000-r000000-s000000000002"
NEW = "snapshot-c000001-g000000-r000000-s000000000003"


class DdpctlSnapshot(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.room = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.directory = self.room / "snapshots"
        subprocess.run([options.snapshot_writer, self.directory, "4096", "3"], check=True,
                       stdout=subprocess.DEVNULL, timeout=PATIENCE_S)

    # Verbs. -------------------------------------------------------------------------------------

    def run_with(self, *words):
        return subprocess.run([options.ddpctl, "snapshot", *words], capture_output=True, text=True,
                              timeout=PATIENCE_S)

    def output(self, *words, status=0):
        ended = self.run_with(*words)
        self.assertEqual((status, ""), (ended.returncode, ended.stderr))
        return ended.stdout

    def assert_refused(self, status, part, *words):
        ended = self.run_with(*words)
        self.assertEqual((status, ""), (ended.returncode, ended.stdout))
        self.assertRegex(ended.stderr, r"\Addpctl: [^\n]{1,400}\n\Z")
        self.assertIn(part, ended.stderr)

    def flip_a_byte(self, snapshot, name="model.safetensors"):
        file = self.directory / snapshot / name
        content = bytearray(file.read_bytes())
        content[-1] ^= 1
        file.write_bytes(content)
        return file

    # ls. ----------------------------------------------------------------------------------------

    def test_ls_has_a_row_for_each_snapshot_the_newest_first(self):
        header, *rows = self.output("ls", self.directory).splitlines()
        self.assertEqual("name step epoch world size age state", " ".join(header.split()))
        self.assertEqual([NEW, OLD], [row.split()[0] for row in rows])
        self.assertRegex(rows[0], rf"\A{NEW} +3 +0 +2 +\d+\.\d KiB +\d+ s  complete\Z")

    def test_ls_tells_the_same_in_json(self):
        newest, _ = json.loads(self.output("ls", self.directory, "--json"))
        files = json.loads((self.directory / NEW / "manifest.json").read_text())["files"]
        self.assertIn(newest.pop("age_s"), range(600))
        self.assertEqual({"name": NEW, "complete": True, "step": 3, "epoch": 0, "world": 2,
                          "bytes": sum(file["size"] for file in files)}, newest)

    def test_ls_names_a_snapshot_that_is_cut_off(self):
        with (self.directory / NEW / "ranks.safetensors").open("r+b") as file:
            file.truncate(100)
        (self.directory / OLD / "manifest.json").write_text("{}")
        _, first, second = self.output("ls", self.directory).splitlines()
        self.assertRegex(first, r"damaged: ranks\.safetensors: 100 bytes, not \d+\Z")
        self.assertRegex(second, r"damaged: .*manifest\.json: its sha256 differs from the one")

    def test_ls_of_no_directory_is_refused(self):
        self.assert_refused(NOT_THERE, "nowhere", "ls", self.room / "nowhere")
        self.assertEqual([], json.loads(self.output("ls", self.room, "--json")))

    # verify. ------------------------------------------------------------------------------------

    def test_verify_reads_every_file_of_every_snapshot(self):
        lines = self.output("verify", self.directory).splitlines()
        self.assertEqual(8, len(lines))
        self.assertTrue(all(line.startswith("ok ") for line in lines))
        self.assertEqual(4, len(self.output("verify", self.directory / OLD).splitlines()))

    def test_verify_names_the_file_whose_byte_was_flipped(self):
        file = self.flip_a_byte(OLD)
        lines = self.output("verify", self.directory, status=DIFFERENT).splitlines()
        damaged = [line for line in lines if not line.startswith("ok ")]
        self.assertEqual(1, len(damaged))
        self.assertRegex(damaged[0], rf"\ADAMAGED  {file}: .*its sha256 is")
        self.output("verify", self.directory / NEW)

    def test_verify_names_a_file_that_is_missing(self):
        (self.directory / NEW / "optimizer.safetensors").unlink()
        self.assertIn("optimizer.safetensors: No such file",
                      self.output("verify", self.directory / NEW, status=DIFFERENT))

    def test_verify_of_nothing_is_refused(self):
        self.assert_refused(NOT_THERE, "contains no snapshot", "verify", self.room)

    # inspect. -----------------------------------------------------------------------------------

    def test_inspect_tells_all_that_is_in_it(self):
        text = self.output("inspect", self.directory)
        for part in (NEW, "step        3", "384 samples and 3 batches", "world       2",
                     "claim 1, term 0, round 0", "seed", "conv-net", "model.safetensors",
                     "model: 3 tensors", "conv.weight", "F32 [256]", "I64 []",
                     "optimizer: 2 tensors", "fc.weight.momentum", "parameters: 2, in order",
                     "rank 1: generator of 5056 bytes, loss 1.3"):
            self.assertIn(part, text)

    def test_inspect_tells_the_same_in_json(self):
        told = json.loads(self.output("inspect", self.directory / OLD, "--json"))
        manifest = json.loads((self.directory / OLD / "manifest.json").read_text())
        self.assertEqual(manifest, {key: told[key] for key in manifest})
        self.assertIn({"name": "fc.weight", "dtype": "F32", "shape": [2, 128]}, told["model"])
        self.assertEqual(["fc.weight", "conv.weight"], told["parameters"])
        self.assertEqual({"rng_bytes": 5056, "sums": {"loss": 0.2}}, told["ranks"][0])

    def test_inspect_refuses_a_damaged_one(self):
        file = self.flip_a_byte(NEW)
        self.assert_refused(BAD_FILE, str(file), "inspect", self.directory)

    # diff. --------------------------------------------------------------------------------------

    def test_diff_of_a_copy_finds_nothing(self):
        copy = self.room / "copy" / NEW
        shutil.copytree(self.directory / NEW, copy)
        self.assertIn("no differences; the 3 tensors",
                      self.output("diff", self.directory, copy))

    def test_diff_tells_what_differs(self):
        lines = self.output("diff", self.directory / OLD, self.directory / NEW,
                            status=DIFFERENT).splitlines()
        self.assertEqual(["step: 2 | 3", "samples of the epoch: 256 | 384",
                          "batches of the epoch: 2 | 3"], lines[:3])
        for part in (r"rank 0: random number generator", r"rank 0: sums: .*0\.2.* \| .*0\.3",
                     r"model batches_tracked: 1 of 1 elements differ, by at most \S+",
                     r"model conv\.weight: 256 of 256 elements differ, by at most \S+",
                     r"optimizer fc\.weight\.momentum: "):
            self.assertTrue(any(re.match(part, line) for line in lines), part)
        self.assertFalse(any("seed" in line for line in lines))

    # export. ------------------------------------------------------------------------------------

    def test_export_writes_what_diff_finds_equal(self):
        for name, words in (("a.pt", ()), ("b.pt", ("--weights-only",)), ("c.safetensors", ()),
                            ("d.pt", ("--weights-only", "--prefix", "module."))):
            ended = self.run_with("export", self.directory, "--to", self.room / name, *words)
            self.assertEqual(0, ended.returncode, ended.stderr)
            self.assertIn("the 3 tensors of the model are equal",
                          self.output("diff", self.directory, self.room / name))

    def test_export_says_what_the_snapshot_does_not_tell(self):
        ended = self.run_with("export", self.directory, "--to", self.room / "a.pt")
        self.assertEqual("ddpctl: the snapshot has no value for lr, momentum, weight_decay of sgd; "
                         "the file has torch's defaults\n", ended.stderr)

    def test_export_refuses_a_prefix_that_would_be_lost(self):
        self.assert_refused(BAD_USAGE, "--weights-only", "export", self.directory, "--to",
                            self.room / "a.pt", "--prefix", "module.")

    def test_export_of_a_damaged_one_leaves_the_file_that_was_there(self):
        to = self.room / "a.pt"
        to.write_text("before")
        self.flip_a_byte(NEW, "optimizer.safetensors")
        self.assert_refused(BAD_FILE, "optimizer.safetensors", "export", self.directory, "--to", to)
        self.assertEqual("before", to.read_text())

    # import. ------------------------------------------------------------------------------------

    def test_import_is_the_way_back_from_export(self):
        self.assertEqual(0, self.run_with("export", self.directory, "--to", self.room / "a.pt").returncode)
        to = self.room / "imported"
        ended = self.run_with("import", self.room / "a.pt", "--to", to)
        self.assertEqual((0, f"{to / 'snapshot-c000001-g000000-r000000-s000000000003'}: next epoch "
                             "0, 3 steps done; 3 tensors of the model, 2 of the optimizer (sgd)\n"),
                         (ended.returncode, ended.stdout))
        self.assertIn("no state of the generator", ended.stderr)
        lines = self.output("diff", self.directory, to, status=DIFFERENT).splitlines()
        self.assertFalse([line for line in lines if re.match("model |optimizer |step|epoch", line)], lines)
        told = json.loads(self.output("inspect", to, "--json"))
        self.assertEqual(["fc.weight", "conv.weight"], told["parameters"])
        self.assertEqual(str(self.room / "a.pt"), told["arguments"]["imported-from"])
        self.output("verify", to)

    def test_import_takes_what_the_file_does_not_tell_from_flags(self):
        weights = self.directory / NEW / "model.safetensors"
        to = self.room / "imported"
        ended = self.run_with("import", weights, "--to", to, "--epoch", "7", "--step", "700")
        self.assertIn("next epoch 7, 700 steps done; 3 tensors of the model\n", ended.stdout)
        self.assertIn("only the weights", ended.stderr)
        self.assert_refused(BAD_FILE, "give --step N", "import", weights, "--to", self.room / "x", "--epoch", "7")

    def test_import_leaves_a_directory_to_the_process_that_uses_it(self):
        weights = self.directory / NEW / "model.safetensors"
        before = sorted(self.directory.iterdir())
        self.assert_refused(BAD_USAGE, "give a new one", "import", weights, "--to", self.directory)
        self.assertEqual(before, sorted(self.directory.iterdir()))

    def test_import_of_what_is_no_file_of_weights_is_refused(self):
        for content in (b"", b"PK\x03\x04", b"text"):
            (self.room / "bad.pt").write_bytes(content)
            self.assert_refused(BAD_FILE, "bad.pt: ", "import", self.room / "bad.pt", "--to", self.room / "x")
        self.assert_refused(NOT_THERE, "none.pt", "import", self.room / "none.pt", "--to", self.room / "x")
        self.assertFalse((self.room / "x").exists())

    # The best. ----------------------------------------------------------------------------------

    def with_best(self):
        """Five were saved and two are kept, and beside them the third, which is the best."""
        directory = self.room / "best"
        subprocess.run([options.snapshot_writer, directory, "4096", "5", "3"], check=True,
                       stdout=subprocess.DEVNULL, timeout=PATIENCE_S)
        return directory

    def test_ls_marks_the_best_that_newer_ones_have_not_pushed_out(self):
        directory = self.with_best()
        _, *rows = self.output("ls", directory).splitlines()
        self.assertEqual([5, 4, 3], [int(row.split()[1]) for row in rows])
        self.assertEqual(["complete", "complete", "complete, best: accuracy 3 after epoch 0"],
                         [row.split("  ")[-1] for row in rows])
        told = json.loads(self.output("ls", directory, "--json"))
        best = {"metric": "accuracy", "value": 3.0, "epoch": 0, "snapshot": OLD[:-1] + "3"}
        self.assertEqual([None, None, best], [row.get("best") for row in told])

    def test_the_best_is_inspected_and_exported_by_a_flag(self):
        directory = self.with_best()
        best = OLD[:-1] + "3"
        text = self.output("inspect", "--best", directory)
        self.assertIn(f"snapshot    {best}\n", text)
        self.assertIn(f"best        accuracy 3 after epoch 0, {best}\n", text)
        to = self.room / "best.safetensors"
        self.output("export", directory, "--best", "--to", to)
        self.assertIn("are equal", self.output("diff", directory / best, to))
        self.assert_refused(NOT_THERE, "train with ddptrain --keep-best", "inspect", "--best", self.directory)
        shutil.rmtree(directory / best)
        self.assert_refused(NOT_THERE, "the best snapshot is gone (accuracy 3 after epoch 0)",
                            "inspect", "--best", directory)

    # Usage. -------------------------------------------------------------------------------------

    def test_bad_usage_is_one_line(self):
        for part, words in (("subcommand", ()), ("'lss'", ("lss",)), ("DIR", ("ls",)),
                            ("--to", ("export", "x")), ("'--jason'", ("ls", "x", "--jason")),
                            ("'' is empty", ("verify", ""))):
            self.assert_refused(BAD_USAGE, part, *words)

    def test_the_manual_has_every_verb_and_flag(self):
        """And nothing else: its synopsis is what --help prints."""
        lines = re.findall(r"(?m)^    ddpctl snapshot (\w+) (.*)$", options.manual.read_text())
        synopsis = {verb: set(re.findall(r"--[\w-]+", rest)) for verb, rest in reversed(lines)}
        self.assertEqual({"ls", "verify", "inspect", "diff", "export", "import"}, set(synopsis))
        for verb, flags in synopsis.items():
            told = set(re.findall(r"--[\w-]+", self.output(verb, "--help").split("Options:")[1]))
            self.assertEqual(flags, told - {"--help", "--snapshot-dir", "--keep-best", "--resume"}, verb)

    def test_help_names_every_verb(self):
        text = self.output("--help")
        for verb in ("ls", "verify", "inspect", "diff", "export", "import"):
            self.assertRegex(text, rf"(?m)^  {verb} ")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for program in ("--ddpctl", "--snapshot-writer", "--manual"):
        parser.add_argument(program, required=True, type=pathlib.Path)
    options, rest = parser.parse_known_args()
    unittest.main(argv=sys.argv[:1] + rest)
