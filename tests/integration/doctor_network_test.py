"""`ddpctl doctor` names what is wrong with a network, by itself and in a step of two nodes.

    doctor_network_test.py --ddpctl PROGRAM --ddprun PROGRAM [unittest arguments]

The variables of the step are set by hand: what Slurm itself makes of it is in doctor_cluster_test.py.
"""

import argparse
import contextlib
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import netns
from doctor_report import JOB, PATIENCE_S, PORT_TELLER, Report, environment, step

PORT = 10000 + JOB  # of the step, in networks that no other process sees
GREETING = rf"\Addprun-doctor-1 {JOB}\.0 0 \d+\n\Z"  # of node 0
PATIENT = ("--limit=60", "--wait=60")  # long enough for a busy machine; the doctors end as soon as all are connected
SHORT = ("--limit=12", "--wait=15")  # for a node that cannot be reached anyway
ALONE = ("--limit=60", "--wait=1")  # for a test of anything else

options = argparse.Namespace()


def setUpModule():
    netns.skip_without_namespaces()


def own_name():
    return pathlib.Path("/proc/self/comm").read_text().strip()


class Networks(unittest.TestCase):
    def setUp(self):
        self.network = self.enterContext(netns.Network(2))

    def start(self, node, *flags, env=None):
        return self.network[node].popen(
            [options.ddpctl, "doctor", "--json", *flags], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
            env=environment(**(step(node) if env is None else env)))

    def report(self, process):
        out, err = process.communicate(timeout=PATIENCE_S)
        return Report(self, process.returncode, out, err)

    def both(self, flags):
        doctors = [self.start(node, *flags) for node in range(2)]
        return [self.report(doctor) for doctor in doctors]

    @contextlib.contextmanager
    def listening(self, node):
        """A socket at the doctors' port of that node."""
        home = os.open("/proc/self/ns/net", os.O_RDONLY)
        try:
            netns._check(netns._libc.setns(self.network[node].net, netns.CLONE_NEWNET), "setns")
            server = socket.create_server((self.network[node].address, PORT))
        finally:
            netns._check(netns._libc.setns(home, netns.CLONE_NEWNET), "setns")
            os.close(home)
        server.settimeout(PATIENCE_S)
        with server:
            yield server

    def test_two_nodes_connect_both_ways(self):
        for report, other in zip(self.both(PATIENT), ("10.77.0.2", "10.77.0.1")):
            report.assert_well(f"reach {other}", f"connected both ways on TCP port {PORT}")
            report.assert_well(f"port {PORT}", "free")
            report.assert_well("interface", "eth0 (10.77.0.")
            report.assert_well("slurm", f"of 2 in step {JOB}.0")
            self.assertNotEqual(other, report.node)

    def test_names_a_node_that_cannot_be_reached(self):
        self.network.isolate(1)
        here, there = self.both(SHORT)
        here.assert_wrong("reach 10.77.0.2", "it does not answer", "firewall")
        there.assert_wrong("reach 10.77.0.1", "it does not answer", "firewall")

    def test_tells_the_way_there_from_the_way_back(self):
        self.close_the_way_to(1)
        here, there = self.both(SHORT)
        here.assert_wrong("reach 10.77.0.2", "it does not answer, though it reached this", "")
        there.assert_wrong("reach 10.77.0.1", "reached it, but it did not reach this node", "")

    def test_a_late_doctor_that_cannot_connect_by_itself_is_probed_again(self):
        self.close_the_way_to(1)
        with self.listening(0) as early:
            there = self.start(1, *SHORT)
            early.accept()[0].close()  # the first connection is in vain
        here = self.start(0, *SHORT)
        self.report(there).assert_wrong(
            "reach 10.77.0.1", "reached it, but it did not reach this node", "")
        self.report(here).assert_wrong(
            "reach 10.77.0.2", "it does not answer, though it reached this", "")

    def close_the_way_to(self, node):
        self.network[node].set_up("nft", f"""
            table inet wall {{
              chain in {{
                type filter hook input priority 0;
                tcp dport {PORT} drop
              }}
            }}""")

    def test_names_a_node_without_a_doctor(self):
        self.report(self.start(0, *SHORT)).assert_wrong(
            "reach 10.77.0.2", "Connection refused", "that ddpctl runs there")

    def test_probes_a_node_again_whose_doctor_starts_later(self):
        with self.listening(1) as early:
            first = self.start(0, *PATIENT)
            early.accept()[0].close()  # the first connection is in vain
        second = self.start(1, *PATIENT)
        for doctor, other in ((first, "10.77.0.2"), (second, "10.77.0.1")):
            self.report(doctor).assert_well(f"reach {other}", "connected both ways")

    def test_names_a_clock_that_is_off(self):
        """Namespaces share one clock, so the test plays the other doctor."""
        for ahead_s, told in ((5, "that of 10.77.0.2 is 5.0 s ahead"),
                              (-90, "that of 10.77.0.2 is 90.0 s behind")):
            with self.listening(1) as server:
                doctor = self.start(0, *PATIENT)
                guest, _ = server.accept()
                with guest, guest.makefile("rw") as talk:
                    self.assertRegex(talk.readline(), GREETING)
                    talk.write(f"ddprun-doctor-1 {JOB}.0 1 {time.time_ns() + ahead_s * 10**9}\n")
                self.assertRegex(self.call(0, f"ddprun-doctor-1 {JOB}.0 1 5\n"), GREETING)
                report = self.report(doctor)
            report.assert_well("reach 10.77.0.2", "connected both ways")
            report.assert_wrong("clock of 10.77.0.2", told, "chronyd")

    def test_names_a_stranger_at_the_port(self):
        with self.listening(1) as server:
            doctor = self.start(0, *SHORT)
            guest, _ = server.accept()
            with guest:
                guest.sendall(b"SSH-2.0-OpenSSH_9.2\n")
            report = self.report(doctor)
        report.assert_wrong("reach 10.77.0.2", "another program than ddpctl doctor listens there",
                            "another port (--port)")

    def test_does_not_probe_without_a_port_of_its_own(self):
        with self.listening(0):
            report = self.report(self.start(0, *ALONE))
        report.assert_wrong(f"port {PORT}", f"taken by {own_name()} (pid {os.getpid()})", "another")
        report.assert_wrong("reach", "because the port is taken", "--port")

    def test_a_running_job_is_no_fault_of_its_nodes(self):
        for job in [self.start_job(node) for node in range(2)]:
            self.assertEqual(f"{PORT}\n", job.stdout.readline())
        there = self.start(1, *PATIENT)
        here = self.report(self.start(0, *PATIENT))
        here.assert_well(f"port {PORT}", f"job '{JOB}' is running here: ddprun")
        here.assert_well("reach 10.77.0.2", f"connected on TCP port {PORT}; whether it reaches this node was not")
        there = self.report(there)
        there.assert_well(f"port {PORT}", "free")
        there.assert_well("reach 10.77.0.1",
                          f"connected both ways on TCP port {PORT}, where job '{JOB}' is running")

    def start_job(self, node):
        """That node's part of a job of two nodes."""
        room = self.enterContext(tempfile.TemporaryDirectory(prefix="ddprun_test_"))
        job = self.network[node].popen(
            [options.ddprun, *PORT_TELLER], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
            env=environment(**step(node), TMPDIR=room))
        self.addCleanup(job.communicate)
        self.addCleanup(job.terminate)  # kill would leave the worker for a moment
        return job

    def test_a_probe_of_another_step_is_not_a_node_of_ours(self):
        with self.listening(1) as server:
            doctor = self.start(0, *SHORT)
            guest, _ = server.accept()
            with guest:
                told = self.call(0, f"ddprun-doctor-1 {JOB}.1 1 5\n")
            self.assertEqual("", told)
            report = self.report(doctor)
        report.assert_wrong("reach 10.77.0.2", "closed the connection", "stop the program that listens there")

    def call(self, node, line):
        """The reply of the doctor of `node`."""
        caller = self.network[1].popen([sys.executable, "-c", (
            "import socket, sys\n"
            f"with socket.create_connection(('{self.network[node].address}', {PORT})) as doctor:\n"
            f"    doctor.sendall({line.encode()!r})\n"
            "    sys.stdout.write(doctor.makefile().readline())\n")],
            stdout=subprocess.PIPE, text=True)
        return caller.communicate(timeout=PATIENCE_S)[0]

    def test_names_an_interface_that_is_down_or_has_no_address(self):
        self.network[0].run("ip", "address", "flush", "dev", "eth0")
        report = self.report(self.start(0, *ALONE, "--interface=eth0", env={}))
        report.assert_wrong("interface --interface eth0", "no address", "give it an address")
        self.network[0].run("ip", "link", "set", "eth0", "down")
        report = self.report(self.start(0, *ALONE, "--interface=eth0", env={}))
        report.assert_wrong("interface --interface eth0", "eth0 is down", "ip link set eth0 up")

    def test_names_a_network_without_a_route(self):
        report = self.report(self.start(0, *ALONE, "--reach", "192.0.2.9:80", env={}))
        report.assert_wrong("reach 192.0.2.9:80", "Network is unreachable", "interface")

    def test_names_which_of_several_interfaces_is_taken(self):
        node = self.network[0]
        node.run("ip", "link", "add", "eth7", "type", "veth", "peer", "name", "eth8")
        node.run("ip", "address", "add", "10.78.0.1/24", "dev", "eth7")
        for name in ("eth7", "eth8"):
            node.run("ip", "link", "set", name, "up")
        report = self.report(self.start(0, *ALONE))
        report.assert_well("interface", "eth0 is used unless --local-addr")

    def test_names_a_host_name_that_the_others_cannot_use(self):
        report = self.report(self.start(0, *ALONE))
        report.assert_wrong("name n0", "cannot be resolved", "GLOO_SOCKET_IFNAME")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddpctl", required=True)
    parser.add_argument("--ddprun", required=True)
    rest = parser.parse_known_args(namespace=options)[1]
    options.ddpctl, options.ddprun = map(os.path.abspath, (options.ddpctl, options.ddprun))
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
