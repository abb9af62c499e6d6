"""What a kernel answers on a connection whose process was killed while nobody could be told.

    silent_kernel_test.py [unittest arguments]

LifeLines::probe (rendezvous/life_lines.hpp) rests on this: a data byte is answered by a reset, also
while the kernel still waits for its FIN to be confirmed.
"""

import os
import signal
import socket
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


class SilentKernel(unittest.TestCase):
    def test_a_byte_is_reset_while_the_fin_is_under_way(self):
        with netns.Network(2) as network, made_in(
                network[0], lambda: socket.create_server((network[0].address, 0))) as server:
            address = server.getsockname()
            with made_in(network[1], lambda: socket.create_connection(address)) as survivor:
                survivor.settimeout(PATIENCE_S)
                held, _ = server.accept()
                # No FIN leaves the node, however often it is sent again.
                network[0].set_up("nft", """
                    table inet silence {
                      chain output {
                        type filter hook output priority 0;
                        tcp flags & (fin | rst) == fin drop
                      }
                    }
                """)
                holder = os.fork()
                if holder == 0:
                    while True:
                        signal.pause()
                held.close()
                os.kill(holder, signal.SIGKILL)
                os.waitpid(holder, 0)
                survivor.setblocking(False)
                self.assertRaises(BlockingIOError, survivor.recv, 1)  # nobody was told
                survivor.settimeout(PATIENCE_S)
                survivor.send(b"?")
                self.assertRaises(ConnectionResetError, survivor.recv, 1)


if __name__ == "__main__":
    unittest.main()
