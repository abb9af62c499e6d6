"""A FIFO by which workers report their progress to a test, without polling."""

import os
import select

from cluster import PATIENCE_S


class Ear:
    """A FIFO on which workers report their progress, or wait for a line."""

    def __init__(self, path):
        os.mkfifo(path)
        self.path = str(path)
        self._fifo = os.open(path, os.O_RDWR)

    def close(self):
        os.close(self._fifo)

    def say(self, text):
        os.write(self._fifo, text)

    def hear(self, count):
        """The hosts of so many workers, by rank."""
        heard = b""
        while heard.count(b"\n") < count:
            if not select.select([self._fifo], [], [], PATIENCE_S)[0]:
                raise AssertionError(f"only {heard!r} was heard, not {count} workers")
            heard += os.read(self._fifo, 4096)
        return [line.split()[1] for line in sorted(heard.decode().splitlines())]
