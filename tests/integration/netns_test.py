"""Checks that the faults of netns.py do what their names say, without ddprun.

A datagram that may be lost is followed by one that arrives, so the order of arrival decides, not a
clock.
"""

import os
import signal
import socket
import subprocess
import sys
import unittest

import netns

PATIENCE_S = 30


def setUpModule():
    netns.skip_without_namespaces()


def socket_of(node, kind, family=socket.AF_INET):
    """A socket belongs to the network in which it was created, so this process enters it and returns."""
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    try:
        netns._check(netns._libc.setns(node.net, netns.CLONE_NEWNET), "setns")
        return socket.socket(family, kind)
    finally:
        netns._check(netns._libc.setns(home, netns.CLONE_NEWNET), "setns")
        os.close(home)


class Box:
    """A UDP socket of a node."""

    def __init__(self, node, family=socket.AF_INET):
        self.address = node.address if family == socket.AF_INET else node.address6
        self.socket = socket_of(node, socket.SOCK_DGRAM, family)
        self.socket.bind((self.address, 7))
        self.socket.settimeout(PATIENCE_S)

    def send(self, other, text):
        self.socket.sendto(text.encode(), (other.address, 7))

    def receive(self):
        return self.socket.recv(100).decode()

    def close(self):
        self.socket.close()


