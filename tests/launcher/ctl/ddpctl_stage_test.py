"""`ddpctl stage` on one machine: archives good and bad, processes that wait, and one that is killed.

    ddpctl_stage_test.py --ddpctl PROGRAM [unittest arguments]
"""

import argparse
import ctypes
import fcntl
import hashlib
import io
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

options = argparse.Namespace()
PATIENCE_S = 120
BAD_USAGE, REFUSED_BY_THE_SYSTEM, BAD_FILE = 2, 75, 78
MARKER = ".ddprun-staged"
CAP_DAC_OVERRIDE = 1
FILES = {"a.txt": b"alpha", "deep/er/b.bin": bytes(range(256)) * 1000, "größe": b"umlaut"}


def zstandard(data):
    library = ctypes.CDLL("libzstd.so.1")
    library.ZSTD_compress.restype = library.ZSTD_compressBound.restype = ctypes.c_size_t
    room = library.ZSTD_compressBound(ctypes.c_size_t(len(data)))
    out = ctypes.create_string_buffer(room)
    size = library.ZSTD_compress(out, ctypes.c_size_t(room), data, ctypes.c_size_t(len(data)), 3)
    return out.raw[:size]


def member(name, **more):
    info = tarfile.TarInfo(name)
    for key, value in more.items():
        setattr(info, key, value)
    return info


