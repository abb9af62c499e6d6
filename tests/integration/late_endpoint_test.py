"""The endpoint is looked up again: a stale record, a name or an address that comes late, a virtual IP.

    late_endpoint_test.py --ddprun PROGRAM [unittest arguments]

Each node sees an /etc/hosts of its own. The time from the change to the first output of rank 0 is
printed, but not asserted.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

import netns

SCRIPT = str(pathlib.Path(__file__).resolve().parent / "scripts" / "ping_store.py")
PATIENCE_S = 120
PORT = 29400  # of a network that no other process sees
REFUSED, TRY_AGAIN = 2, 75
VIRTUAL = "10.96.0.1"
STANDS = ("--no-python", "sh", "-c", "echo up; exec sleep 1000")

options = argparse.Namespace()


def setUpModule():
    netns.skip_without_namespaces()


class Late(unittest.TestCase):
    def setUp(self):
        self.network = self.enterContext(netns.Network(3))
        self.room = pathlib.Path(self.enterContext(
            tempfile.TemporaryDirectory(prefix="ddprun_test_")))

    def hosts(self, node):
        return self.room / f"hosts{node}"

    def tell(self, nodes, text):
        """Sets what names resolve to on `nodes`. In place: another file would not be seen."""
        for node in nodes:
            self.hosts(node).write_text("127.0.0.1 localhost\n" + text)

    def start(self, node, *flags, script=(SCRIPT,)):
        if not self.hosts(node).exists():
            self.tell([node], "")
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        job = self.network[node].popen(
            ["unshare", "--mount", "sh", "-c",
             f'mount --bind {self.hosts(node)} /etc/hosts && exec "$0" "$@"',
             options.ddprun, "--nnodes", "2", "--rdzv-conf", "join_timeout=60", *flags, *script],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**kept, "PYTHON_EXEC": sys.executable, "TMPDIR": str(self.room)})
        self.addCleanup(job.stdout.close)
        self.addCleanup(job.stderr.close)
        self.addCleanup(job.wait)
        self.addCleanup(job.kill)
        return job

    def elastic(self, node, host, *flags, **more):
        return self.start(node, "--rdzv-backend", "c10d", "--rdzv-endpoint", f"{host}:{PORT}", *flags,
                          **more)

    def static(self, node, host):
        return self.start(node, "--node-rank", str(node), "--master-addr", host, "--master-port",
                          str(PORT))

    def waits(self, *jobs):
        """Waits until each of `jobs` has printed that it still waits. Returns their output."""
        said = []
        for job in jobs:
            said.append(job.stderr.readline())
            while "still trying to reach job 'none'" not in said[-1]:
                self.assertTrue(said[-1], "it has ended")
                said[-1] = job.stderr.readline()
        return said

    def assert_start(self, jobs, since, wheres):
        """Each of `jobs` ends with 0, and its worker has reached the store at this address."""
        first = jobs[0].stdout.readline()
        took = time.monotonic() - since
        print(f"{self.id().rpartition('.')[2]}: {took * 1000:.0f} ms", file=sys.stderr, flush=True)
        ended = [(*job.communicate(timeout=PATIENCE_S), job.returncode) for job in jobs]
        self.assertEqual([0] * len(jobs), [status for *_, status in ended], (first, ended))
        said = {first, *(out for out, *_ in ended)} - {""}
        self.assertEqual({f"rank {rank} at {where}\n" for rank, where in enumerate(wheres)}, said,
                         ended)

    def starts_once_the_record_is_right(self):
        """`head` resolves to node 2, where no ddprun runs, and later to node 0."""
        self.tell(range(2), f"{self.network[2].address} head\n")
        jobs = [self.elastic(node, "head") for node in range(2)]
        self.waits(*jobs)
        began = time.monotonic()
        self.tell(range(2), f"{self.network[0].address} head\n")
        self.assert_start(jobs, began, ["head", "head"])

    def test_a_stale_record_that_leads_to_another_machine(self):
        self.starts_once_the_record_is_right()

    def test_a_stale_record_that_leads_into_silence(self):
        self.network.isolate(2)
        self.starts_once_the_record_is_right()

    def await_stranger(self, *jobs):
        for job in jobs:
            self.assertRegex(job.stderr.readline(), "job 'other' runs there.* may lead to an old address")

    def other_job(self):
        """One node of it, which waits for another on node 2."""
        where = self.network[2].address
        job = self.elastic(2, where, "--rdzv-id", "other")
        for _ in range(200):  # until it listens
            if self.network[2].run("ss", "-Htln", f"sport = :{PORT}"):
                return job
            time.sleep(0.05)
        return self.fail(f"nobody listens at {where}")

    def test_a_stale_record_that_leads_to_another_job(self):
        """Whose pod has the address now, and the same port."""
        self.other_job()
        self.tell(range(2), f"{self.network[2].address} head\n")
        jobs = [self.elastic(node, "head") for node in range(2)]
        self.await_stranger(*jobs)
        began = time.monotonic()
        self.tell(range(2), f"{self.network[0].address} head\n")
        self.assert_start(jobs, began, ["head", "head"])

    def test_a_name_that_leads_to_another_job_for_good(self):
        self.other_job()
        self.tell([1], f"{self.network[2].address} head\n")
        refused = self.elastic(1, "head")
        self.await_stranger(refused)
        _, said = refused.communicate(timeout=PATIENCE_S)
        self.assertEqual(REFUSED, refused.returncode, said)
        self.assertIn("job 'other' runs there", said)

    def test_a_stale_record_of_a_static_job(self):
        """Node rank 0 leads even if it cannot resolve the name; its own workers need no name."""
        self.network.isolate(2)
        self.tell(range(2), f"{self.network[2].address} head\n")
        jobs = [self.static(node, "head") for node in range(2)]
        self.assertIn(f"head ({self.network[2].address}) is not an address of this machine, which has node rank 0",
                      jobs[0].stderr.readline())
        self.waits(jobs[1])
        began = time.monotonic()
        self.tell([1], f"{self.network[0].address} head\n")
        self.assert_start(jobs, began, [self.network[0].address, "head"])

    def test_a_name_that_comes_late(self):
        jobs = [self.elastic(node, "head") for node in range(2)]
        for job in jobs:
            self.assertIn("the endpoint's host 'head' cannot be resolved", job.stderr.readline())
        self.waits(*jobs)
        began = time.monotonic()
        self.tell(range(2), f"{self.network[0].address} head\n")
        self.assert_start(jobs, began, ["head", "head"])

    def test_an_address_that_comes_late(self):
        where = "10.77.0.77"
        jobs = [self.elastic(node, where) for node in range(2)]
        self.waits(*jobs)
        began = time.monotonic()
        self.network[0].run("ip", "address", "add", f"{where}/24", "dev", "eth0")
        self.assert_start(jobs, began, [where, where])

    def test_an_address_that_is_tentative(self):
        where = "fd77::77"
        self.network[0].run("sysctl", "-q", "net.ipv6.conf.eth0.accept_dad=1")
        news = self.network[0].popen(["ip", "-oneline", "monitor", "address"],
                                     stdout=subprocess.PIPE, text=True)
        self.addCleanup(news.stdout.close)
        self.addCleanup(news.wait)
        self.addCleanup(news.kill)
        self.network[0].run("ip", "address", "add", f"{where}/64", "dev", "eth0")
        self.assertIn("tentative", self.network[0].run("ip", "address", "show", "dev", "eth0"))
        jobs = [self.elastic(node, f"[{where}]") for node in range(2)]
        while True:  # until it can be used
            told = news.stdout.readline()
            self.assertTrue(told, "ip monitor has ended")
            if where in told and "tentative" not in told:
                break
        self.assert_start(jobs, time.monotonic(), [where, where])

    def add_virtual_address(self):
        """That leads to node 0 from every other node, as a Kubernetes Service does; from node 0 it
        leads nowhere."""
        for node in self.network.nodes:
            node.run("ip", "route", "add", f"{VIRTUAL}/32", "dev", "eth0")
        for node in self.network.nodes[1:]:
            node.set_up("nft", f"""
                table ip service {{
                  chain output {{
                    type nat hook output priority -100;
                    ip daddr {VIRTUAL} tcp dport {PORT} dnat to {self.network[0].address}
                  }}
                }}
            """)

    def test_a_virtual_address_with_node_ranks(self):
        self.add_virtual_address()
        began = time.monotonic()
        jobs = [self.elastic(node, VIRTUAL, "--node-rank", str(node)) for node in range(2)]
        self.assert_start(jobs, began, [self.network[0].address, VIRTUAL])

    def test_a_virtual_address_with_is_host(self):
        self.add_virtual_address()
        began = time.monotonic()
        jobs = [self.elastic(0, VIRTUAL, "--rdzv-conf", "is_host=true"), self.elastic(1, VIRTUAL)]
        self.assert_start(jobs, began, [self.network[0].address, VIRTUAL])

    def test_a_virtual_address_with_is_host_and_an_address_to_listen_at(self):
        """With --bind the endpoint was taken for an own address unseen, so the leader's workers called the virtual one."""
        self.add_virtual_address()
        began = time.monotonic()
        jobs = [self.elastic(0, VIRTUAL, "--rdzv-conf", "is_host=true", "--bind", self.network[0].address),
                self.elastic(1, VIRTUAL)]
        self.assert_start(jobs, began, [self.network[0].address, VIRTUAL])

    def test_a_virtual_address_that_no_node_is_said_to_host(self):
        self.add_virtual_address()
        jobs = [self.elastic(node, VIRTUAL, "--rdzv-conf", "join_timeout=6") for node in range(2)]
        for said in self.waits(*jobs):
            self.assertIn(f"or {VIRTUAL} is not an address of any node; in the last case give "
                          "--node-rank 0 on the node behind it, or --rdzv-conf is_host=true", said)
        self.assertEqual([TRY_AGAIN] * 2, [job.wait(PATIENCE_S) for job in jobs])

    def test_the_first_node_rank_hosts_nothing_that_is_anothers(self):
        """With c10d node ranks are preferences for the order: the endpoint decides which node leads first."""
        where = self.network[1].address
        waiting = self.elastic(0, where, "--node-rank", "0")
        self.waits(waiting)
        began = time.monotonic()
        host = self.elastic(1, where, "--node-rank", "1")
        self.assert_start([host, waiting], began, [where, where])

    def test_lifelines_lead_past_a_virtual_address(self):
        self.add_virtual_address()
        jobs = [self.elastic(node, VIRTUAL, "--node-rank", str(node), script=STANDS)
                for node in range(2)]
        for job in jobs:
            self.assertEqual("up\n", job.stdout.readline())
        lines = self.network[1].run("ss", "-tnH", "state", "established").splitlines()
        peers = sorted(line.split()[3] for line in lines)
        self.assertEqual([f"{self.network[0].address}:{PORT}", f"{VIRTUAL}:{PORT}"], peers, lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddprun", required=True)
    _, rest = parser.parse_known_args(namespace=options)
    options.ddprun = os.path.abspath(options.ddprun)
    unittest.main(argv=[sys.argv[0], *rest])
