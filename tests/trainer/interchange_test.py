"""Files of weights and checkpoints: we read what torch and safetensors write, and they read what we write, bit for
bit.

    interchange_test.py --weights-copy P --ddpctl P --snapshot-writer P [unittest arguments]
"""

import argparse
import collections
import io
import os
import pathlib
import pickle
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile

import torch
from safetensors.torch import load_file, save_file

options = argparse.Namespace()
PATIENCE_S = 120
DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32,
          torch.int16, torch.int8, torch.uint8, torch.bool, torch.float8_e4m3fn, torch.float8_e5m2)
BAD_FILE = 78


def bits(tensor):
    """Bytes in order of the elements, so that NaN equals itself and 0.0 is not -0.0."""
    dense = tensor.detach().contiguous()
    return dense.view(torch.uint8).numpy().tobytes() if dense.dim() else \
        dense.reshape(1).view(torch.uint8).numpy().tobytes()


def random_tensor(dtype, *shape):
    if dtype is torch.bool:
        return torch.randint(0, 2, shape).bool()
    count = torch.empty(shape, dtype=dtype).numel() * torch.empty((), dtype=dtype).element_size()
    return torch.randint(0, 256, (count,), dtype=torch.uint8).view(dtype).reshape(shape)


class Net(torch.nn.Module):
    """The kinds of tensors in torchvision's nets: parameters, running means, a counter."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3)
        self.bn = torch.nn.BatchNorm2d(8)
        self.fc = torch.nn.Linear(8, 5)

    def forward(self, x):
        return self.fc(self.bn(self.conv(x)).mean((2, 3)))


def trained(make_optimizer):
    torch.manual_seed(0)
    net = Net()
    optimizer = make_optimizer(net.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        net(torch.randn(4, 3, 8, 8)).square().mean().backward()
        optimizer.step()
    return net, optimizer


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "sgd without momentum": lambda p: torch.optim.SGD(p, lr=0.1),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.05),
    "adadelta": torch.optim.Adadelta,
    "rmsprop": lambda p: torch.optim.RMSprop(p, momentum=0.5),
    "adagrad": torch.optim.Adagrad,
}


class Interchange(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.room = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        torch.manual_seed(1)

    # Verbs. -------------------------------------------------------------------------------------

    def copy(self, what, source, to, *names):
        return subprocess.run([options.weights_copy, what, source, to, *names], capture_output=True,
                              text=True, timeout=PATIENCE_S)

    def through_us(self, value, what="all", to="ours.pt", names=()):
        """Saves with torch, reads and writes it with our code, and loads it with torch again."""
        torch.save(value, self.room / "theirs.pt")
        ended = self.copy(what, self.room / "theirs.pt", self.room / to, *names)
        self.assertEqual((0, ""), (ended.returncode, ended.stderr))
        if to.endswith(".safetensors"):
            return load_file(self.room / to)
        return torch.load(self.room / to, weights_only=True)

    def assert_same(self, left, right, place="root"):
        if isinstance(left, torch.Tensor):
            self.assertEqual((left.dtype, left.shape), (right.dtype, right.shape), place)
            self.assertEqual(bits(left), bits(right), place)
        elif isinstance(left, dict):
            self.assertEqual(list(left), list(right), place)
            for key in left:
                self.assert_same(left[key], right[key], f"{place}.{key}")
        elif isinstance(left, (list, tuple)):
            self.assertEqual((type(left) is list, len(left)), (type(right) is list, len(right)), place)
            for i, item in enumerate(left):
                self.assert_same(item, right[i], f"{place}[{i}]")
        else:
            self.assertEqual((type(left), left), (type(right), right), place)

    def assert_refused(self, content, part):
        (self.room / "bad.pt").write_bytes(content)
        ended = self.copy("all", self.room / "bad.pt", self.room / "out.pt")
        self.assertEqual(1, ended.returncode, ended.stderr)
        self.assertRegex(ended.stderr, r"\A[^\n]*bad\.pt: [^\n]{1,300}\n\Z")
        self.assertIn(part, ended.stderr)
        self.assertFalse((self.room / "out.pt").exists())

    def saved(self, value, **more):
        file = io.BytesIO()
        torch.save(value, file, **more)
        return file.getvalue()

    # torch's files. -----------------------------------------------------------------------------

    def test_tensors_of_every_type_come_back(self):
        value = {str(dtype): random_tensor(dtype, 3, 5) for dtype in DTYPES}
        value.update({f"scalar {dtype}": random_tensor(dtype) for dtype in DTYPES})
        value.update({f"empty {dtype}": torch.empty((0, 2), dtype=dtype) for dtype in DTYPES})
        self.assert_same(value, self.through_us(value))

    def test_views_come_back_dense(self):
        base = torch.randn(6, 4, 5)
        value = {"transposed": base.permute(2, 0, 1), "sliced": base[1:5:2, :, 3],
                 "expanded": torch.randn(3, 1).expand(3, 4), "row": base[2], "flipped": base.flip(0),
                 "half": base.half().t() if base.dim() == 2 else base.half()[:, 1]}
        again = self.through_us(value)
        self.assert_same(value, again)
        self.assertTrue(all(tensor.is_contiguous() for tensor in again.values()))

    def test_tensors_that_share_a_storage_come_back_each(self):
        weight = torch.randn(4, 4)
        value = {"tied": weight, "to": weight, "part": weight[1:3]}
        self.assert_same(value, self.through_us(value))

    def test_plain_values_come_back(self):
        value = {"ints": [0, 1, -1, 255, 256, 65536, 2**31, -2**31 - 1, 2**63 - 1, -2**63, 2**63, 2**64 - 1],
                 "floats": (0.1, float("inf"), -0.0), "none": None, "bools": [True, False],
                 "texts": ["", "größe", "a" * 1000], 7: {"nested": {"deeper": [(), {}, []]}},
                 "size": tuple(torch.Size([2, 3]))}
        self.assert_same(value, self.through_us(value))
        self.assertEqual((2, 3), self.through_us({"s": torch.Size([2, 3])})["s"])

    def test_parameters_come_back_as_tensors(self):
        parameter = torch.nn.Parameter(torch.randn(3))
        self.assert_same({"p": parameter.detach()}, self.through_us({"p": parameter}))

    def test_a_large_state_dict_comes_back(self):
        # More than 256 and 65,536 objects, so that torch's pickler counts in more bytes.
        value = {f"layer.{i}.weight": torch.full((3,), float(i)) for i in range(20_000)}
        self.assert_same(value, self.through_us(value))

    def test_weights_are_found_wherever_programs_put_them(self):
        net, optimizer = trained(OPTIMIZERS["sgd"])
        weights = net.state_dict()
        wrapped = {f"module.{name}": tensor for name, tensor in weights.items()}
        for file in (weights, wrapped, {"model": weights, "epoch": 3}, {"state_dict": wrapped},
                     {"model_state_dict": weights, "optimizer_state_dict": optimizer.state_dict()},
                     {"epoch": 1, "model_state": wrapped, "loss": 0.5}, {"net": weights},
                     {"MODEL_STATE": weights, "EPOCHS_RUN": 2}):
            for to in ("ours.pt", "ours.safetensors"):
                again = self.through_us(file, "weights", to)
                self.assert_same(dict(sorted(weights.items())), dict(sorted(again.items())))

    def test_every_optimizer_resumes_from_what_we_wrote(self):
        for name, make in OPTIMIZERS.items():
            with self.subTest(name):
                net, optimizer = trained(make)
                names = [name for name, _ in net.named_parameters()]
                again = self.through_us({"model": net.state_dict(), "optimizer": optimizer.state_dict()},
                                        "optimizer", names=names)
                self.assert_same(optimizer.state_dict(), again)
                other = make(Net().parameters())
                other.load_state_dict(again)
                self.assert_same(optimizer.state_dict(), other.state_dict())

    def test_an_optimizer_of_another_model_is_refused(self):
        net, optimizer = trained(OPTIMIZERS["adamw"])
        torch.save({"model": net.state_dict(), "optimizer": optimizer.state_dict()},
                   self.room / "theirs.pt")
        ended = self.copy("optimizer", self.room / "theirs.pt", self.room / "x.pt", "a", "b")
        self.assertEqual(1, ended.returncode)
        self.assertIn("has 6 parameters, but the model has 2", ended.stderr)

    # safetensors. -------------------------------------------------------------------------------

    def test_safetensors_of_every_type_come_back(self):
        value = {str(dtype): random_tensor(dtype, 3, 5) for dtype in DTYPES}
        save_file(value, self.room / "theirs.safetensors", metadata={"format": "pt"})
        for to in ("ours.safetensors", "ours.pt"):
            ended = self.copy("weights", self.room / "theirs.safetensors", self.room / to)
            self.assertEqual("", ended.stderr)
            again = load_file(self.room / to) if to.endswith("rs") else \
                torch.load(self.room / to, weights_only=True)
            self.assert_same(dict(sorted(value.items())), dict(sorted(again.items())))

    # What is refused. ---------------------------------------------------------------------------

    def test_a_pickle_that_would_run_a_command_is_refused_by_name(self):
        marker = self.room / "ran"

        class Evil:
            def __reduce__(self):
                return os.system, (f"touch {marker}",)

        self.assert_refused(self.saved({"model": {"w": torch.ones(2)}, "x": Evil()}),
                            "'posix system'")
        self.assertFalse(marker.exists())

    def test_other_objects_are_refused_by_name(self):
        counter = collections.Counter(a=1)
        self.assert_refused(self.saved({"c": counter, "w": torch.ones(1)}), "'collections Counter'")
        self.assert_refused(self.saved({"a": argparse.Namespace(x=1)}), "'argparse Namespace'")
        self.assert_refused(self.saved({"n": 2**70}), "more than 64 bits")
        self.assert_refused(self.saved({(1, 2): 3}), "key of a dict")

    def test_tensors_of_other_types_are_refused_by_their_dtype(self):
        """And the message does not call them files that could run code, which they are not."""
        for dtype in (torch.uint16, torch.uint32, torch.uint64, torch.complex64, torch.complex128,
                      torch.float8_e4m3fnuz, torch.float8_e5m2fnuz):
            with self.subTest(dtype):
                self.assert_refused(self.saved({"w": torch.ones(1), "c": torch.zeros(2).to(dtype)}),
                                    f"it has a tensor of dtype {dtype}, which cannot be read")

    def test_old_files_are_refused_by_name(self):
        old = self.saved({"w": torch.ones(2)}, _use_new_zipfile_serialization=False)
        self.assert_refused(old, "before torch 1.6")
        self.assert_refused(pickle.dumps({"a": 1}), "neither")

    def test_a_newer_protocol_is_refused_by_name(self):
        self.assert_refused(self.saved({"w": torch.ones(2)}, pickle_protocol=4), "protocol 4")

    def test_a_program_of_torchscript_is_refused_by_name(self):
        file = io.BytesIO()
        torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), file)
        self.assert_refused(file.getvalue(), "TorchScript")

    def test_truncations_are_refused(self):
        whole = self.saved(trained(OPTIMIZERS["adamw"])[0].state_dict())
        for size in range(0, len(whole), 397):
            (self.room / "bad.pt").write_bytes(whole[:size])
            ended = self.copy("all", self.room / "bad.pt", self.room / "out.pt")
            self.assertEqual(1, ended.returncode, size)

    def test_a_flipped_bit_in_a_tensor_is_named(self):
        whole = bytearray(self.saved({"w": torch.arange(1000)}))
        whole[whole.index(struct.pack("<qq", 500, 501))] ^= 1
        self.assert_refused(bytes(whole), "/data/0': its CRC-32 is")

    def test_a_compressed_archive_is_refused_by_name(self):
        source = zipfile.ZipFile(io.BytesIO(self.saved({"w": torch.zeros(1000)})))
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as to:
            for name in source.namelist():
                to.writestr(name, source.read(name))
        self.assert_refused(packed.getvalue(), "it is compressed")

    def test_sizes_that_a_pickle_claims_are_checked(self):
        def with_pickle(change):
            source = zipfile.ZipFile(io.BytesIO(self.saved({"w": torch.zeros(3, 77)})))
            made = io.BytesIO()
            with zipfile.ZipFile(made, "w") as to:
                for name in source.namelist():
                    content = source.read(name)
                    to.writestr(name, change(content) if name.endswith("data.pkl") else content)
            return made.getvalue()

        # Three rows of 77 become 3 x 2^31 of stride zero: 25 GB of nothing.
        self.assert_refused(with_pickle(lambda p: p.replace(b"K\x03KM\x86", b"K\x03J\xff\xff\xff\x7f\x86")
                                        .replace(b"KMK\x01\x86", b"K\x00K\x00\x86")), "bytes in total")
        self.assert_refused(with_pickle(lambda p: p.replace(b"K\x03KM\x86", b"K\x04KM\x86")),
                            "storage '0' is smaller")
        self.assert_refused(with_pickle(lambda p: p.replace(b"K\xe7", b"K\xe6")),
                            "has 924 bytes, expected 920")

    # Snapshots. ---------------------------------------------------------------------------------

    def snapshots(self):
        directory = self.room / "snapshots"
        subprocess.run([options.snapshot_writer, directory, "4096", "3"], check=True,
                       stdout=subprocess.DEVNULL, timeout=PATIENCE_S)
        return directory, sorted(directory.glob("snapshot-*"))[-1]

    def export(self, snapshot, name, *words):
        ended = subprocess.run([options.ddpctl, "snapshot", "export", snapshot, "--to",
                                self.room / name, *words],
                               capture_output=True, text=True, timeout=PATIENCE_S)
        self.assertEqual(0, ended.returncode, ended.stderr)
        return self.room / name

    def test_an_exported_snapshot_loads_in_python(self):
        directory, snapshot = self.snapshots()
        weights = load_file(snapshot / "model.safetensors")
        momentum = load_file(snapshot / "optimizer.safetensors")
        checkpoint = torch.load(self.export(directory, "a.pt"), weights_only=True)
        self.assertEqual(["model", "optimizer", "epoch", "step"], list(checkpoint))
        self.assertEqual((0, 3), (checkpoint["epoch"], checkpoint["step"]))
        self.assert_same(dict(sorted(weights.items())), dict(sorted(checkpoint["model"].items())))
        state = checkpoint["optimizer"]["state"]
        self.assert_same(momentum["fc.weight.momentum"], state[0]["momentum"])
        self.assert_same(momentum["conv.weight.momentum"], state[1]["momentum"])
        [group] = checkpoint["optimizer"]["param_groups"]
        self.assertEqual([0, 1], group["params"])
        defaults = torch.optim.SGD([torch.ones(1)]).state_dict()["param_groups"][0]
        self.assertEqual({**defaults, "params": [0, 1]}, group)

    def test_exported_weights_load_in_python(self):
        _, snapshot = self.snapshots()
        weights = dict(sorted(load_file(snapshot / "model.safetensors").items()))
        bare = torch.load(self.export(snapshot, "b.pth", "--weights-only"), weights_only=True)
        self.assert_same(weights, dict(sorted(bare.items())))
        wrapped = load_file(self.export(snapshot, "c.safetensors", "--prefix", "module."))
        self.assert_same(weights, {name.removeprefix("module."): tensor
                                   for name, tensor in sorted(wrapped.items())})
        self.assertTrue(all(name.startswith("module.") for name in wrapped))

    def test_diff_compares_a_snapshot_with_pythons_file(self):
        _, snapshot = self.snapshots()
        weights = load_file(snapshot / "model.safetensors")
        torch.save(weights, self.room / "same.pt")
        weights["fc.weight"] = weights["fc.weight"].clone()
        weights["fc.weight"][0, 0] = 0.25
        torch.save(weights, self.room / "other.pt")
        for name, status in (("same.pt", 0), ("other.pt", 1)):
            ended = subprocess.run([options.ddpctl, "snapshot", "diff", snapshot, self.room / name],
                                   capture_output=True, text=True, timeout=PATIENCE_S)
            self.assertEqual(status, ended.returncode, ended.stderr)
        self.assertRegex(ended.stdout, r"\Amodel fc\.weight: 1 of 256 elements differ, by at most \S+\n\Z")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for program in ("--weights-copy", "--ddpctl", "--snapshot-writer"):
        parser.add_argument(program, required=True, type=pathlib.Path)
    options, rest = parser.parse_known_args()
    unittest.main(argv=sys.argv[:1] + rest)
