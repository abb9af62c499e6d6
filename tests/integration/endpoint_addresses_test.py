"""Rendezvous of nodes with several addresses: which address counts, and which cannot be reached.

    endpoint_addresses_test.py --ddprun PROGRAM [unittest arguments]

Workers print where the store is, once it has answered them.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import netns

SCRIPT = str(pathlib.Path(__file__).resolve().parent / "scripts" / "ping_store.py")
PATIENCE_S = 120
PORT = 29400  # of a network that no other process sees
TRY_AGAIN = 75

options = argparse.Namespace()


def setUpModule():
    netns.skip_without_namespaces()


class Addresses(unittest.TestCase):
    def setUp(self):
        self.network = self.enterContext(netns.Network(2))
        self.room = pathlib.Path(self.enterContext(
            tempfile.TemporaryDirectory(prefix="ddprun_test_")))

    def start(self, node, endpoint, *flags, nodes="2", join_timeout=60, before=(), script=SCRIPT):
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        job = self.network[node].popen(
            [*before, options.ddprun, "--nnodes", nodes, "--rdzv-backend", "c10d",
             "--rdzv-endpoint", endpoint, "--rdzv-conf", f"join_timeout={join_timeout}", *flags,
             script],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**kept, "PYTHON_EXEC": sys.executable, "TMPDIR": str(self.room)})
        self.addCleanup(job.stdout.close)
        self.addCleanup(job.stderr.close)
        self.addCleanup(job.wait)
        self.addCleanup(job.kill)
        return job

    def assert_meet_at(self, where, *jobs):
        """Each of `jobs` ends with 0, and its worker has reached the store at `where`."""
        ended = [(*job.communicate(timeout=PATIENCE_S), job.returncode) for job in jobs]
        self.assertEqual([0] * len(jobs), [status for *_, status in ended], ended)
        self.assertEqual({f"rank {rank} at {where}\n" for rank in range(len(jobs))},
                         {out for out, *_ in ended}, ended)

    def add_second_network(self):
        for node in self.network.nodes:
            node.run("ip", "address", "add", f"10.88.0.{node.index + 1}/24", "dev", "eth0")

    def test_the_endpoint_may_be_an_ipv6_address(self):
        where = self.network[0].address6
        jobs = [self.start(node, f"[{where}]:{PORT}") for node in range(2)]
        self.assert_meet_at(where, *jobs)

    def test_the_endpoint_may_be_the_ipv6_loopback(self):
        jobs = [self.start(0, f"[::1]:{PORT}", "--rdzv-id", "one") for _ in range(2)]
        self.assert_meet_at("::1", *jobs)

    def test_the_leaders_local_address_is_the_master_address(self):
        """The workers connect from other addresses than their agents: while the store let in only the
        addresses of the agents, these workers never reached it."""
        self.add_second_network()
        endpoint = f"{self.network[0].address}:{PORT}"
        jobs = [self.start(0, endpoint, "--local-addr", "10.88.0.1"), self.start(1, endpoint)]
        self.assert_meet_at("10.88.0.1", *jobs)

    def test_workers_may_come_from_another_address_than_their_nodes_local_one(self):
        self.add_second_network()
        endpoint = f"{self.network[0].address}:{PORT}"
        jobs = [self.start(0, endpoint), self.start(1, endpoint, "--local-addr", "10.88.0.2")]
        self.assert_meet_at(self.network[0].address, *jobs)

    def test_the_local_address_may_be_that_of_an_interface(self):
        jobs = [self.start(node, f"n0:{PORT}", "--local-addr", "iface:eth0",
                           before=self.with_hosts(f"{self.network[0].address} n0\n"))
                for node in range(2)]
        self.assert_meet_at(self.network[0].address, *jobs)

    def test_workers_use_the_interface_of_their_nodes_local_address(self):
        self.network[1].run("ip", "link", "add", "other", "type", "veth", "peer", "name", "far")
        self.network[1].run("ip", "address", "add", "10.88.0.2/24", "dev", "other")
        endpoint = f"{self.network[0].address}:{PORT}"
        before = self.with_hosts("127.0.1.1 n0 n1\n")
        script = self.room / "told.py"
        script.write_text('import os\nprint(os.environ["GLOO_SOCKET_IFNAME"])\n')
        jobs = [self.start(0, endpoint, before=before, script=str(script)),
                self.start(1, endpoint, "--local-addr", "10.88.0.2", before=before,
                           script=str(script))]
        ended = [(*job.communicate(timeout=PATIENCE_S), job.returncode) for job in jobs]
        self.assertEqual([("eth0\n", 0), ("other\n", 0)],
                         [(out, status) for out, _, status in ended], ended)

    def with_hosts(self, text):
        """The command that shows a program an /etc/hosts with this text, and with later changes to it."""
        self.hosts = self.room / "hosts"
        self.hosts.write_text("127.0.0.1 localhost\n" + text)
        return ("unshare", "--mount", "sh", "-c",
                f'mount --bind {self.hosts} /etc/hosts && exec "$0" "$@"')

    def test_a_name_that_is_known_only_later_is_waited_for(self):
        before = self.with_hosts("")
        jobs = [self.start(node, f"head:{PORT}", before=before) for node in range(2)]
        for job in jobs:
            self.assertIn("the endpoint's host 'head' cannot be resolved", job.stderr.readline())
        with self.hosts.open("a") as hosts:  # in place: another file would not be seen
            hosts.write(f"{self.network[0].address} head\n")
        self.assert_meet_at("head", *jobs)

    def assert_not_found(self, job, why):
        _, said = job.communicate(timeout=PATIENCE_S)
        self.assertEqual(TRY_AGAIN, job.returncode, said)
        self.assertEqual(1, said.count("\n"), said)
        self.assertIn(f"ddprun: job 'none' not found within 2 s: {why}; check that ddprun runs "
                      "there, and that this host and port are right and reachable", said)

    def test_an_address_nobody_can_reach(self):
        self.assert_not_found(
            self.start(0, f"192.0.2.1:{PORT}", join_timeout=2),
            f"cannot connect to 192.0.2.1:{PORT}: Network is unreachable")

    def test_an_address_from_which_nothing_comes_back(self):
        self.network.isolate(1)
        self.assert_not_found(
            self.start(0, f"{self.network[1].address}:{PORT}", join_timeout=2),
            f"{self.network[1].address}:{PORT} does not answer")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddprun", required=True)
    _, rest = parser.parse_known_args(namespace=options)
    options.ddprun = os.path.abspath(options.ddprun)
    unittest.main(argv=[sys.argv[0], *rest])
