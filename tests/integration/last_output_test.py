"""The last output of a failed worker is on the console of its node and on the leader's, once on each.

    last_output_test.py --ddprun PROGRAM [unittest arguments]
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import netns

PATIENCE_S = 120
ERROR = "ValueError: no sample 17 of 3"
# Rank 1 fails in its first attempts; rank 0 waits until it is ended.
SCRIPT = f"""
import os, sys, time
if os.environ["RANK"] == "0" and os.environ["TORCHELASTIC_RESTART_COUNT"] != sys.argv[1]:
    time.sleep(1000)
if os.environ["RANK"] == "1" and os.environ["TORCHELASTIC_RESTART_COUNT"] != sys.argv[1]:
    raise {ERROR.replace(": ", '("')}")
"""
# Each attempt fails at once, on the node that is not the one of the attempt before.
IN_TURN = """
if [ $TORCHELASTIC_RESTART_COUNT = $GROUP_RANK ]; then echo "no licence $GROUP_RANK" >&2; exit 9; fi
exec sleep 1000
"""
# As torch's @record does, which leaves the traceback in a file of its own.
RECORD = """
import json, os, time
if os.environ["RANK"] == "0":
    time.sleep(1000)
lines = "Traceback (most recent call last):\\n" + "".join(f"  frame {n}\\n" for n in range(100)) + "KeyError: 'x\\t\\x1b[31m'"
with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
    json.dump({"message": {"message": "KeyError", "extraInfo": {"py_callstack": lines, "timestamp": "1"}}}, file)
os._exit(1)
"""

options = argparse.Namespace()


def setUpModule():
    netns.skip_without_namespaces()


class LastOutput(unittest.TestCase):
    def setUp(self):
        self.network = self.enterContext(netns.Network(2))
        self.room = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="ddprun_test_")))

    def consoles(self, script, *arguments, flags=()):
        """What each of two nodes prints; the first one leads, and the second one has rank 1."""
        path = self.room / "train.py"
        path.write_text(script)
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        jobs = []
        for node in range(2):
            job = self.network[node].popen(
                [options.ddprun, "--nnodes", "2", "--node-rank", str(node), "--master-addr",
                 self.network[0].address, "--master-port", "29400", *flags, str(path), *arguments],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                errors="replace", env={**kept, "PYTHON_EXEC": sys.executable, "TMPDIR": str(self.room)})
            self.addCleanup(job.wait)
            self.addCleanup(job.kill)
            jobs.append(job)
        said = [job.communicate(timeout=PATIENCE_S)[1] for job in jobs]
        self.statuses = [job.returncode for job in jobs]
        return said

    def test_a_traceback_is_on_both_consoles_although_the_job_ends_by_it(self):
        for _ in range(10):
            said = self.consoles(SCRIPT, "never")
            self.assertEqual([1, 1], self.statuses, said)
            self.assertIn("ddprun: last output of rank 1 on n1:\n", said[0])
            # On its own node it is where the worker wrote it, and in the paragraph.
            self.assertEqual([1, 2], [text.count(f"{ERROR}\n") for text in said], said)

    def test_of_each_attempt(self):
        said = self.consoles(SCRIPT, "2", flags=("--max-restarts", "2"))
        self.assertEqual([0, 0], self.statuses, said)
        self.assertEqual([2, 4], [text.count(f"{ERROR}\n") for text in said], said)

    def test_a_failure_is_told_though_the_next_attempt_fails_at_once_on_the_other_node(self):
        """A regression: it was reported only after a pause, during which the other failure replaced it."""
        for _ in range(10):
            said = self.consoles(IN_TURN, flags=("--max-restarts", "1", "-r", "3", "--no-python", "sh"))
            self.assertEqual([9, 9], self.statuses, said)
            self.assertRegex(said[0], r"sh failed on n0: rank 0 [^|]*\| no licence 0\n  next: restarting all 2 workers")
            self.assertRegex(said[1], r"sh failed on n1: rank 1 [^|]*\| no licence 1\n  next: the one restart ")

    def test_of_a_long_one_the_end_and_nothing_that_a_terminal_would_obey(self):
        said = self.consoles(RECORD)
        self.assertIn("    |   frame 99\n", said[0])
        self.assertEqual(39, said[0].count("    |   frame "), said[0])
        self.assertIn("    | KeyError: 'x", said[0])
        self.assertNotIn("\x1b", said[0])

    def test_a_worker_that_wrote_nothing_keeps_nobody_waiting(self):
        said = self.consoles('import os, time\nif os.environ["RANK"] == "0": time.sleep(1000)\nos._exit(3)')
        self.assertEqual([3, 3], self.statuses, said)
        self.assertNotIn("last output of rank", said[0])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddprun", required=True)
    _, rest = parser.parse_known_args(namespace=options)
    unittest.main(argv=[sys.argv[0], *rest])
