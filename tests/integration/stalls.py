"""Detects that the machine itself stood still, so that the result of a drill does not count.

    with Stalls() as stalls:
        begin_ns = stalls.now_ns()
        ...
        stalls.longest_s(begin_ns, stalls.now_ns())

On each processor a process of the highest priority wakes up a hundred times a second: if it misses
a wake-up, no process ran on that processor. A machine that is only busy does not delay it, so this does not excuse
a drill that overloads its machine.
"""

import multiprocessing
import os
import tempfile
import time

PERIOD_S = 0.01
TOLD_S = 0.05  # shorter stalls are not reported


def _watch(cpu, log):
    os.sched_setaffinity(0, {cpu})
    os.setpriority(os.PRIO_PROCESS, 0, -20)
    before = Stalls.now_ns()
    while True:
        time.sleep(PERIOD_S)
        now = Stalls.now_ns()
        if now - before > TOLD_S * 1e9:
            os.write(log, f"{before} {now}\n".encode())
        before = now


class Stalls:
    """May be passed to other processes."""

    def __init__(self):
        self._log, self._path = tempfile.mkstemp(prefix="ddprun_stalls_")
        self._watchers = [multiprocessing.Process(target=_watch, args=(cpu, self._log), daemon=True)
                          for cpu in sorted(os.sched_getaffinity(0))]

    def __enter__(self):
        for watcher in self._watchers:
            watcher.start()
        return self

    def __exit__(self, *error):
        for watcher in self._watchers:
            watcher.terminate()
            watcher.join()
        os.close(self._log)
        os.unlink(self._path)

    def __getstate__(self):
        return self._path

    def __setstate__(self, path):
        self._path = path

    @staticmethod
    def now_ns():
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC)

    def longest_s(self, begin_ns, end_ns):
        """0 if no processor stood still between the two."""
        with open(self._path) as log:
            spans = [tuple(map(int, line.split())) for line in log]
        return max(((end - begin) / 1e9 for begin, end in spans if begin < end_ns and begin_ns < end),
                   default=0)
