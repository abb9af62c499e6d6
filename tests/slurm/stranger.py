"""Another user of the cluster, with bytes of its own choice: opens a connection to a node, sends them, and prints what
comes back until the node closes, both in hexadecimal.

    stranger.py HOST PORT    a connection for each line of stdin
"""

import contextlib
import socket
import sys

PATIENCE_S = 60


def main():
    host, port = sys.argv[1], int(sys.argv[2])
    for line in sys.stdin:
        heard = b""
        with socket.create_connection((host, port), timeout=PATIENCE_S) as node:
            with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                node.sendall(bytes.fromhex(line))
                node.shutdown(socket.SHUT_WR)
                while block := node.recv(1 << 16):
                    heard += block
        print(heard.hex(), flush=True)


if __name__ == "__main__":
    main()
