"""The results of the data code on files, compared with torchvision on PIL, bit for bit.

The files are created here: JPEGs and PNGs of many sizes and kinds, records and pickles of CIFAR-10, IDX pairs.
"""

import base64
import hashlib
import io
import json
import os
import pathlib
import pickle
import shutil
import struct
import subprocess
import tarfile
import tempfile
import unittest
import unittest.mock
import zlib

import numpy as np
import torch
from PIL import Image
from torchvision import datasets, transforms as T

PRINT_SAMPLES = os.environ["PRINT_SAMPLES"]
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
CIFAR = ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010))

PRESETS = {
    "mnist": [T.ToTensor(), T.Normalize((0.1307,), (0.3081,))],
    "fashion-mnist": [T.ToTensor(), T.Normalize((0.2860,), (0.3530,))],
    "cifar10-plain": [T.ToTensor()],
    "cifar10-eval": [T.ToTensor(), T.Normalize(*CIFAR)],
    "cifar10-augment": [T.RandomCrop(32, padding=4), T.RandomHorizontalFlip(), T.ToTensor(),
                        T.Normalize(*CIFAR)],
    "imagenet-train": [T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ToTensor(),
                       T.Normalize(*IMAGENET)],
    "imagenet-eval": [T.Resize(256), T.CenterCrop(224), T.ToTensor(), T.Normalize(*IMAGENET)],
}
PRESETS["tiny-train"] = PRESETS["imagenet-train"]
PRESETS["tiny-eval"] = PRESETS["imagenet-eval"]


def call(kind, data_dir, split, preset, draws="torch", seed=0, batch=4, workers=0):
    words = [PRINT_SAMPLES, kind, data_dir, split, preset, draws, seed, batch, workers]
    return subprocess.run([str(word) for word in words], capture_output=True, check=False)


def ours(*args, **options):
    """[(label, floats)] of the program."""
    done = call(*args, **options)
    if done.returncode != 0:
        raise AssertionError(done.stderr.decode())
    head, _, rest = done.stdout.partition(b"\n")
    about = json.loads(head)
    floats = int(np.prod(about["shape"]))
    one = np.dtype([("label", "<i8"), ("floats", "<f4", (floats,))])
    samples = np.frombuffer(rest, dtype=one)
    assert len(samples) == about["size"], (len(samples), about)
    return [(int(s["label"]), s["floats"]) for s in samples]


def theirs(dataset, seed=0):
    """The same by torchvision, in the main process."""
    torch.manual_seed(seed)
    return [(int(label), image.numpy().ravel()) for image, label in
            (dataset[i] for i in range(len(dataset)))]


