"""The store against torch, both directions: torch's client with our server, our client with torch's
two servers. Needs torch.

    store_torch_test.py --ddpctl PROGRAM --probe STORE_PROBE [unittest arguments]
"""

import argparse
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import unittest
from datetime import timedelta

from torch.distributed import (DistNetworkError, DistStoreError, PrefixStore, QueueEmptyError,
                               TCPStore)

options = argparse.Namespace()
PATIENCE = timedelta(seconds=60)  # for a broken build to fail and not to hang


@contextlib.contextmanager
def our_server():
    """A `ddpctl store serve` on a free port."""
    process = subprocess.Popen([options.ddpctl, "store", "serve", "--host", "127.0.0.1"],
                               stdout=subprocess.PIPE, text=True)
    try:
        process.port = int(process.stdout.readline().split()[-1])
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        process.stdout.close()
        assert process.wait(60) == 0


def torch_client(port, world_size=None):
    return TCPStore("127.0.0.1", port, world_size, False, PATIENCE)


class OurServer(unittest.TestCase):
    """T1 to T3: torch's own client cannot tell our server from its own."""

    def setUp(self):
        self.server = self.enterContext(our_server())
        self.store = torch_client(self.server.port)

    def test_set_get_check(self):
        self.store.set("k", "v")
        self.store.set("empty", "")
        self.assertEqual(self.store.get("k"), b"v")
        self.assertEqual(self.store.get("empty"), b"")
        self.assertTrue(self.store.check(["k", "empty"]))
        self.assertFalse(self.store.check(["k", "none"]))

    def test_add(self):
        self.assertEqual([self.store.add("n", i) for i in (1, 2, -10)], [1, 3, -7])
        self.assertEqual(self.store.get("n"), b"-7")

    def test_compare_set(self):
        self.assertEqual(self.store.compare_set("c", "wrong", "x"), b"wrong")
        self.assertEqual(self.store.compare_set("c", "", "x"), b"x")
        self.assertEqual(self.store.compare_set("c", "wrong", "y"), b"x")
        self.assertEqual(self.store.compare_set("c", "x", "y"), b"y")

    def test_append_and_multi(self):
        self.store.append("a", "1")
        self.store.append("a", "2")
        self.store.multi_set(["b", "c"], ["3", "4"])
        self.assertEqual(self.store.multi_get(["a", "b", "c"]), [b"12", b"3", b"4"])
        self.assertEqual(self.store.multi_get([]), [])

    def test_queues(self):
        self.store.queue_push("q", "1")
        self.store.queue_push("q", "2")
        self.assertEqual(self.store.queue_len("q"), 2)
        self.assertEqual(self.store.queue_pop("q"), b"1")
        self.assertEqual(self.store.queue_pop("q"), b"2")
        with self.assertRaises(QueueEmptyError):
            self.store.queue_pop("q", False)

    def test_a_blocking_pop_is_woken_by_a_push(self):
        popped = []
        other = torch_client(self.server.port)
        thread = threading.Thread(target=lambda: popped.append(other.queue_pop("q")))
        thread.start()
        self.store.queue_push("q", "late")
        thread.join()
        self.assertEqual(popped, [b"late"])

    def test_counts_keys_with_the_counter_of_workers(self):
        workers = [torch_client(self.server.port, 2) for _ in range(2)]
        workers[0].set("k", "v")
        workers[1].wait(["k"])  # another connection, which is not ordered against the first
        self.assertEqual(workers[1].num_keys(), 2)
        self.assertEqual(workers[1].list_keys(), ["k"])
        self.assertTrue(workers[1].delete_key("k"))
        self.assertFalse(workers[1].delete_key("k"))
        self.assertEqual(workers[0].num_keys(), 1)

    def test_clone_and_prefix(self):
        copy = self.store.clone()
        inner = PrefixStore("p", PrefixStore("o", copy))
        inner.set("k", "v")
        self.assertEqual(self.store.get("o/p/k"), b"v")
        self.assertEqual(inner.num_keys(), 1)

    def test_a_wait_that_times_out(self):
        with self.assertRaisesRegex(DistStoreError, "wait timeout after 150ms, keys: /a, /b"):
            self.store.wait(["a", "b"], timedelta(milliseconds=150))
        self.store.set("a", "1")
        self.assertEqual(self.store.get("a"), b"1")

    def test_a_signal_during_a_wait(self):
        other = torch_client(self.server.port)
        here, there = socket.socketpair()
        there.setblocking(False)
        self.addCleanup(here.close)
        self.addCleanup(there.close)
        self.addCleanup(signal.signal, signal.SIGALRM,
                        signal.signal(signal.SIGALRM, lambda *_: None))
        self.addCleanup(signal.set_wakeup_fd, signal.set_wakeup_fd(there.fileno()))

        def set_once_the_signal_came():
            here.recv(1)
            other.set("late", "1")

        setter = threading.Thread(target=set_once_the_signal_came)
        setter.start()
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        self.store.wait(["late"])
        setter.join()
        self.assertEqual(self.store.get("late"), b"1")

    def test_the_server_ends_under_a_waiter(self):
        failures = []
        waits = threading.Event()

        def wait():
            waits.set()
            try:
                self.store.wait(["never"], PATIENCE)
            except DistNetworkError as failure:
                failures.append(failure)

        thread = threading.Thread(target=wait)
        thread.start()
        waits.wait()
        self.server.terminate()
        self.server.wait()
        thread.join()
        self.assertEqual(len(failures), 1)