class Troubles(unittest.TestCase):
    def setUp(self):
        self.network = netns.Network(3)
        self.addCleanup(self.network.close)
        self.boxes = self.boxes_of(socket.AF_INET)

    def boxes_of(self, family):
        boxes = [Box(node, family) for node in self.network.nodes]
        for box in boxes:
            self.addCleanup(box.close)
        return boxes

    def arrives(self, sender, receiver, boxes=None):
        """Whether a packet does, in the trouble there is now; heals it."""
        boxes = boxes or self.boxes
        boxes[sender].send(boxes[receiver], "in trouble")
        self.network.heal()
        boxes[sender].send(boxes[receiver], "healed")
        first = boxes[receiver].receive()
        if first == "in trouble":
            self.assertEqual("healed", boxes[receiver].receive())
        return first == "in trouble"

    def test_all_hear_each_other_without_trouble(self):
        for boxes in (self.boxes, self.boxes_of(socket.AF_INET6)):
            for sender in range(3):
                for receiver in range(3):
                    self.assertTrue(self.arrives(sender, receiver, boxes), (sender, receiver))

    def test_a_cut_is_one_way(self):
        for boxes in (self.boxes, self.boxes_of(socket.AF_INET6)):
            for pair, comes in (((0, 1), False), ((1, 0), True), ((0, 2), True)):
                self.network.cut(0, 1)
                self.assertEqual(comes, self.arrives(*pair, boxes), pair)

    def assert_heard(self, trouble, *pairs):
        for sender in range(3):
            for receiver in range(3):
                if sender != receiver:
                    trouble()
                    self.assertEqual((sender, receiver) in pairs, self.arrives(sender, receiver),
                                     (sender, receiver))

    def test_an_isolated_node_is_alone_and_the_others_are_not(self):
        self.assert_heard(lambda: self.network.isolate(0), (1, 2), (2, 1))

    def test_a_mute_node_hears(self):
        self.assert_heard(lambda: self.network.mute(0), (1, 2), (2, 1), (1, 0), (2, 0))

    def test_a_deaf_node_is_heard(self):
        self.assert_heard(lambda: self.network.deafen(0), (1, 2), (2, 1), (0, 1), (0, 2))

    def test_a_split_leaves_each_group_together(self):
        self.assert_heard(lambda: self.network.split((0, 2), (1,)), (0, 2), (2, 0))

    def test_loss_is_of_some_packets(self):
        self.network.lose(1, 0.5)
        for _ in range(200):  # all or none of them: once in 10^60
            self.boxes[0].send(self.boxes[1], "lossy")
        self.network.heal()
        self.boxes[0].send(self.boxes[1], "end")
        arrived = 0
        while self.boxes[1].receive() != "end":
            arrived += 1
        self.assertIn(arrived, range(1, 200))

    def test_an_isolated_peer_is_told_nothing(self):
        """A connection neither ends nor fails: the hardest death to detect."""
        server = self.network[0].popen([sys.executable, "-c", (
            "import select, socket, sys\n"
            "server = socket.create_server(('10.77.0.1', 9))\n"
            "print('listens', flush=True)\n"
            "client, _ = server.accept()\n"
            "print('met', flush=True)\n"
            "ready = select.select([client, sys.stdin], [], [])[0]\n"
            "print('told by the network' if client in ready else 'told nothing', flush=True)\n"
            "print('heard', client.recv(9), flush=True)\n")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.assertEqual("listens\n", server.stdout.readline())
        caller = self.network[1].popen([sys.executable, "-c", (
            "import socket, sys\n"
            "s = socket.create_connection(('10.77.0.1', 9))\n"
            "sys.stdin.readline()\n")], stdin=subprocess.PIPE, text=True)
        self.assertEqual("met\n", server.stdout.readline())
        self.network.isolate(1)
        caller.communicate("end\n", timeout=PATIENCE_S)  # its FIN is lost
        server.stdin.write("now\n")
        server.stdin.flush()
        self.assertEqual("told nothing\n", server.stdout.readline())
        self.network.heal()  # its kernel sends it again
        said, _ = server.communicate(timeout=PATIENCE_S)
        self.assertEqual("heard b''\n", said)


    def connection(self, server, client):
        """(accepted, called): sockets of two nodes."""
        with socket_of(self.network[server], socket.SOCK_STREAM) as listening:
            listening.bind((self.network[server].address, 9))
            listening.listen()
            called = socket_of(self.network[client], socket.SOCK_STREAM)
            self.addCleanup(called.close)
            called.connect((self.network[server].address, 9))
            accepted, _ = listening.accept()
        accepted.settimeout(PATIENCE_S)
        self.addCleanup(accepted.close)
        return accepted, called

    def test_a_renewed_machine_knows_no_connection(self):
        accepted, called = self.connection(server=0, client=1)
        self.network.isolate(1)
        called.close()  # else the test keeps the network alive
        self.boxes[1].close()
        self.network.renew(1)
        self.network.heal()
        accepted.send(b"who is there")
        with self.assertRaises(ConnectionResetError):
            accepted.recv(1)

    def test_a_renewed_machine_may_have_another_address(self):
        self.boxes[1].close()
        self.network.renew(1, number=101)
        self.assertEqual("10.77.0.101", self.network[1].address)
        moved = Box(self.network[1])
        self.addCleanup(moved.close)
        self.boxes[0].send(moved, "hello")
        self.assertEqual("hello", moved.receive())


class Machines(unittest.TestCase):
    def test_each_has_a_name_of_its_own(self):
        with netns.Network(2) as network:
            self.assertEqual(["n0\n", "n1\n"], [node.run("hostname") for node in network.nodes])

    def test_they_find_each_other_by_name_where_asked_for(self):
        with netns.Network(2, names=True) as network:
            def found(name):
                return network[1].run("getent", "ahosts", name).split()[0]

            self.assertEqual("10.77.0.1", found("n0"))
            network.renew(0, number=101)
            self.assertEqual("10.77.0.101", found("n0"))
            network.point("n0", "10.77.0.1")  # a stale record
            self.assertEqual("10.77.0.1", found("n0"))
            network.point("n0", None)
            with self.assertRaises(RuntimeError):
                found("n0")

    def test_what_is_frozen_does_not_run_until_it_is_thawed(self):
        with netns.Network(1) as network:
            cat = network[0].popen(["cat"], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE)
            self.assertEqual(1, network[0].freeze())
            self.assertTrue(netns.is_stopped(cat.pid))
            network[0].thaw()
            os.waitid(os.P_PID, cat.pid, os.WCONTINUED)
            cat.communicate(timeout=PATIENCE_S)

    def test_nothing_of_a_network_is_left(self):
        network = netns.Network(1)
        self.addCleanup(network.close)
        stray = network[0].popen(["sh", "-c", "setsid sleep 1000 & echo begun; exec sleep 1000"],
                                 stdout=subprocess.PIPE, text=True)
        self.assertEqual("begun\n", stray.stdout.readline())
        network[0].freeze()
        node = network[0]
        network.close()
        self.assertEqual([], node.pids())
        self.assertEqual(-signal.SIGKILL, stray.wait(PATIENCE_S))
        stray.stdout.close()

    def test_nothing_is_left_of_a_test_that_was_killed(self):
        test = subprocess.Popen([sys.executable, "-c", (
            "import netns, signal\n"
            "network = netns.Network(1)\n"
            "inside = network[0].popen(['sleep', '1000'])\n"
            "print(network[0].inode, inside.pid, flush=True)\n"
            "signal.pause()\n")], cwd=os.path.dirname(__file__), stdout=subprocess.PIPE, text=True)
        inode, inside = map(int, test.stdout.readline().split())
        with netns.PidFd(inside) as process:
            test.kill()
            test.wait(PATIENCE_S)
            test.stdout.close()
            self.assertTrue(process.wait(PATIENCE_S))
        self.assertNotIn(inode, [network for _, network in netns.all_networks()])


if __name__ == "__main__":
    unittest.main()
