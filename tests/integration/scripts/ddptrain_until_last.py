"""ddptrain, which trains without an end until the last attempt that ddprun has left, and then for two epochs:

    ddptrain_until_last.py LOG STOP NOTES

DDPTRAIN names the program. To NOTES goes a line like round_worker's once two batches are taken, that is, after the
first exchange of gradients.
"""

import os
import socket
import sys
import time

NOTES = sys.argv[3]
IS_LAST = os.environ["TORCHELASTIC_RESTART_COUNT"] == os.environ["TORCHELASTIC_MAX_RESTARTS"]
WITHOUT_END = 1_000_000_000
JOB = ["--dataset", "fake", "--fake-train-samples", "40", "--fake-test-samples", "10", "--model", "linear",
       "--image-size", "8", "--batch-size", "4", "--epochs", str(2 if IS_LAST else WITHOUT_END)]


def tell(pid):
    notes = os.open(NOTES, os.O_WRONLY)
    who = " ".join([os.environ["DDPRUN_TERM"], os.environ["DDPRUN_ROUND"], socket.gethostname(),
                    os.environ["RANK"], str(pid)])
    os.write(notes, f"{time.clock_gettime_ns(time.CLOCK_BOOTTIME)} {who}\n".encode())


def watch(trace, pid):
    """Reads the lines of `trace`, one a batch, to its end: `pid` waits for its reader."""
    lines = 0
    while piece := os.read(trace, 1 << 16):
        told, lines = lines >= 2, lines + piece.count(b"\n")
        if lines >= 2 and not told:
            tell(pid)


def main():
    # The drill kills the process that ddprun has started: that becomes ddptrain, and its child watches.
    trace, end = os.pipe()
    worker = os.getpid()
    if os.fork() == 0:
        os.close(end)
        watch(trace, worker)
        os._exit(0)
    os.close(trace)
    os.set_inheritable(end, True)
    os.execv(os.environ["DDPTRAIN"], [os.environ["DDPTRAIN"], *JOB, "--sample-trace", f"/proc/self/fd/{end}"])


if __name__ == "__main__":
    main()