WORKER = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
world = dist.get_world_size()
t = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(t)
assert t.item() == world * (world + 1) / 2, t
pair = dist.new_group([0, 1])
if dist.get_rank() < 2:
    dist.all_reduce(t, group=pair)
dist.barrier()
dist.destroy_process_group()
"""


class Workers(unittest.TestCase):
    """T4, T5: jobs of which every rank is a client of our server."""

    def run_job(self, world, **extra):
        with our_server() as server:
            workers = []
            for rank in range(world):
                env = dict(os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(server.port),
                           RANK=str(rank), WORLD_SIZE=str(world), OMP_NUM_THREADS="1",
                           TORCHELASTIC_USE_AGENT_STORE="True", TORCHELASTIC_RESTART_COUNT="0",
                           **extra)
                workers.append(subprocess.Popen([sys.executable, "-c", WORKER], env=env))
            self.assertEqual([worker.wait() for worker in workers], [0] * world)

    def test_gloo(self):
        self.run_job(2)

    def test_gloo_with_both_flags(self):
        self.run_job(2, GLOO_ENABLE_STORE_V2_API="1", GLOO_ENABLE_RANK_AS_SEQUENCE_NUMBER="1")


class OurClient(unittest.TestCase):
    """T6: our client with torch's servers."""

    def probe(self, port, key):
        done = subprocess.run([options.probe, str(port), key], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.strip()

    def test_torchs_servers(self):
        for use_libuv in (True, False):
            server = TCPStore("127.0.0.1", 0, None, True, PATIENCE, wait_for_workers=False,
                              use_libuv=use_libuv)
            self.assertEqual("no", self.probe(server.port, "k"))
            server.set("k", "v")
            self.assertEqual("yes", self.probe(server.port, "k"))

    def test_our_own(self):
        with our_server() as server:
            self.assertEqual("no", self.probe(server.port, "k"))

    def test_first_bytes(self):
        with socket.create_server(("127.0.0.1", 0)) as listening:
            port = listening.getsockname()[1]
            probe = subprocess.Popen([options.probe, str(port), "k"],
                                     stderr=subprocess.DEVNULL)
            connection, _ = listening.accept()
            with connection:
                first = connection.recv(64)
                connection.sendall(b"\0\0\0\0")  # a wrong nonce: it gives up
            self.assertEqual(probe.wait(60), 1)
        self.assertEqual(first[:6], bytes.fromhex("00CEF7853C0D"))
        self.assertEqual(int.from_bytes(first[6:], "little"), probe.pid)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ddpctl", required=True)
    parser.add_argument("--probe", required=True)
    _, rest = parser.parse_known_args(namespace=options)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == "__main__":
    main()
