"""Host lists compared with Slurm itself: 10,000 random ones, expanded, refused and folded by both.

    hostlist_scontrol_test.py --ddpctl PROGRAM [unittest arguments]

DDPRUN_TEST_SEED replays one run, DDPRUN_TEST_LISTS sets the number. Needs scontrol (slurm-client), but
no cluster.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

options = argparse.Namespace()
LISTS = int(os.environ.get("DDPRUN_TEST_LISTS", 10_000))
SEED = int(os.environ.get("DDPRUN_TEST_SEED", 0)) or random.SystemRandom().randrange(1, 1 << 32)
HOSTS_MAX = 40  # of a list to fold, so that a batch stays an argument that Linux passes on
BATCH = 250
FENCE = "fence"  # a host between two lists of a batch: many lists cost one process
PATIENCE_S = 60


class RandomLists:
    def __init__(self, seed):
        self._dice = random.Random(seed)

    def _number(self):
        number = self._dice.choice((self._dice.randrange(12), self._dice.randrange(90, 112),
                                    self._dice.randrange(10_000)))
        return "0" * self._dice.choice((0, 0, 0, 1, 2)) + str(number)

    def _range(self):
        first = self._number()
        if self._dice.random() < 0.4:
            return first
        last = int(first) + self._dice.randrange(8)
        return f"{first}-{'0' * self._dice.choice((0, 0, 1, 4))}{last}"

    def _bracket(self):
        return "[%s]" % ",".join(self._range() for _ in range(self._dice.randrange(1, 4)))

    def _stem(self):
        return self._dice.choice(("n", "gpu-a", "B", "rack1-", "x.y", "", "n0", "c_"))

    def _item(self):
        if self._dice.random() < 0.3:
            return self._stem() + self._number() + self._dice.choice(("", "", "-ib", ".site.org"))
        return "".join(self._stem() + self._bracket()
                       for _ in range(self._dice.choice((1, 1, 1, 1, 2, 2, 3))))

    def good(self):
        comma = self._dice.choice((",", ",", ",", " ", ",,", "\t", ", "))
        return comma.join(self._item() for _ in range(self._dice.randrange(1, 5)))

    def bad(self):
        wrong = self._dice.choice(("n[3-1]", "n[a-b]", "n[1,]", "n[,2]", "n[]", "n[1-2]x", "n[1-2]3",
                                   "n[1-100000]", "n[1-2-3]", "n[-1]", "n[1;2]", "n[[1-2]]",
                                   "a[1-2]b[3]c", "n[1-2]]", "[1-3]-ib", "n[0x1]"))
        items = [self._item() for _ in range(self._dice.randrange(3))]
        items.insert(self._dice.randrange(len(items) + 1), wrong)
        return ",".join(items)


def output_of(*words, good=True):
    ended = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S)
    if good and (ended.returncode != 0 or ended.stderr):
        raise AssertionError(f"{' '.join(words)[:200]}: {ended.returncode}, {ended.stderr[:500]}")
    return ended


def ddpctl(*words, **more):
    return output_of(options.ddpctl, "hostlist", *words, **more)


def scontrol(what, text, **more):
    return output_of("scontrol", "show", what, text, **more)


def unfenced(text, separator):
    """The results for the lists of a batch, each of which is followed by a fence."""
    answers = [[]]
    for piece in text.split(separator):
        if piece == FENCE:
            answers.append([])
        else:
            answers[-1].append(piece)
    return answers[:-1]


class Hostlists(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # scontrol requires a configuration even for commands that need none.
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        os.environ["SLURM_CONF"] = os.path.join(directory.name, "slurm.conf")
        with open(os.environ["SLURM_CONF"], "w") as configuration:
            configuration.write("ClusterName=none\nSlurmctldHost=localhost\n")

    def both(self, ours, theirs, lists):
        for list_, our, their in zip(lists, ours, theirs, strict=True):
            self.assertEqual(their, our, f"of {list_!r}; replay with DDPRUN_TEST_SEED={SEED}")

    def test_random_lists_are_expanded_and_folded_as_by_scontrol(self):
        random_lists = RandomLists(SEED)
        done = 0
        while done < LISTS:
            lists = [random_lists.good() for _ in range(BATCH)]
            fenced = ",".join(f"{list_},{FENCE}" for list_ in lists)
            ours = unfenced(ddpctl(fenced).stdout, "\n")
            theirs = unfenced(scontrol("hostnames", fenced).stdout, "\n")
            self.both(ours, theirs, lists)

            short = [hosts for hosts in theirs if 0 < len(hosts) <= HOSTS_MAX]
            fenced = ",".join(",".join([*hosts, FENCE]) for hosts in short)
            ours = ddpctl("--fold", fenced).stdout
            self.both([ours], [scontrol("hostlist", fenced).stdout], [fenced])
            again = unfenced(ddpctl(ours.rstrip("\n")).stdout, "\n")
            self.both(again, short, short)
            done += len(short)

    def test_what_scontrol_refuses_is_refused(self):
        random_lists = RandomLists(SEED)
        for _ in range(100):
            list_ = random_lists.bad()
            told = f"of {list_!r}; replay with DDPRUN_TEST_SEED={SEED}"
            self.assertIn("Invalid hostlist", scontrol("hostnames", list_, good=False).stderr, told)
            refused = ddpctl(list_, good=False)
            self.assertEqual((2, ""), (refused.returncode, refused.stdout), told)
            self.assertRegex(refused.stderr, r"\Addpctl: host list .*, position \d+: .*\n\Z", told)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddpctl", required=True)
    rest = parser.parse_known_args(namespace=options)[1]
    if not shutil.which("scontrol"):
        print("SKIPPED: scontrol is not installed (apt-get install slurm-client)", flush=True)
        return
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