def noise(random, height, width, smooth=4):
    """Pixels that a JPEG keeps details of."""
    small = random.integers(0, 256, (height // smooth + 2, width // smooth + 2, 3), dtype=np.uint8)
    return Image.fromarray(small).resize((width, height), Image.BICUBIC)


class Fixture(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)
        self.random = np.random.default_rng(7)

    def assert_same(self, mine, other):
        self.assertEqual([label for label, _ in mine], [label for label, _ in other])
        for number, ((_, a), (_, b)) in enumerate(zip(mine, other, strict=True)):
            self.assertEqual(a.shape, b.shape)
            worst = float(np.abs(a - b).max())
            self.assertTrue(a.tobytes() == b.tobytes(),
                            f"sample {number}: largest difference {worst}")

    def save(self, path, image, **options):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        image.save(path, "JPEG", **options)

    def pictures(self, split):
        """Colour, grey, CMYK, progressive, every subsampling; odd, tiny, large, long and narrow."""
        sizes = [(375, 500), (500, 333), (64, 64), (1, 1), (17, 5), (224, 224), (256, 256),
                 (255, 257), (700, 90), (40, 900), (301, 299), (223, 224)]
        for number, (height, width) in enumerate(sizes):
            image = noise(self.random, height, width)
            name = f"{split}/class {number % 3}/{number}.JPEG"
            self.save(name, image, quality=60 + 3 * number, subsampling=number % 3,
                      progressive=number % 2 == 1)
        self.save(f"{split}/class 0/sub/grey.jpg", noise(self.random, 100, 120).convert("L"))
        self.save(f"{split}/class 1/cmyk.jpeg", noise(self.random, 90, 70).convert("CMYK"))


class Folders(Fixture):
    def folder(self, split, preset):
        return datasets.ImageFolder(self.root / split, T.Compose(PRESETS[preset]))

    def test_eval_transforms(self):
        self.pictures("val")
        self.assert_same(ours("folder", self.root, "test", "imagenet-eval"),
                         theirs(self.folder("val", "imagenet-eval")))

    def test_train_transforms_draw_as_torchvision(self):
        self.pictures("train")
        for seed in (0, 1, 2):
            self.assert_same(ours("folder", self.root, "train", "imagenet-train", seed=seed),
                             theirs(self.folder("train", "imagenet-train"), seed))

    def test_resizing_of_many_sizes(self):
        for number in range(60):
            height, width = self.random.integers(1, 400, 2)
            self.save(f"train/one/{number:03}.jpg", noise(self.random, height, width, 2))
        self.assert_same(ours("folder", self.root, "train", "tiny-train", seed=5),
                         theirs(self.folder("train", "tiny-train"), 5))

    def test_the_order_of_files_is_torchvisions(self):
        image = noise(self.random, 32, 32)
        for name in ("b/z.jpg", "b/B.jpg", "b/a b/1.jpg", "b/a/1.jpg", "b/é.JPG", "a b/1.jpg",
                     "a/10.jpg", "a/9.jpg", "a/not.txt", "Z/x.jpeg", "a/.hidden.jpg"):
            self.save(f"train/{name}", image)
            image = image.rotate(90)
        self.assert_same(ours("folder", self.root, "train", "cifar10-plain"),
                         theirs(self.folder("train", "cifar10-plain")))

    def test_an_archive_is_the_same_as_its_folder(self):
        self.pictures("train")
        self.save("train/class 2/" + "long" * 22 + "/" + "name" * 15 + ".jpg", noise(self.random, 20, 20))
        expected = ours("folder", self.root, "train", "tiny-train", draws="keyed", seed=3)
        for number, style in enumerate((tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT,
                                        tarfile.PAX_FORMAT)):
            for base in (".", "tiny-imagenet-200"):
                path = self.root / f"{number}{len(base)}.tar"
                with tarfile.open(path, "w", format=style) as archive:
                    archive.add(self.root / "train", f"{base}/train")
                mine = ours("folder", path, "train", "tiny-train", draws="keyed", seed=3)
                self.assert_same(mine, expected)

    def test_tiny_imagenets_val_is_sorted_into_classes(self):
        lines = []
        for number in (3, 20, 100, 7, 11):
            wnid = f"n{number % 3}"
            image = noise(self.random, 64, 64)
            self.save(f"train/{wnid}/images/{number}.JPEG", image)
            self.save(f"val/images/val_{number}.JPEG", image)
            self.save(f"sorted/{wnid}/val_{number}.JPEG", image)
            lines.append(f"val_{number}.JPEG\t{wnid}\t0\t0\t62\t62\n")
        (self.root / "val/val_annotations.txt").write_text("".join(lines))
        expected = theirs(self.folder("sorted", "tiny-eval"))
        self.assert_same(ours("folder", self.root, "test", "tiny-eval"), expected)
        with tarfile.open(self.root / "tiny.tar", "w") as archive:
            for part in ("train", "val"):
                archive.add(self.root / part, f"tiny/{part}")
        self.assert_same(ours("folder", self.root / "tiny.tar", "test", "tiny-eval"), expected)

    def test_neither_workers_nor_batches_change_a_sample(self):
        self.pictures("train")
        alone = ours("folder", self.root, "train", "imagenet-train", draws="keyed", batch=1)
        for batch, workers in ((3, 1), (5, 2), (100, 4)):
            self.assert_same(alone, ours("folder", self.root, "train", "imagenet-train",
                                         draws="keyed", batch=batch, workers=workers))

    def test_a_truncated_file_is_named(self):
        self.pictures("train")
        victim = self.root / "train/class 2/2.JPEG"
        victim.write_bytes(victim.read_bytes()[:-300])
        for workers in (0, 2):
            done = call("folder", self.root, "train", "imagenet-train", workers=workers,
                        draws="keyed")
            self.assertEqual(done.returncode, 1)
            self.assertIn(str(victim), done.stderr.decode())

    def test_an_empty_class_is_named(self):
        self.pictures("train")
        (self.root / "train/forgotten").mkdir()
        done = call("folder", self.root, "train", "imagenet-train")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr.decode(), "--data-dir.*forgotten")


class Cifar10(Fixture):
    def setUp(self):
        super().setUp()
        self.labels = self.random.integers(0, 10, 30)
        self.pixels = self.random.integers(0, 256, (30, 3, 32, 32), dtype=np.uint8)
        records = [bytes([label]) + planes.tobytes()
                   for label, planes in zip(self.labels, self.pixels, strict=True)]
        (self.root / "data_batch_1.bin").write_bytes(b"".join(records[:20]))
        (self.root / "data_batch_2.bin").write_bytes(b"".join(records[20:]))

    def theirs(self, preset, seed):
        pipeline = T.Compose(PRESETS[preset])
        torch.manual_seed(seed)
        images = (Image.fromarray(planes.transpose(1, 2, 0)) for planes in self.pixels)
        return [(int(label), pipeline(image).numpy().ravel())
                for label, image in zip(self.labels, images, strict=True)]

    def test_every_preset(self):
        for preset in ("cifar10-plain", "cifar10-eval", "cifar10-augment", "imagenet-train",
                       "imagenet-eval"):
            with self.subTest(preset):
                self.assert_same(ours("cifar10", self.root, "train", preset, seed=4),
                                 self.theirs(preset, 4))


ADAM7 = ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1))


