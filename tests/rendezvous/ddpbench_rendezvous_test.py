"""`ddpbench rendezvous`: its figures cover all agents, whatever the machine's speed.

    ddpbench_rendezvous_test.py --ddpbench PROGRAM [unittest arguments]
"""

import argparse
import json
import subprocess
import sys
import unittest

options = argparse.Namespace()
PATIENCE_S = 100


def bench(*arguments):
    return subprocess.run([options.ddpbench, "rendezvous", *arguments],
                          capture_output=True, text=True, timeout=PATIENCE_S)


class Bench(unittest.TestCase):
    def test_every_agent_is_ranked_stopped_and_answered(self):
        done = bench("--agents", "50", "--repeats", "3", "--steady", "1", "--workers", "128",
                     "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(report["agents"], 50)
        self.assertEqual(report["stop_orders"], 3 * 50)
        self.assertEqual(report["losses"], 3)
        for figure in ("ranked_ms", "stop_p99_ms", "restarted_p50_ms", "reranked_p50_ms",
                       "heartbeats_answered", "heartbeat_p99_ms", "server_cpu_percent",
                       "floor_cpu_percent", "server_rss_mib", "gloo_s"):
            self.assertGreater(report[figure], 0, figure)

    def test_with_two_agents_one_is_lost(self):
        done = bench("--agents", "2", "--steady", "1", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual((report["stop_orders"], report["losses"]), (10, 1))

    def test_refuses_bad_usage_in_one_line(self):
        for arguments in (["--agents", "1"], ["--agents", "x"], ["--repeats", "0"],
                          ["--steady", "0"], ["--workers", "-1"], ["--agent", "5"]):
            refused = bench(*arguments)
            self.assertEqual(refused.returncode, 2, arguments)
            self.assertEqual(refused.stderr.count("\n"), 1, refused.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddpbench", required=True)
    _, rest = parser.parse_known_args(namespace=options)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
