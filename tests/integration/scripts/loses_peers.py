"""A worker that ends with 75 the moment it loses a peer, as collectives do, without torch:

    loses_peers.py LOG STOP NOTES

Its peers are connected to it, each to each, by Unix sockets beside LOG, which nodes with networks of their
own share. To NOTES it tells that all are, by a line like round_worker's. It ends with 0 once STOP exists.
"""

import os
import select
import socket
import sys
import time

LOG, STOP, NOTES = sys.argv[1:4]
ROUND = [os.environ[name] for name in ("DDPRUN_TERM", "DDPRUN_ROUND")]
RANK, WORLD = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE"))
LOST_PEER = 75


def address(rank):
    return os.path.join(os.path.dirname(LOG), ".".join(["peer", *ROUND, str(rank)]))


def connected(rank):
    peer = socket.socket(socket.AF_UNIX)
    while True:
        try:
            peer.connect(address(rank))
            return peer
        except OSError:  # it does not listen yet
            time.sleep(0.001)


def main():
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address(RANK))
    listener.listen(WORLD)
    peers = [connected(rank) for rank in range(RANK)]
    peers += [listener.accept()[0] for _ in range(RANK + 1, WORLD)]
    notes = os.open(NOTES, os.O_WRONLY)
    who = " ".join([*ROUND, socket.gethostname(), str(RANK), str(os.getpid())])
    os.write(notes, f"{time.clock_gettime_ns(time.CLOCK_BOOTTIME)} {who}\n".encode())
    ended = select.poll()
    for peer in peers:
        ended.register(peer, select.POLLIN)
    while not os.path.exists(STOP):
        if ended.poll(50):
            os._exit(0 if os.path.exists(STOP) else LOST_PEER)
    os._exit(0)


if __name__ == "__main__":
    main()