def png_chunk(name, content):
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def png_rows(samples, depth):
    """Rows without a filter: (height, width, channels) numbers of `depth` bits, packed."""
    rows = []
    for row in samples.reshape(samples.shape[0], -1):
        if depth == 16:
            packed = row.astype(">u2").tobytes()
        else:
            bits = np.unpackbits(row.astype(np.uint8)[:, None], axis=1)[:, 8 - depth:]
            packed = np.packbits(bits).tobytes()
        rows.append(b"\0" + packed)
    return b"".join(rows)


def png_of(samples, depth, color, is_interlaced=False, chunks=b""):
    height, width, _ = samples.shape
    rows = png_rows(samples, depth)
    if is_interlaced:
        passes = (samples[y::down, x::right] for y, x, down, right in ADAM7)
        rows = b"".join(png_rows(part, depth) for part in passes if part.size)
    head = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, int(is_interlaced))
    return (b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", head) + chunks
            + png_chunk(b"IDAT", zlib.compress(rows)) + png_chunk(b"IEND", b""))


class Png(Fixture):
    KINDS = [(depth, color) for color, depths in ((0, (1, 2, 4, 8, 16)), (2, (8, 16)), (3, (1, 2, 4, 8)),
                                                  (4, (8, 16)), (6, (8, 16))) for depth in depths]
    CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}

    def test_every_kind_of_file_is_pils(self):
        folder = self.root / "train/one"
        folder.mkdir(parents=True)
        for depth, color in self.KINDS:
            for number, (height, width) in enumerate(((32, 32), (37, 61), (1, 1), (9, 3))):
                for is_interlaced in (False, True):
                    shape = height, width, self.CHANNELS[color]
                    samples = self.random.integers(0, 2 ** depth, shape)
                    if depth == 16:  # PIL cuts grey off above 255
                        samples[::2] //= 200
                    chunks = b""
                    if color == 3:  # an entry or two may be missing
                        entries = max(1, 2 ** depth - number)
                        chunks = png_chunk(b"PLTE", self.random.bytes(3 * entries))
                    if color in (0, 2, 3) and number % 2:
                        size = {0: 2, 2: 6, 3: 1}[color]
                        chunks += png_chunk(b"tRNS", bytes(size))
                    chunks += png_chunk(b"gAMA", struct.pack(">I", 100000))
                    name = f"{color}.{depth}.{number}.{is_interlaced}.png"
                    (folder / name).write_bytes(png_of(samples, depth, color, is_interlaced, chunks))
        dataset = datasets.ImageFolder(self.root / "train", T.Compose(PRESETS["imagenet-eval"]))
        self.assert_same(ours("folder", self.root, "train", "imagenet-eval"), theirs(dataset))

    def test_what_pil_writes_itself(self):
        folder = self.root / "train/one"
        folder.mkdir(parents=True)
        for number, mode in enumerate(("1", "L", "LA", "P", "RGB", "RGBA", "I;16")):
            image = noise(self.random, 50 + number, 64)
            image = Image.fromarray(np.asarray(image)[:, :, 0].astype(np.uint16) * 9) if mode == "I;16" else image.convert(mode)
            image.save(folder / f"{number}.PNG", optimize=number % 2 == 0)
            image.save(folder / f"{number} under another name.JPEG", "PNG")
        dataset = datasets.ImageFolder(self.root / "train", T.Compose(PRESETS["imagenet-eval"]))
        self.assert_same(ours("folder", self.root, "train", "imagenet-eval"), theirs(dataset))


