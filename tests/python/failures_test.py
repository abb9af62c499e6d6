"""What the failure paragraph says of a Python worker's end: the cause, whatever it is, without a decorator.

    failures_test.py --ddprun PROGRAM --python INTERPRETER_WITH_TORCH [unittest arguments]

Workers are executed, and forked; their stderr passes through ddprun, and goes to a file.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest

WAYS = ([], ["-r", "3"], ["--preload", "torch"], ["--run-path"])

options = argparse.Namespace()


class Failures(unittest.TestCase):
    def setUp(self):
        self.room = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="ddprun_test_")))

    def assert_told(self, text, status, *expected, ways=WAYS):
        """Rank 1 runs `text`, and rank 0 waits for its end; the paragraph has what is `expected`, in this order."""
        script = self.room / "train.py"
        script.write_text("import os, sys, time\nif os.environ['RANK'] == '0':\n    time.sleep(1000)\n" +
                          textwrap.dedent(text))
        environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        environment.update(PYTHON_EXEC=options.python, TMPDIR=str(self.room), OMP_NUM_THREADS="1")
        for way in ways:
            ended = subprocess.run(
                [options.ddprun, "--standalone", "--nproc-per-node", "2", *way, str(script)], env=environment,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=120)
            self.assertEqual(status, ended.returncode, (way, ended.stderr))
            paragraph = re.search(r"^ddprun: \S+ failed on .*", ended.stderr, re.M | re.S).group()
            self.assertRegex(paragraph, r"^ddprun: \S+ failed on \S+: rank 1 ", way)
            self.assertRegex(paragraph, "(?s)" + ".*".join(map(re.escape, expected)), (way, ended.stderr))
            for frame in ("<frozen runpy>", "<ddprun>", '"<string>"'):
                self.assertNotIn(frame, paragraph, way)

    def test_an_exception(self):
        self.assert_told("""
            def inner(name):
                return {"a": 1}[name]
            def outer():
                try:
                    inner("key")
                except KeyError as error:
                    raise ValueError("no such name") from error
            outer()
            """, 1, "exited with status 1", "Traceback (most recent call last):", "in inner", "KeyError: 'key'",
            "The above exception was the direct cause", "in outer", "ValueError: no such name", "next:")

    def test_an_exception_before_much_else_on_stderr(self):
        self.assert_told("""
            import traceback
            try:
                raise OSError("the disk is gone")
            except OSError:
                traceback.print_exc()
            for line in range(100):
                print("warning", line, file=sys.stderr)
            os._exit(5)
            """, 5, "exited with status 5", "OSError: the disk is gone", "warning 99", "next:")

    def test_an_exit_without_a_word(self):
        self.assert_told("sys.exit(3)", 3, "exited with status 3", "it wrote nothing to stderr", "next:")

    def test_an_exit_with_one(self):
        self.assert_told("sys.exit('no data')", 1, "exited with status 1", "no data", "next:")

    def test_a_crash_in_native_code(self):
        self.assert_told("import ctypes\nctypes.string_at(0)\n", 139, "was ended by signal 11 (SIGSEGV)", "next:")

    LOADER = """
        import torch
        class Samples(torch.utils.data.Dataset):
            def __len__(self):
                return 8
            def __getitem__(self, index):
                if index == 5:
                    {}
                return torch.zeros(1)
        for batch in torch.utils.data.DataLoader(Samples(), batch_size=2, num_workers=2):
            pass
        """

    def test_an_exception_in_a_process_of_a_data_loader(self):
        self.assert_told(self.LOADER.format("raise ValueError('sample 5 is damaged')"), 1, "exited with status 1",
                         "Traceback (most recent call last):", "Caught ValueError in DataLoader worker process",
                         "in __getitem__", "ValueError: sample 5 is damaged", "next:")

    def test_a_process_of_a_data_loader_that_is_killed(self):
        # torch finds out by SIGCHLD or by the end of a pipe, and then says "killed by signal", or that a read failed.
        self.assert_told(self.LOADER.format("os.kill(os.getpid(), 9)"), 1, "exited with status 1",
                         "Traceback (most recent call last):", "for batch in", "_try_get_data", "Error", "next:")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddprun", required=True)
    parser.add_argument("--python", required=True)
    _, rest = parser.parse_known_args(namespace=options)
    unittest.main(argv=[sys.argv[0], *rest])
