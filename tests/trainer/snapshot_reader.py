"""Reads a snapshot with only Python's standard library, following only docs/snapshots.md: what snapshot_writer
saved is what the document says."""

import hashlib
import json
import math
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

WRITER = sys.argv.pop()
SIZES = {"F64": 8, "I64": 8, "F32": 4, "U8": 1}


def read_safetensors(path):
    content = path.read_bytes()
    (length,) = struct.unpack_from("<Q", content)
    header = json.loads(content[8:8 + length])
    data = content[8 + length:]
    metadata = header.pop("__metadata__")
    place = 0
    order = []
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        size = SIZES[entry["dtype"]]
        assert begin == place and end - begin == size * math.prod(entry["shape"]), name
        assert begin % size == 0, name
        place = end
        order.append((-size, name))
        tensors[name] = (entry["dtype"], entry["shape"], data[begin:end])
    assert place == len(data) and length % 8 == 0
    assert order == sorted(order)
    return metadata, tensors


class Snapshot(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        directory = pathlib.Path(cls.temporary.name)
        subprocess.run([WRITER, directory, "4096", "3"], check=True, stdout=subprocess.DEVNULL)
        cls.snapshots = sorted(path for path in directory.iterdir() if path.is_dir())
        cls.newest = cls.snapshots[-1]
        cls.manifest = json.loads((cls.newest / "manifest.json").read_text())

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def test_sorts_last_by_name(self):
        self.assertEqual(["snapshot-c000001-g000000-r000000-s000000000002",
                          "snapshot-c000001-g000000-r000000-s000000000003"],
                         [path.name for path in self.snapshots])

    def test_passes_sha256sum(self):
        subprocess.run(["sha256sum", "--check", "--status", "manifest.json.sha256"],
                       cwd=self.newest, check=True)
        for file in self.manifest["files"]:
            content = (self.newest / file["name"]).read_bytes()
            self.assertEqual(file["size"], len(content))
            self.assertEqual(file["sha256"], hashlib.sha256(content).hexdigest())

    def test_lists_every_file(self):
        listed = {file["name"] for file in self.manifest["files"]}
        self.assertEqual({path.name for path in self.newest.iterdir()},
                         listed | {"manifest.json", "manifest.json.sha256"})

    def test_says_where_training_stood(self):
        expected = {"format": "ddprun-snapshot", "format_version": 1, "claim": 1, "generation": 0,
                    "round": 0, "step": 3, "epoch": 0, "batches_consumed": 3,
                    "samples_consumed": 384, "world": 2,
                    "arguments": {"model": "conv-net", "seed": "0"}}
        del self.manifest["files"]
        self.assertEqual(expected, self.manifest)

    def test_holds_the_weights(self):
        metadata, tensors = read_safetensors(self.newest / "model.safetensors")
        self.assertEqual({"format": "pt"}, metadata)
        self.assertEqual({"conv.weight": ("F32", [256]), "fc.weight": ("F32", [2, 128]),
                          "batches_tracked": ("I64", [])},
                         {name: tensor[:2] for name, tensor in tensors.items()})

    def test_holds_the_momentum(self):
        _, tensors = read_safetensors(self.newest / "optimizer.safetensors")
        self.assertEqual({"conv.weight.momentum", "fc.weight.momentum"}, set(tensors))

    def test_holds_what_each_rank_has_alone(self):
        _, tensors = read_safetensors(self.newest / "ranks.safetensors")
        self.assertEqual(("U8", [5056]), tensors["rank1.rng"][:2])
        (loss,) = struct.unpack("<d", tensors["rank1.sum.loss"][2])
        self.assertEqual(0.1 * 3 + 1, loss)


if __name__ == "__main__":
    unittest.main()
