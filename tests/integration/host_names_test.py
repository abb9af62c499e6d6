"""All-reduce of PyTorch over nodes whose own host name cannot be used by the others.

    host_names_test.py --ddprun PROGRAM --python INTERPRETER [--repeats N] [unittest arguments]

Gloo listens on the address that the host name resolves to. Each node has an /etc/hosts of its own here.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import netns

SCRIPT = str(pathlib.Path(__file__).resolve().parent / "scripts" / "all_reduce.py")
PATIENCE_S = 180
PORT = 29400  # of a network that no other process sees
NODES = 3

options = argparse.Namespace()


def setUpModule():
    netns.skip_without_namespaces()


class HostNames(unittest.TestCase):
    def setUp(self):
        self.network = self.enterContext(netns.Network(NODES))
        self.room = pathlib.Path(self.enterContext(
            tempfile.TemporaryDirectory(prefix="ddprun_test_")))

    def start(self, node, address, endpoint, **environment):
        """One node whose own name resolves to `address`; none: it does not resolve. It knows the others."""
        hosts = self.room / f"hosts{node}"
        names = {other.name: other.address for other in self.network.nodes} | {f"n{node}": address}
        hosts.write_text("127.0.0.1 localhost\n" + "".join(
            f"{where} {name}\n" for name, where in names.items() if where))
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        job = self.network[node].popen(
            ["unshare", "--mount", "sh", "-c", f'mount --bind {hosts} /etc/hosts && exec "$0" "$@"',
             options.ddprun, "--nnodes", str(NODES), "--rdzv-backend", "c10d",
             "--rdzv-endpoint", f"{endpoint}:{PORT}", SCRIPT],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**kept, "PYTHON_EXEC": options.python, "OMP_NUM_THREADS": "1", "LOGLEVEL": "INFO",
                 "TMPDIR": str(self.room), **environment})
        self.addCleanup(job.stdout.close)
        self.addCleanup(job.stderr.close)
        self.addCleanup(job.wait)
        self.addCleanup(job.kill)
        return job

    def run_job(self, addresses, interfaces, endpoint=None, **environment):
        """Every rank gets the sum, and was told of `interfaces`. Returns what rank 0's node said."""
        jobs = [self.start(node, address, endpoint or self.network[0].address, **environment)
                for node, address in enumerate(addresses)]
        ended = [(*job.communicate(timeout=PATIENCE_S), job.returncode) for job in jobs]
        said = "\n".join(out + err for out, err, _ in ended)
        self.assertEqual([0] * NODES, [status for *_, status in ended], said)
        lines = sorted(line for out, *_ in ended for line in out.splitlines())
        self.assertEqual(
            [f"rank {rank} sum {float(sum(range(NODES + 1)))} interfaces {interfaces}"
             for rank in range(NODES)], lines, said)
        (leader,) = [err for out, err, _ in ended if out.startswith("rank 0 ")]
        return leader

    def assert_interface_is_told(self, addresses, endpoint=None):
        for repeat in range(options.repeats):
            with self.subTest(repeat=repeat):
                self.assertIn(" interface=eth0", self.run_job(addresses, "eth0 =eth0", endpoint))

    def test_names_that_lead_to_the_loopback(self):
        self.assert_interface_is_told(["127.0.1.1"] * NODES)

    def test_the_endpoint_is_a_name_that_leads_to_the_loopback_on_its_own_node(self):
        self.assert_interface_is_told(["127.0.1.1"] * NODES, endpoint="n0")

    def test_names_that_lead_to_an_address_which_all_nodes_have(self):
        for node in self.network.nodes:
            node.run("ip", "link", "add", "docker0", "type", "bridge")
            node.run("ip", "address", "add", "172.17.0.1/16", "dev", "docker0")
            node.run("ip", "link", "set", "docker0", "up")
        self.assert_interface_is_told(["172.17.0.1"] * NODES)

    def test_names_that_nobody_knows(self):
        self.assert_interface_is_told([None] * NODES)

    def test_a_name_that_serves_and_a_choice_of_the_user_are_left_alone(self):
        for node in self.network.nodes:
            node.run("ip", "address", "add", f"10.88.0.{node.index + 1}/24", "dev", "eth0")
        said = self.run_job([f"10.88.0.{node + 1}" for node in range(NODES)], "- -")
        self.assertNotIn("interface=", said)
        said = self.run_job(["127.0.1.1"] * NODES, "eth0 -", GLOO_SOCKET_IFNAME="eth0")
        self.assertNotIn("interface=", said)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=1)
    for name in ("ddprun", "python"):
        parser.add_argument(f"--{name}", required=True)
    _, rest = parser.parse_known_args(namespace=options)
    options.ddprun = os.path.abspath(options.ddprun)
    unittest.main(argv=[sys.argv[0], *rest])
