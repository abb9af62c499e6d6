"""An interactive shell on a node of a cluster."""

import contextlib
import os
import pty
import select
import time

from cluster import PATIENCE_S


class Terminal:
    """An interactive shell."""

    def __init__(self, cluster, *words, node=None):
        self.end, its_end = pty.openpty()
        self.process = cluster.popen(*words, node=node, stdin=its_end, stdout=its_end, stderr=its_end)
        os.close(its_end)
        self.said = ""

    def type(self, line):
        os.write(self.end, (line + "\n").encode())

    def wait(self):
        """Waits until the shell has ended; returns its status."""
        deadline = time.monotonic() + PATIENCE_S
        with contextlib.suppress(OSError):  # EIO: the other end is closed
            while select.select([self.end], [], [], max(0, deadline - time.monotonic()))[0]:
                self.said += os.read(self.end, 1 << 16).decode()
        return self.process.wait(PATIENCE_S)

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.end)