class Imagenet(Fixture):
    """ImageNet's archives of three classes, whose numbers are in another order than their names."""

    NUMBERS = {1: "n02119789", 2: "n02100735", 3: "n01440764"}
    # What scipy.io.savemat wrote for a table "synsets" like the devkit's, after the header of the file.
    META = b"MATLAB 5.0 MAT-file".ljust(124) + b"\0\1IM" + base64.b64decode(
    "DwAAANUBAAB4nOWW0UojMRSGU+m67U3perWwIAFvK8x0u7ZeWXAFBRFRcfeuG2fOzAQnmSVJ6fYNfCwfyUcwcaY1xuKI2bsG"
    "Tof/lP/LnJm/oR2E0J82Qpv62tK1gcr1qdJNXY2qPuuScy5BSf19E32p+ne6Tk4vry8O+0HYn5z8NIBfZ+V1uWaFiKXdSPNC"
    "vmjwKZtEGc1jAfyp8UIsGBzUJAOaZqqyKEEon1BGUpCoo5sj9DzPpjNPwyqz2lW/XA8Hxj+2/M0V/rbl71aaB/0w3B+O9qu+"
    "4RzXcL46HKNvqcJJ8a+Hr6f5X5CYkUgUisr33FfH4RktGclznAqYGyzyfD6lP3jDv1i2f+Hz3ffj/tbYc/+xTy6CYPj9hzVH"
    "HWfVezziaU5lhvWPT4F4H6frcEwRjheoGwEQr2cekGceWh55CAeDYLg3sOaoOye2HI7RCniU9fAV5RHBynw+885reNsOz+hE"
    "gMxmRGcLxySC3ZzeAk4JA5zorKzrudH1y8m98Dk3gpEOSmjN8buGs+NwjI6LtIfjgoFUNMJP6pBwKnFCGM0pEVQu+XW5+ebw"
    "jSaYAbvRqSkSrDIdGeBTWW7xH57/63N3lX/D8XeX9ocDm+P7v8Anh48I/oRN")

    def setUp(self):
        super().setUp()
        images = iter(range(1000))
        with tarfile.open(self.root / "ILSVRC2012_img_train.tar", "w") as outer:
            for number, wnid in self.NUMBERS.items():
                inner = io.BytesIO()
                with tarfile.open(fileobj=inner, mode="w") as archive:
                    for name in self.random.permutation(20)[:5 + number]:
                        self.add(archive, f"{wnid}_{name}.JPEG", self.image(next(images)))
                self.add(outer, f"{wnid}.tar", inner.getvalue())
        self.truth = [int(number) for number in self.random.permutation([1, 2, 3] * 4)]
        with tarfile.open(self.root / "ILSVRC2012_img_val.tar", "w") as archive:
            for number in self.random.permutation(len(self.truth)):
                self.add(archive, f"ILSVRC2012_val_{number + 1:08}.JPEG", self.image(next(images)))
        with tarfile.open(self.root / "ILSVRC2012_devkit_t12.tar.gz", "w:gz") as archive:
            data = "ILSVRC2012_devkit_t12/data"
            self.add(archive, f"{data}/ILSVRC2012_validation_ground_truth.txt",
                     "".join(f"{number}\n" for number in self.truth).encode())
            self.add(archive, f"{data}/meta.mat", self.META)

    def image(self, number):
        file = io.BytesIO()
        image = noise(self.random, 60 + number, 90 - number)
        image.save(file, "PNG" if number == 3 else "JPEG")  # as one of ImageNet's is
        return file.getvalue()

    @staticmethod
    def add(archive, name, content):
        member = tarfile.TarInfo(name)
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))

    def torchvisions(self, split, preset):
        """torchvision's reader, which unpacks everything, of a copy of the archives."""
        root = self.root / "unpacked"
        root.mkdir(exist_ok=True)
        for path in self.root.glob("ILSVRC2012*"):
            shutil.copy(path, root)
        try:
            import scipy.io  # noqa: F401  torchvision reads the devkit by it
        except ImportError:
            classes = {wnid: (wnid,) for wnid in self.NUMBERS.values()}
            torch.save((classes, [self.NUMBERS[number] for number in self.truth]), root / "meta.bin")
        unchecked = {key: (name, None) for key, (name, _) in datasets.imagenet.ARCHIVE_META.items()}
        with unittest.mock.patch.dict(datasets.imagenet.ARCHIVE_META, unchecked):
            return datasets.ImageNet(root, split, transform=T.Compose(PRESETS[preset]))

    def test_the_archives_are_what_torchvision_makes_of_them(self):
        for split, name in (("train", "train"), ("test", "val")):
            expected = theirs(self.torchvisions(name, "imagenet-train"), 2)
            self.assertEqual(len({label for label, _ in expected}), 3)
            self.assert_same(ours("folder", self.root, split, "imagenet-train", seed=2), expected)
            unpacked = ours("folder", self.root / "unpacked", split, "imagenet-train", seed=2)
            self.assert_same(unpacked, expected)

    def test_a_training_archive_that_is_cut_off_is_refused(self):
        path = self.root / "ILSVRC2012_img_train.tar"
        path.write_bytes(path.read_bytes()[:-20_000])
        done = call("folder", self.root, "train", "imagenet-train")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr.decode(), "--data-dir .*ILSVRC2012_img_train.tar.*truncated")


