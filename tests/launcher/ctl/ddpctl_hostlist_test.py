"""`ddpctl hostlist` as a program: its output and its errors.

    ddpctl_hostlist_test.py --ddpctl PROGRAM [unittest arguments]
"""

import argparse
import random
import subprocess
import sys
import unittest

options = argparse.Namespace()
PATIENCE_S = 60
ARGUMENT_BYTES_MAX = 128 * 1024 - 1  # what Linux passes on as one


class DdpctlHostlist(unittest.TestCase):
    def run_with(self, *words):
        return subprocess.run([options.ddpctl, "hostlist", *words], capture_output=True, text=True,
                              timeout=PATIENCE_S)

    def assert_prints(self, text, *words):
        ended = self.run_with(*words)
        self.assertEqual((0, text, ""), (ended.returncode, ended.stdout, ended.stderr))

    def assert_refused(self, part, *words):
        ended = self.run_with(*words)
        self.assertEqual((2, ""), (ended.returncode, ended.stdout))
        self.assertRegex(ended.stderr, r"\Addpctl: [^\n]{1,200}\n\Z")
        self.assertIn(part, ended.stderr)

    def test_prints_a_host_a_line(self):
        self.assert_prints("cn-l084\ncn-l085\ncn-l090\n", "cn-l[084-085,090]")
        self.assert_prints("n2\nn1\na\n", "n[2,1]", "a")
        self.assert_prints("", "")

    def test_a_list_in_brackets_is_no_vector_of_the_flag_parser(self):
        self.assert_prints("01\n02\n", "[01-02]")

    def test_a_host_may_have_the_name_of_a_subcommand(self):
        self.assert_prints("status\nhostlist\n", "status", "hostlist")

    def test_folds_hosts_and_lists(self):
        self.assert_prints("n[1-3],m,n4\n", "--fold", "n1", "n2", "n[3],m", "n4")
        self.assert_prints("n[0-65535]\n", "--fold", "n[0-9999]", "n[10000-65535]")

    def test_refuses_with_position_and_reason(self):
        self.assert_refused("'n[3-1]', position 3: the range '3-1' counts down", "n[3-1]")
        self.assert_refused("more than 65536 hosts", "n[0-65535]", "m")

    def test_refuses_bad_usage(self):
        self.assert_refused("LIST is required")
        self.assert_refused("unknown argument '--folt'", "--folt", "n1")

    def test_refuses_garbage(self):
        dice = random.Random(3)
        garbage = "".join(chr(dice.randrange(1, 128)) for _ in range(ARGUMENT_BYTES_MAX - 1))
        self.assert_refused("host list", "n" + garbage)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddpctl", required=True)
    rest = parser.parse_known_args(namespace=options)[1]
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
