"""What a kernel answers on a connection whose process was killed while the network was cut.

    silent_kernel_test.py [unittest arguments]

Lifelines::probe (rendezvous/lifelines.hpp) relies on this: a data byte is answered by a reset, even while
the kernel still waits for its FIN to be confirmed. So does LifelineLimits::unconfirmed: the kernel waits for
the user timeout of the socket, although no process holds it any more.
"""

import os
import signal
import socket
import subprocess
import time
import unittest

import netns

PATIENCE_S = 60


def setUpModule():
    netns.skip_without_namespaces()


def made_in(node, make):
    """The socket that `make` yields in that node's network, for this process to hold."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with here, there:
        child = os.fork()
        if child == 0:
            node.enter()
            made = make()
            socket.send_fds(there, [b"x"], [made.fileno()])
            os._exit(0)
        there.close()
        _, (descriptor,), _, _ = socket.recv_fds(here, 1, 1)
        os.waitpid(child, 0)
    return socket.socket(fileno=descriptor)


def kill(holder):
    os.kill(holder, signal.SIGKILL)
    os.waitpid(holder, 0)


def hold():
    """A process that has what this one has."""
    holder = os.fork()
    if holder == 0:
        while True:
            signal.pause()
    return holder


SILENCE = """
    table inet silence {
      chain output {
        type filter hook output priority 0;
        tcp flags & (fin | rst) == fin drop
      }
    }
"""  # no FIN leaves the node, not even a retransmitted one


class SilentKernel(unittest.TestCase):
    def test_a_fin_is_sent_again_for_as_long_as_the_socket_was_told(self):
        with netns.Network(2) as network, made_in(
                network[0], lambda: socket.create_server((network[0].address, 0))) as server, made_in(
                network[1], lambda: socket.create_connection(server.getsockname())):
            held, _ = server.accept()
            held.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 2000)
            network[0].set_up("nft", SILENCE)
            holder = hold()
            held.close()
            killed_s = time.monotonic()
            kill(holder)
            self.assertEqual(1, self.ended_without_a_word(network[0]))
            while self.ended_without_a_word(network[0]):  # the kernel reports nothing yet
                self.assertLess(time.monotonic() - killed_s, PATIENCE_S)
                time.sleep(0.05)
            self.assertGreater(time.monotonic() - killed_s, 1)

    def ended_without_a_word(self, node):
        """How many sockets of that node wait for their FIN to be confirmed."""
        listed = node.popen(["cat", "/proc/net/tcp"], stdout=subprocess.PIPE, text=True)
        out, _ = listed.communicate(timeout=PATIENCE_S)
        return sum(line.split()[3] == "04" for line in out.splitlines()[1:])

    def test_a_byte_is_reset_while_the_fin_is_under_way(self):
        with netns.Network(2) as network, made_in(
                network[0], lambda: socket.create_server((network[0].address, 0))) as server:
            address = server.getsockname()
            with made_in(network[1], lambda: socket.create_connection(address)) as survivor:
                survivor.settimeout(PATIENCE_S)
                held, _ = server.accept()
                network[0].set_up("nft", SILENCE)
                holder = hold()
                held.close()
                kill(holder)
                survivor.setblocking(False)
                self.assertRaises(BlockingIOError, survivor.recv, 1)  # nothing has arrived
                survivor.settimeout(PATIENCE_S)
                survivor.send(b"?")
                self.assertRaises(ConnectionResetError, survivor.recv, 1)


if __name__ == "__main__":
    unittest.main()