class Python2Pickler(pickle._Pickler):
    """Writes what cPickle of Python 2 wrote with protocol 2: texts as bytes, numbers of the memo from 1,
    numpy's modules by their old names."""

    dispatch = dict(pickle._Pickler.dispatch)

    def __init__(self, file):
        super().__init__(file, protocol=2)

    def memoize(self, obj):
        number = len(self.memo) + 1
        self.write(b"q" + bytes([number]) if number < 256 else b"r" + struct.pack("<I", number))
        self.memo[id(obj)] = number, obj

    def save_text(self, text):
        text = text.encode() if isinstance(text, str) else text
        size = len(text)
        self.write((b"U" + bytes([size]) if size < 256 else b"T" + struct.pack("<i", size)) + text)
        if size < 256:
            self.memoize(text)

    dispatch[str] = dispatch[bytes] = save_text

    def save_global(self, obj, name=None):
        module = obj.__module__.replace("numpy._core", "numpy.core")
        self.write(f"c{module}\n{name or obj.__qualname__}\n".encode())
        self.memoize(obj)

    dispatch[type] = dispatch[type(np._core.multiarray._reconstruct)] = save_global


def python2_pickle(value):
    file = io.BytesIO()
    Python2Pickler(file).dump(value)
    return file.getvalue()


class Unchecked(datasets.CIFAR10):
    """torchvision's reader, for files other than the published ones."""

    def _check_integrity(self):
        return True

    def _load_meta(self):
        pass


