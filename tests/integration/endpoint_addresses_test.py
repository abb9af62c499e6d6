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


class Nodes(unittest.TestCase):
    NODES = 2

    def setUp(self):
        self.network = self.enterContext(netns.Network(self.NODES))
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


    def add_second_network(self):
        for node in self.network.nodes:
            node.run("ip", "address", "add", f"10.88.0.{node.index + 1}/24", "dev", "eth0")


class Addresses(Nodes):
    def assert_meet_at(self, where, *jobs):
        """Each of `jobs` ends with 0, and its worker has reached the store at `where`."""
        ended = [(*job.communicate(timeout=PATIENCE_S), job.returncode) for job in jobs]
        self.assertEqual([0] * len(jobs), [status for *_, status in ended], ended)
        self.assertEqual({f"rank {rank} at {where}\n" for rank in range(len(jobs))},
                         {out for out, *_ in ended}, ended)

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


class WhoMayConnect(Nodes):
    """Workers unpickle what is in the store: who writes there can run programs in them."""

    NODES = 3

    def setUp(self):
        super().setUp()
        self.script = self.room / "wait.py"
        self.script.write_text("import os, time\nprint(os.environ['MASTER_PORT'], flush=True)\ntime.sleep(600)\n")

    def start_one(self, *flags):
        """A job of one node on node 0, and the port of its store."""
        job = self.network[0].popen(
            [options.ddprun, *flags, str(self.script)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHON_EXEC": sys.executable, "TMPDIR": str(self.room)})
        self.addCleanup(job.stdout.close)
        self.addCleanup(job.wait)
        self.addCleanup(job.terminate)
        return job.stdout.readline().strip()

    def ping(self, node, host, port):
        """The last line of a store client on that node."""
        client = self.network[node].popen(
            [sys.executable, SCRIPT], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "MASTER_ADDR": host, "MASTER_PORT": port, "RANK": "0"})
        said, _ = client.communicate(timeout=PATIENCE_S)
        return said.splitlines()[-1]

    def test_a_job_of_one_node_has_no_port_for_other_machines(self):
        port = self.start_one("--standalone")
        self.assertEqual("rank 0 at 127.0.0.1", self.ping(0, "127.0.0.1", port))
        for node in range(2):
            self.assertIn("Connection refused", self.ping(node, self.network[0].address, port))

    def test_the_only_node_listens_at_the_address_it_was_given_for_itself_alone(self):
        address = self.network[0].address
        port = self.start_one("--master-addr", address, "--master-port", "29501")
        self.assertEqual("29501", port)
        for host in (address, "127.0.0.1"):
            self.assertEqual(f"rank 0 at {host}", self.ping(0, host, port))
        self.assertIn("closed the connection", self.ping(1, address, port))

    def test_a_node_that_is_not_in_the_round_may_not_use_its_store(self):
        address = self.network[0].address
        jobs = [self.start(node, f"{address}:{PORT}", script=str(self.script)) for node in range(2)]
        for job in jobs:
            self.assertEqual(f"{PORT}\n", job.stdout.readline())
        for node in range(2):
            self.assertEqual(f"rank 0 at {address}", self.ping(node, address, str(PORT)))
        self.assertIn("closed the connection", self.ping(2, address, str(PORT)))

    def test_nobody_may_use_the_store_before_the_round(self):
        address = self.network[0].address
        job = self.start(0, f"{address}:{PORT}", "--max-restarts", "0")
        self.assertIn("waiting for nodes", job.stderr.readline())
        self.assertIn("closed the connection", self.ping(1, address, str(PORT)))

    def start_two(self, endpoint_host, *flags):
        """A job of nodes 0 and 1, whose workers wait; the flags are node 0's."""
        jobs = [self.start(node, f"{endpoint_host}:{PORT}", *(flags if node == 0 else ()), script=str(self.script))
                for node in range(2)]
        for job in jobs:
            self.assertEqual(f"{PORT}\n", job.stdout.readline())
        return jobs

    def listening(self, node):
        """Where the programs on that node listen: address -> ports."""
        places = {}
        for line in self.network[node].run("ss", "-Hltn").splitlines():
            host, port = line.split()[3].rsplit(":", 1)
            places.setdefault(host, set()).add(port)
        return places

    def test_several_nodes_listen_only_where_the_others_reach_them(self):
        self.add_second_network()
        self.start_two(self.network[0].address)
        self.assertEqual({"127.0.0.1": {str(PORT)}, self.network[0].address: {str(PORT)}}, self.listening(0))
        later = self.listening(1)
        self.assertEqual({"127.0.0.1", self.network[1].address}, later.keys())
        self.assertEqual(later["127.0.0.1"], later[self.network[1].address])
        self.assertEqual(1, len(later["127.0.0.1"]))
        self.assertIn("Connection refused", self.ping(2, "10.88.0.1", str(PORT)))

    def test_all_addresses_are_listened_at_only_if_that_is_asked_for(self):
        self.add_second_network()
        self.start_two(self.network[0].address, "--bind", "all")
        self.assertEqual({"*": {str(PORT)}}, self.listening(0))

    def test_one_address_may_be_chosen_to_listen_at(self):
        self.add_second_network()
        self.start_two("10.88.0.1", "--bind", "10.88.0.1")
        self.assertEqual({"127.0.0.1": {str(PORT)}, "10.88.0.1": {str(PORT)}}, self.listening(0))

    def test_a_node_that_is_not_in_the_round_may_not_use_its_store_by_the_local_address_either(self):
        """The leader does not know from where the workers of another network come. So it once let in everybody."""
        self.add_second_network()
        self.start_two(self.network[0].address, "--local-addr", "10.88.0.1")
        for node in range(2):
            self.assertEqual("rank 0 at 10.88.0.1", self.ping(node, "10.88.0.1", str(PORT)))
        for host in ("10.88.0.1", self.network[0].address):
            self.assertIn("closed the connection", self.ping(2, host, str(PORT)))

    def test_an_agent_of_the_leaders_machine_that_calls_the_loopback_lets_nobody_in(self):
        """With --local-addr it once looked like a worker's other way."""
        address = self.network[0].address
        jobs = [self.start(0, f"localhost:{PORT}", "--local-addr", address, script=str(self.script))
                for _ in range(2)]
        for job in jobs:
            self.assertEqual(f"{PORT}\n", job.stdout.readline())
        self.assertEqual(f"rank 0 at {address}", self.ping(0, address, str(PORT)))
        self.assertIn("closed the connection", self.ping(1, address, str(PORT)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddprun", required=True)
    _, rest = parser.parse_known_args(namespace=options)
    options.ddprun = os.path.abspath(options.ddprun)
    unittest.main(argv=[sys.argv[0], *rest])