class DdpctlStage(unittest.TestCase):
    def setUp(self):
        self.room = pathlib.Path(tempfile.mkdtemp(prefix="ddprun_stage_test_")).resolve()
        self.addCleanup(shutil.rmtree, self.room)
        self.destination = self.room / "disk/data"

    # Verbs. -------------------------------------------------------------------------------------

    def tar(self, name="data.tar", mode="w", files=FILES, members=()):
        """An archive with `files`, followed by members of other kinds."""
        path = self.room / name
        with tarfile.open(path, mode, format=tarfile.PAX_FORMAT) as archive:
            for file, content in files.items():
                archive.addfile(member(file, size=len(content), mode=0o644), io.BytesIO(content))
            for info in members:
                archive.addfile(info)
        return path

    def words(self, archive, *flags):
        return [options.ddpctl, "stage", str(archive), str(self.destination), *map(str, flags)]

    def environment(self, **more):
        # As in a batch job; libarchive must still handle names that are not ASCII.
        return os.environ | {"LC_ALL": "C", "SLURMD_NODENAME": "node7"} | more

    def stage(self, archive, *flags, **more):
        return subprocess.run(self.words(archive, *flags), env=self.environment(),
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=PATIENCE_S, **more)

    def content(self):
        return {str(path.relative_to(self.destination)): path.read_bytes()
                for path in self.destination.rglob("*") if path.is_file() and path.name != MARKER}

    def assert_staged(self, ended, files=FILES):
        self.assertEqual((0, ""), (ended.returncode, ended.stderr))
        self.assertRegex(ended.stdout, r"\Anode7: staged \d+ files, \d+ bytes from [^\n]+\n\Z")
        self.assertEqual(files, self.content())
        self.assert_alone()

    def assert_alone(self):
        """Nothing but the destination is left."""
        self.assertEqual(["data"], os.listdir(self.destination.parent))

    def assert_refused(self, ended, status, *parts):
        self.assertEqual((status, ""), (ended.returncode, ended.stdout), ended.stderr)
        self.assertRegex(ended.stderr, r"\Addpctl: [^\n]+\n\Z")
        for part in parts:
            self.assertIn(part, ended.stderr)

    def assert_nothing_there(self):
        self.assertEqual([], list(self.destination.parent.glob("*")))

    # Good archives. -----------------------------------------------------------------------------

    def test_each_kind_of_archive(self):
        whole = self.tar()
        (self.room / "data.tar.zst").write_bytes(zstandard(whole.read_bytes()))
        with zipfile.ZipFile(self.room / "data.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in FILES.items():
                archive.writestr(name, content)
        for kind in ("gz", "bz2", "xz"):
            self.tar(f"data.tar.{kind}", f"w:{kind}")
        for name in ("data.tar", "data.tar.gz", "data.tar.bz2", "data.tar.xz", "data.tar.zst", "data.zip"):
            with self.subTest(name):
                self.destination = self.room / name.replace(".", "_") / "data"
                self.assert_staged(self.stage(self.room / name))

    def test_links_within_and_times_are_kept_and_rights_of_the_owner_are_not(self):
        archive = self.tar(members=[
            member("deep/link", type=tarfile.SYMTYPE, linkname="../a.txt"),
            member("hard", type=tarfile.LNKTYPE, linkname="a.txt"),
            member("old", mode=0o4755, mtime=1_000_000_000, uid=12345)])
        self.assertEqual(0, self.stage(archive).returncode)
        self.assertEqual("../a.txt", os.readlink(self.destination / "deep/link"))
        self.assertTrue((self.destination / "hard").samefile(self.destination / "a.txt"))
        old = (self.destination / "old").stat()
        self.assertEqual((1_000_000_000, os.getuid()), (old.st_mtime, old.st_uid))
        self.assertFalse(old.st_mode & 0o7000)

    def test_names_with_blanks_and_brackets(self):
        archive = self.tar("[1, 2] a b.tar")
        self.destination = self.room / "disk" / "[3] c d"
        self.assertEqual(0, self.stage(archive).returncode)
        self.assertEqual(FILES, self.content())

    def test_checksums_that_are_right(self):
        archive = self.tar()
        md5 = hashlib.md5(archive.read_bytes()).hexdigest()
        sha256 = hashlib.sha256(archive.read_bytes()).hexdigest()
        sums = self.room / "SHA256SUMS"
        sums.write_text(f"{'0' * 64}  other.tar\n{sha256}  /net/{archive.name}\n")
        for number, flags in enumerate((("--md5", md5.upper()), ("--sha256", sha256),
                                        ("--checksum-file", sums))):
            with self.subTest(flags):
                self.destination = self.room / f"disk{number}/data"
                ended = self.stage(archive, *flags)
                self.assert_staged(ended)
                self.assertRegex(ended.stdout, f"{md5}|{sha256}")

    def test_a_second_time_nothing_is_done_nor_said(self):
        archive = self.tar()
        digest = hashlib.sha256(archive.read_bytes()).hexdigest()
        self.assert_staged(self.stage(archive, "--sha256", digest))
        made = self.destination.stat()
        archive.touch()  # copied again: the checksum is the same
        ended = self.stage(archive, "--sha256", digest)
        self.assertEqual((0, "", ""), (ended.returncode, ended.stdout, ended.stderr))
        self.assertEqual((made.st_ino, made.st_mtime_ns),
                         (self.destination.stat().st_ino, self.destination.stat().st_mtime_ns))

    # Bad archives, none of which leaves anything. -------------------------------------------------

    def test_a_corrupt_archive_is_refused_with_both_checksums(self):
        archive = self.tar()
        expected = hashlib.sha256(archive.read_bytes()).hexdigest()
        damaged = bytearray(archive.read_bytes())
        damaged[600] ^= 1
        archive.write_bytes(damaged)
        found = hashlib.sha256(damaged).hexdigest()
        self.assert_refused(self.stage(archive, "--sha256", expected), BAD_FILE, expected, found)
        self.assert_nothing_there()

    def test_an_archive_that_ends_too_early(self):
        for name, mode in (("data.tar", "w"), ("data.tar.gz", "w:gz")):
            with self.subTest(name):
                archive = self.tar(name, mode)
                archive.write_bytes(archive.read_bytes()[:-20_000 if mode == "w" else -500])
                self.assert_refused(self.stage(archive), BAD_FILE, name, "a complete tar or zip")
                self.assert_nothing_there()

    def test_what_is_no_archive(self):
        for content in (b"", b"text\n" * 1000):
            archive = self.room / "data.tar"
            archive.write_bytes(content)
            self.assert_refused(self.stage(archive), BAD_FILE, "data.tar")
            self.assert_nothing_there()

    def test_members_that_reach_outside(self):
        outside = self.room / "outside"
        for info in (member(str(outside)), member("../outside"), member("a/../../outside"),
                     member("l", type=tarfile.SYMTYPE, linkname=str(self.room)),
                     member("l", type=tarfile.SYMTYPE, linkname=".."),
                     member("l", type=tarfile.LNKTYPE, linkname="../data.tar"),
                     member("pipe", type=tarfile.FIFOTYPE),
                     member("null", type=tarfile.CHRTYPE, devmajor=1, devminor=3)):
            with self.subTest(info.name, type=info.type):
                ended = self.stage(self.tar(members=[info]))
                self.assert_refused(ended, BAD_FILE, f"'{info.name}'", "nothing is extracted")
                self.assert_nothing_there()
                self.assertFalse(outside.exists())

    def test_a_member_below_a_link(self):
        """The link is harmless; nothing is written through it."""
        link = member("l", type=tarfile.SYMTYPE, linkname="deep")
        ended = self.stage(self.tar(members=[link, member("l/new")]))
        self.assertNotEqual(0, ended.returncode)
        self.assert_nothing_there()

    def test_an_archive_that_is_missing_or_no_file(self):
        self.assert_refused(self.stage(self.room / "nothing.tar"), BAD_USAGE, "nothing.tar",
                            "check that its file system is mounted")
        os.mkfifo(self.room / "pipe")
        self.assert_refused(self.stage(self.room / "pipe"), REFUSED_BY_THE_SYSTEM, "not a regular")

    # Bad places. ----------------------------------------------------------------------------------

    def test_a_destination_with_something_else_in_it_is_left_alone(self):
        self.destination.mkdir(parents=True)
        (self.destination / "mine").write_text("precious")
        self.assert_refused(self.stage(self.tar()), BAD_USAGE, "were not staged")
        self.assertEqual({"mine": b"precious"}, self.content())
        self.assert_alone()

    def test_a_destination_of_another_archive_is_left_alone(self):
        self.assertEqual(0, self.stage(self.tar()).returncode)
        other = self.tar("other.tar", files={"c.txt": b"gamma"})
        self.assert_refused(self.stage(other), BAD_USAGE, "from another archive")
        self.assertEqual(FILES, self.content())

    def test_an_empty_destination_is_as_good_as_none(self):
        self.destination.mkdir(parents=True)
        self.assert_staged(self.stage(self.tar()))

    def test_a_destination_that_may_not_be_written(self):
        self.destination.parent.mkdir()
        self.destination.parent.chmod(0o555)

        def as_an_ordinary_user():
            ctypes.CDLL(None).prctl(24, CAP_DAC_OVERRIDE, 0, 0, 0)  # PR_CAPBSET_DROP

        ended = self.stage(self.tar(), preexec_fn=as_an_ordinary_user)
        self.assert_refused(ended, REFUSED_BY_THE_SYSTEM, "data.staging: Permission denied")

    def test_a_full_disk(self):
        if os.geteuid() != 0:
            self.skipTest("a small disk needs root")
        self.destination.parent.mkdir()
        large = self.tar(files={"large": bytes(4 << 20)})
        mount = f"mount -t tmpfs -o size=1m none '{self.destination.parent}'"
        ended = subprocess.run(
            ["unshare", "--mount", "sh", "-c",
             mount + ' && "$@"; status=$?; ls -A "$0"; exit $status', self.destination.parent,
             *self.words(large)],
            env=self.environment(), capture_output=True, text=True, timeout=PATIENCE_S)
        self.assert_refused(ended, REFUSED_BY_THE_SYSTEM, "disk full", "No space left")

    def test_bad_usage(self):
        archive = self.tar()
        self.assert_refused(self.stage(archive, "--md5", "12"), BAD_USAGE, "--md5: '12'")
        self.assert_refused(self.stage(archive, "--md5", "0" * 32, "--sha256", "0" * 64), BAD_USAGE,
                            "excludes")
        sums = self.room / "sums"
        sums.write_text(f"{'0' * 64}  other.tar\n")
        self.assert_refused(self.stage(archive, "--checksum-file", sums), BAD_USAGE,
                            "no line for 'data.tar'")
        self.assert_nothing_there()

    # Several processes. -------------------------------------------------------------------------

    def popen(self, archive, **more):
        return subprocess.Popen(self.words(archive), env=self.environment(**more), text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def test_of_many_at_once_one_does_it(self):
        archive = self.tar()
        many = [self.popen(archive) for _ in range(8)]
        told = [process.communicate(timeout=PATIENCE_S) for process in many]
        self.assertEqual([0] * 8, [process.returncode for process in many], told)
        self.assertEqual(1, sum(out.count("\n") for out, _ in told), told)
        self.assertEqual(FILES, self.content())
        self.assert_alone()

    def test_who_waits_takes_over_when_the_other_ends_without_success(self):
        aside = self.room / "disk/data.staging"
        aside.mkdir(parents=True)
        (aside / "half").write_text("worthless")
        other = os.open(aside, os.O_RDONLY)
        fcntl.flock(other, fcntl.LOCK_EX)
        waiting = self.popen(self.tar(), LOGLEVEL="INFO")
        self.assertIn("waiting for the process", waiting.stderr.readline())
        os.close(other)  # as the kernel does for a process that is killed
        out, err = waiting.communicate(timeout=PATIENCE_S)
        self.assertEqual((0, 1), (waiting.returncode, out.count("\n")), err)
        self.assertEqual(FILES, self.content())
        self.assert_alone()

    def test_killed_in_the_middle_it_leaves_no_marker_and_the_next_one_starts_again(self):
        """It prints a line for every thousand files, and the pipe has room for fewer lines than that: it cannot have
        finished when it is killed."""
        files = {f"{number:080}": b"" for number in range(50_000)}
        archive = self.tar(files=files)
        reading, writing = os.pipe()
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
        staging = subprocess.Popen(self.words(archive), env=self.environment(LOGLEVEL="INFO"),
                                   stderr=writing, stdout=subprocess.DEVNULL)
        os.close(writing)
        with open(reading, "rb", buffering=0) as lines:
            self.assertIn(b"1000 files so far", lines.readline())
            staging.kill()
            self.assertEqual(-signal.SIGKILL, staging.wait(PATIENCE_S))
        self.assertFalse(self.destination.exists())
        self.assertEqual([], list(self.destination.parent.rglob(MARKER)))
        self.assert_staged(self.stage(self.tar()))

    def test_ended_in_the_middle_of_a_file_it_leaves_no_marker(self):
        archive = self.tar(files={"large": bytes(1_000_000)})

        def limit_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

        ended = self.stage(archive, preexec_fn=limit_files)
        self.assertEqual(-signal.SIGXFSZ, ended.returncode)
        self.assertFalse(self.destination.exists())
        self.assert_staged(self.stage(archive), files={"large": bytes(1_000_000)})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddpctl", required=True)
    rest = parser.parse_known_args(namespace=options)[1]
    options.ddpctl = os.path.abspath(options.ddpctl)
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