class CifarPython(Fixture):
    NAMES = "airplane automobile bird cat deer dog frog horse ship truck".split()

    def setUp(self):
        super().setUp()
        self.folder = self.root / "cifar-10-batches-py"
        self.folder.mkdir()
        for number in range(1, 6):
            # The pixels of a batch or two are stored by columns, as a transposed array's are.
            self.write(f"data_batch_{number}", 7 * number, np.asfortranarray if number > 3 else np.array)
        self.write("test_batch", 13, np.array)
        self.meta = python2_pickle({"num_cases_per_batch": 10000, "label_names": self.NAMES, "num_vis": 3072})
        (self.folder / "batches.meta").write_bytes(self.meta)

    def write(self, name, count, layout):
        value = {"batch_label": name,
                 "labels": [int(label) for label in self.random.integers(0, 10, count)],
                 "data": layout(self.random.integers(0, 256, (count, 3072), dtype=np.uint8)),
                 "filenames": [f"frog_s_{number:06}.png" for number in range(count)]}
        (self.folder / name).write_bytes(python2_pickle(value))

    def test_the_pickles_are_those_of_python_2(self):
        # The published file itself: no other test reads one.
        self.assertEqual(hashlib.md5(self.meta).hexdigest(), datasets.CIFAR10.meta["md5"])
        text = (self.folder / "data_batch_1").read_bytes()
        entry = pickle.loads(text, encoding="bytes")
        self.assertEqual(set(entry), {b"batch_label", b"labels", b"data", b"filenames"})
        self.assertNotIn(b"_codecs", text)

    def test_folder_and_archive_are_torchvisions(self):
        archives = {"cifar-10-python.tar.gz": "w:gz", "cifar.tar": "w"}
        for name, mode in archives.items():
            with tarfile.open(self.root / name, mode) as archive:
                archive.add(self.folder, self.folder.name)
        for is_train in (True, False):
            split = "train" if is_train else "test"
            other = theirs(Unchecked(self.root, is_train, T.Compose(PRESETS["cifar10-augment"])), 3)
            for place in (self.root, self.folder, *(self.root / name for name in archives)):
                with self.subTest(f"{split} of {place.name}"):
                    self.assert_same(ours("cifar10", place, split, "cifar10-augment", seed=3), other)

    def test_it_is_the_binary_version(self):
        binary = self.root / "cifar-10-batches-bin"
        binary.mkdir()
        for path in self.folder.glob("*_batch*"):
            entry = pickle.loads(path.read_bytes(), encoding="bytes")
            (binary / f"{path.name}.bin").write_bytes(b"".join(
                bytes([label]) + row.tobytes()
                for label, row in zip(entry[b"labels"], entry[b"data"], strict=True)))
        for split in ("train", "test"):
            self.assert_same(ours("cifar10", self.folder, split, "cifar10-plain"),
                             ours("cifar10", binary, split, "cifar10-plain"))

    def test_what_python_3_or_an_attacker_pickled_is_refused_by_name(self):
        class Evil:
            def __reduce__(self):
                return os.system, ("true",)

        array = {b"labels": [1], b"data": np.zeros((1, 3072), np.uint8)}
        for content, why in ((pickle.dumps(array), "protocol"), (pickle.dumps(array, 2), "_codecs encode"),
                             (pickle.dumps(Evil(), 2), "system"), (b"", "no end")):
            (self.folder / "data_batch_3").write_bytes(content)
            done = call("cifar10", self.root, "train", "cifar10-plain")
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr.decode(), f"data_batch_3: .*{why}")


class Idx(Fixture):
    def test_grey_presets(self):
        pixels = self.random.integers(0, 256, (9, 28, 28), dtype=np.uint8)
        head = b"".join(n.to_bytes(4, "big") for n in (0x803, 9, 28, 28))
        (self.root / "train-images-idx3-ubyte").write_bytes(head + pixels.tobytes())
        (self.root / "train-labels-idx1-ubyte").write_bytes(
            b"".join(n.to_bytes(4, "big") for n in (0x801, 9)) + bytes(range(9)))
        for preset in ("mnist", "fashion-mnist"):
            pipeline = T.Compose(PRESETS[preset])
            expected = [(label, pipeline(Image.fromarray(image)).numpy().ravel())
                        for label, image in enumerate(pixels)]
            self.assert_same(ours("idx", self.root, "train", preset), expected)


class Synthetic(Fixture):
    def test_fake_data_is_torchvisions(self):
        dataset = datasets.FakeData(5, (3, 40, 56), 1000, T.Compose(PRESETS["imagenet-eval"]))
        self.assert_same(ours("fake", ".", "train", "imagenet-eval", workers=2, draws="keyed"),
                         theirs(dataset))

    def test_smeared_noise_is_that_of_torch(self):
        expected = []
        for index in range(3):
            image = torch.randn(3, 32, 32, generator=torch.Generator().manual_seed(index))
            for _ in range(3):
                for dimension in (1, 2):
                    image = image + 0.3 * image.roll(1, dimension)
            image = (image - image.mean()) / image.std()
            expected.append((index, image.numpy().ravel()))
        for (label, mine), (wanted, other) in zip(ours("smeared", ".", "train", "mnist"), expected,
                                                  strict=True):
            self.assertEqual(label, wanted)
            np.testing.assert_allclose(mine, other, rtol=0, atol=3e-6)


if __name__ == "__main__":
    unittest.main()
