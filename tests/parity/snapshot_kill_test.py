"""ddptrain is killed at random instants while it saves a snapshot after every step. At every
instant, saved snapshots stay loadable, no half snapshot is resumed, and the final weights are those of an
undisturbed run.

    snapshot_kill_test.py [--kills N] [--seed S]
"""

import argparse
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import unittest

import jobs
import resume_test

arguments = argparse.Namespace(kills=200, seed=0)
STEPS_PER_LIFE, STEPS_PER_EPOCH = 8, 42  # the first at most, on a fast disk


def epochs():
    """Enough steps that the job is not done before the last kill."""
    return ["--epochs", str(2 + arguments.kills * STEPS_PER_LIFE // STEPS_PER_EPOCH)]


class Life:
    """One start of ddptrain, ended by SIGKILL at a random instant."""

    def __init__(self, directory, number, seconds, every_steps=1):
        self.metrics = directory / f"metrics-{number}.jsonl"
        trainer = subprocess.Popen(
            resume_test.command(
                *epochs(), "--snapshot-dir", str(directory / "snapshots"),
                "--snapshot-every-steps", str(every_steps), "--metrics-file", str(self.metrics)),
            env=jobs.os.environ | jobs.ENVIRONMENT, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True)
        self.first_line = trainer.stdout.readline()  # files are open, peers are connected
        try:
            trainer.wait(timeout=seconds)  # the kill must come at a random moment
        except subprocess.TimeoutExpired:
            trainer.send_signal(signal.SIGKILL)
        out, self.err = trainer.communicate()
        self.status = trainer.returncode
        resumed = re.search(r"^resumed epoch=\d+ step=(\d+)", out, re.MULTILINE)
        self.resumed_at = int(resumed.group(1)) if resumed else None

    def steps(self):
        """The steps recorded; the last line may be cut off by the kill."""
        if not self.metrics.exists():
            return []
        text = self.metrics.read_text()
        return [int(step) for step in re.findall(r'"event":"step".*?"step":(\d+)\b.*\n', text)]


class SnapshotKill(unittest.TestCase):
    def test_a_kill_at_any_instant_costs_at_most_the_step_under_way_and_the_one_being_saved(self):
        chance = random.Random(arguments.seed)
        undisturbed = jobs.final(jobs.Run(resume_test.command(*epochs()), 1).wait())
        with tempfile.TemporaryDirectory() as name:
            directory = pathlib.Path(name)
            saved = inside_a_write = kills = 0
            for number in range(arguments.kills):
                life = Life(directory, number, chance.uniform(0, 0.3))
                self.assertIn(life.status, (0, -signal.SIGKILL), life.err)
                self.assertNotIn("damaged", life.err)
                if life.resumed_at is not None:
                    self.assertGreaterEqual(life.resumed_at, saved, f"kill {number}: lost a step")
                    saved = life.resumed_at
                # When a step is recorded, the snapshot of the previous one is being saved, and the
                # one before that is durable.
                saved = max([saved, *[step - 2 for step in life.steps()]])
                kills += life.status == -signal.SIGKILL
                inside_a_write += any((directory / "snapshots").glob("partial-snapshot-*"))
            healed = Life(directory, arguments.kills, jobs.WAIT_S, every_steps=1000)
            print(f"\n{kills} kills, {inside_a_write} inside a snapshot write, "
                  f"{saved} steps saved meanwhile", file=sys.stderr)
            self.assertEqual(healed.status, 0, healed.err)
            self.assertGreater(inside_a_write, 0, "no kill came while a snapshot was written")
            records = jobs.records(healed.metrics)
            self.assertEqual(records[-1]["weights_sha256"], undisturbed["weights_sha256"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=arguments.kills)
    parser.add_argument("--seed", type=int, default=arguments.seed)
    arguments, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
