#!/usr/bin/env python3
"""Measures what hostile clients cost the others, and the memory of the server.

    bench_hostile.py --programs build/release/bin [--seconds 60] [--clients 200] [--seed N]
                     [--server store|leader...] [--nice N] [--json FILE]

Serves `ddpctl store serve`, then the leader of a job of two nodes. First ordinary clients are alone on
the port (the floor), then hostile ones come as well: requests and frames that never end, readers that
never read, huge requests, floods of connections, garbage. Prints a Markdown table.

Ends with status 1 if a server's memory exceeds its limit or does not return, if an ordinary request
fails, or if the job is disturbed.
"""

import argparse
import asyncio
import contextlib
import http.client
import itertools
import json
import multiprocessing
import os
import pathlib
import random
import resource
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

HOST = "127.0.0.1"
MIB = 1 << 20
VALIDATE = bytes.fromhex("00CEF7853C")
SET, GET, ADD, WAIT, MULTI_GET, MULTI_SET, DELETE, PING = 1, 3, 4, 6, 10, 11, 8, 13
VALUE_MAX = 8 * MIB  # of docs/store.md
KEYS_MAX = 131_072
HELD_MAX = 2048 * MIB
LARGE_KEYS = 32  # names for the largest values, so that all of them take 256 MiB
# Values that were replaced live on until those who asked for them have taken them, or are closed.
MEMORY_WANTED = HELD_MAX + LARGE_KEYS * VALUE_MAX
MEMORY_RETURNED = 1.2  # of what it was before
P99_WANTED_MS = 20
RETURN_S = 30  # in which the memory has to return


def text(value):
    return struct.pack("<Q", len(value)) + value


def listed(opcode, keys):
    return bytes([opcode]) + struct.pack("<Q", len(keys)) + b"".join(map(text, keys))


def ping(nonce=7):
    return bytes([PING]) + struct.pack("<I", nonce)


def large_key(number):
    return b"/large/%d" % (number % LARGE_KEYS)


class Hostile:
    """One hostile client: connects again and again, each time in one of the ways below."""

    def __init__(self, port, seed, counts):
        self.port = port
        self.random = random.Random(seed)
        self.counts = counts

    WAYS = ("huge_multi_get", "half_frame", "never_reads", "leaving_waiter", "connect_flood", "half_http",
            "http_never_reads", "garbage", "large_sets", "slow_bytes", "half_hello")

    async def run(self, until):
        self.loop = asyncio.get_running_loop()
        for number in itertools.count(self.random.randrange(len(self.WAYS))):
            left = until - time.monotonic()
            if left <= 0:
                return
            way = self.WAYS[number % len(self.WAYS)]
            # To be closed, or left without a reply, is what it asks for.
            with contextlib.suppress(OSError, TimeoutError, asyncio.TimeoutError):
                await asyncio.wait_for(getattr(self, way)(), min(left, self.random.uniform(1, 15)))
            self.counts[way] = self.counts.get(way, 0) + 1

    @contextlib.asynccontextmanager
    async def connection(self, opening=VALIDATE):
        with socket.socket() as sock:
            sock.setblocking(False)
            await self.loop.sock_connect(sock, (HOST, self.port))
            await self.send(sock, opening)
            yield sock
            if self.random.random() < 0.3:  # leaves by a reset
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    async def send(self, sock, data):
        self.counts["bytes"] = self.counts.get("bytes", 0) + len(data)
        await self.loop.sock_sendall(sock, data)

    async def until_closed(self, sock):
        while await self.loop.sock_recv(sock, MIB):
            pass

    async def huge_multi_get(self):
        keys = [b"/k/%d" % self.random.randrange(64)] * self.random.choice((KEYS_MAX, KEYS_MAX // 8, KEYS_MAX + 1))
        async with self.connection() as sock:
            await self.send(sock, listed(MULTI_GET, keys) + ping())
            await self.until_closed(sock)

    async def half_frame(self):
        sent = self.random.randrange(64 * MIB)
        pairs = 4 + sent // VALUE_MAX
        async with self.connection() as sock:
            await self.send(sock, bytes([MULTI_SET]) + struct.pack("<Q", pairs))
            value = text(b"k") + text(b"x" * VALUE_MAX)
            for _ in range(sent // VALUE_MAX):
                await self.send(sock, value)
            await self.send(sock, value[:sent % VALUE_MAX])
            await self.until_closed(sock)

    async def never_reads(self):
        key = large_key(self.random.randrange(LARGE_KEYS))
        ask = listed(MULTI_GET, [key] * 1_000) if self.random.random() < 0.5 else bytes([GET]) + text(key)
        async with self.connection() as sock:
            while True:
                await self.send(sock, ask * 100)

    async def leaving_waiter(self):
        keys = [b"/never/%d" % self.random.randrange(1 << 40) for _ in range(1_000)]
        for _ in range(20):
            async with self.connection() as sock:
                await self.send(sock, listed(WAIT, keys))
                await asyncio.sleep(self.random.uniform(0, 0.5))

    async def connect_flood(self):
        for _ in range(20):
            async with contextlib.AsyncExitStack() as stack:
                for _ in range(50):
                    await stack.enter_async_context(self.connection(b""))

    async def half_http(self):
        async with self.connection(b"GET /status HTTP/1.1\r\nHost: h\r\n") as sock:
            while True:
                await self.send(sock, b"X-Header: x\r\n")
                await asyncio.sleep(self.random.uniform(0.01, 1))

    async def http_never_reads(self):
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(20):
                await stack.enter_async_context(self.connection(b"GET /status HTTP/1.1\r\n\r\n"))
            await asyncio.sleep(60)

    async def garbage(self):
        opening = self.random.choice((b"", VALIDATE, b"\xddRN\x03", b"\xddRL\x03", b"GET "))
        async with self.connection(opening + self.random.randbytes(self.random.randrange(100_000))) as sock:
            await self.until_closed(sock)

    async def large_sets(self):
        async with self.connection() as sock:
            for _ in range(8):
                size = VALUE_MAX if self.random.random() < 0.8 else VALUE_MAX + 1
                key = large_key(self.random.randrange(LARGE_KEYS))
                await self.send(sock, bytes([SET]) + text(key) + text(b"x" * size))
                await asyncio.sleep(self.random.uniform(0, 1))

    async def slow_bytes(self):
        async with self.connection() as sock:
            for byte in listed(WAIT, [b"/never/slow/%d" % number for number in range(100)]):
                await self.send(sock, bytes([byte]))
                await asyncio.sleep(0.01)

    async def half_hello(self):
        opening = self.random.choice((b"\xddRN\x03", b"\xddRL\x03")) + struct.pack(">I", 60_000)
        async with self.connection(opening + b'{"type":"hello","job":"') as sock:
            while True:
                await self.send(sock, b"x")
                await asyncio.sleep(self.random.uniform(0.01, 0.5))


def be_hostile(port, seeds, seconds, niceness, result):
    """A process of hostile clients."""
    os.setsid()
    os.nice(niceness)
    with contextlib.suppress(OSError):
        pathlib.Path("/proc/self/autogroup").write_text(str(niceness))  # niceness counts within a session only
    counts = {}
    until = time.monotonic() + seconds

    async def all_clients():
        await asyncio.gather(*(Hostile(port, seed, counts).run(until) for seed in seeds))

    asyncio.run(all_clients())
    result.send(counts)


class StoreClient:
    """An ordinary client of the store, which waits for each reply."""

    def __init__(self, port):
        self.sock = socket.create_connection((HOST, port), timeout=30)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.sendall(VALIDATE)

    def ask(self, request, size):
        self.sock.sendall(request)
        return self.hear(size)

    def hear(self, size):
        reply = b""
        while len(reply) < size:
            some = self.sock.recv(size - len(reply))
            if not some:
                raise ConnectionError("the store closed the connection of an ordinary client")
            reply += some
        return reply


class Latencies:
    """{what: [milliseconds]} and the requests that failed."""

    def __init__(self):
        self.ms = {}
        self.failed = []

    @contextlib.contextmanager
    def of(self, what):
        began = time.monotonic_ns()
        try:
            yield
        except (OSError, http.client.HTTPException, AssertionError) as error:
            self.failed.append(f"{what}: {error!r} after {(time.monotonic_ns() - began) / 1e6:.0f} ms")
            raise
        self.ms.setdefault(what, []).append((time.monotonic_ns() - began) / 1e6)


def must(condition):
    if not condition:
        raise AssertionError("not the reply that was asked for")


def use_store(port, stop, latencies):
    """set, get, add and a wait that another client ends, in turns."""
    with contextlib.suppress(OSError, AssertionError):  # in `latencies`
        client, other = StoreClient(port), StoreClient(port)
        total, counter = 0, b"/counter/%d" % os.getpid()
        for number in itertools.count():
            if stop.is_set():
                return
            key, value = b"/k/%d" % (number % 64), b"v%099d" % number
            with latencies.of("set"):
                must(client.ask(bytes([SET]) + text(key) + text(value) + ping(), 4) == struct.pack("<I", 7))
            with latencies.of("get"):
                must(client.ask(bytes([GET]) + text(key), 8 + len(value)) == text(value))
            with latencies.of("add"):
                total += 1
                must(client.ask(bytes([ADD]) + text(counter) + struct.pack("<q", 1), 8) == struct.pack("<q", total))
            with latencies.of("wait"):
                client.sock.sendall(listed(WAIT, [b"/wanted/%d" % number]))
                other.sock.sendall(bytes([SET]) + text(b"/wanted/%d" % number) + text(b"1"))
                must(client.hear(1) == b"\0")
            client.ask(bytes([DELETE]) + text(b"/wanted/%d" % number), 8)
            time.sleep(0.005)


def read_pages(port, path, stop, latencies):
    """A new connection for each request, as a monitoring system has."""
    while not stop.is_set():
        with contextlib.suppress(OSError, http.client.HTTPException, AssertionError):
            with latencies.of(path), contextlib.closing(http.client.HTTPConnection(HOST, port, timeout=30)) as page:
                page.request("GET", path)
                reply = page.getresponse()
                must(reply.status == 200 and reply.read())
        time.sleep(0.02)


def be_ordinary(user, arguments, stop, result):
    latencies = Latencies()
    user(*arguments, stop, latencies)
    result.send((latencies.ms, latencies.failed))


class Started:
    """A process that sends one result when it has ended."""

    def __init__(self, target, *arguments):
        self.result, theirs = multiprocessing.Pipe(duplex=False)
        self.process = multiprocessing.Process(target=target, args=(*arguments, theirs))
        self.process.start()
        theirs.close()

    def end(self):
        got = self.result.recv()
        self.process.join()
        return got


class Memory(threading.Thread):
    """The resident memory of a process, every 20 ms."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.peak, self.stopped = pid, 0, threading.Event()

    def now(self):
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return 1024 * int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])

    def run(self):
        while not self.stopped.wait(0.02):
            self.peak = max(self.peak, self.now())


def ordinary_clients(port, path, stop):
    return [Started(be_ordinary, use_store, (port,), stop), Started(be_ordinary, read_pages, (port, path), stop)]


def latencies_of(port, path, seconds, during=lambda: None):
    """What ordinary clients see in that time."""
    stop = multiprocessing.Event()
    clients = ordinary_clients(port, path, stop)
    during()
    time.sleep(seconds)
    stop.set()
    ms, failed = {}, []
    for client in clients:
        got, wrong = client.end()
        ms.update(got)
        failed += wrong
    return ms, failed


def clean(port):
    """Deletes what hostile clients stored and did not delete."""
    client = StoreClient(port)
    for key in [large_key(number) for number in range(LARGE_KEYS)] + [b"k"]:
        client.ask(bytes([DELETE]) + text(key), 8)


def measure(server, options):
    """Every figure of one server."""
    path = server.path
    latencies_of(server.port, path, 1)  # so that memory has what ordinary clients need
    memory = Memory(server.pid)
    floor, failed = latencies_of(server.port, path, options.floor_seconds)
    before = memory.now()
    memory.start()
    shares = [range(options.seed + first, options.seed + options.clients, options.processes)
              for first in range(options.processes)]
    hostile = []

    def attack():
        hostile.extend(Started(be_hostile, server.port, share, options.seconds, options.nice) for share in shares)

    beside, more = latencies_of(server.port, path, options.seconds, attack)
    counts = {}
    for each in hostile:
        for way, count in each.end().items():
            counts[way] = counts.get(way, 0) + count
    ended = time.monotonic()
    clean(server.port)
    while memory.now() > MEMORY_RETURNED * before and time.monotonic() < ended + RETURN_S:
        time.sleep(0.1)
        clean(server.port)  # again: what hostile clients sent before they left may be read after this
    returned_s = time.monotonic() - ended
    after = memory.now()
    memory.stopped.set()
    memory.join()
    return {"floor_ms": floor, "beside_ms": beside, "failed": failed + more + server.disturbed(),
            "memory_before": before, "memory_peak": memory.peak, "memory_after": after,
            "returned_s": returned_s, "hostile": counts}


def port_of(line):
    return int(line.split()[-1])


class Store:
    """`ddpctl store serve`."""

    name = "store"
    path = "/healthz"

    def __init__(self, programs):
        self.process = subprocess.Popen([programs / "ddpctl", "store", "serve", "--host", HOST],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.port = port_of(self.process.stdout.readline())
        self.pid = self.process.pid

    def disturbed(self):
        return [] if self.process.poll() is None else [f"the store ended with {self.process.returncode}"]

    def end(self):
        self.process.terminate()
        self.process.wait()


class Leader:
    """The leader of a job of two nodes, whose workers sleep."""

    name = "leader"
    path = "/status"

    def __init__(self, programs):
        with socket.socket() as free:
            free.bind((HOST, 0))
            self.port = free.getsockname()[1]
        command = [programs / "ddprun", "--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint",
                   f"{HOST}:{self.port}", "--rdzv-id", "bench", "--nproc-per-node", "1", "--max-restarts", "3",
                   "--no-python", "sleep", "100000"]
        self.nodes = [subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                      for _ in range(2)]
        self.first = self.await_round()
        self.pid = next(int(child) for node in self.nodes for child in children(node.pid) if listens(child, self.port))

    def status(self):
        with contextlib.closing(http.client.HTTPConnection(HOST, self.port, timeout=60)) as page:
            page.request("GET", "/status")
            return json.loads(page.getresponse().read())

    def await_round(self):
        until = time.monotonic() + 60
        while time.monotonic() < until:
            with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
                status = self.status()
                if status["state"] == "running":
                    return status
            time.sleep(0.1)
        sys.exit("the job did not start within 60 s")

    def disturbed(self):
        ended = [f"a node ended with {node.returncode}" for node in self.nodes if node.poll() is not None]
        if ended:
            return ended
        now = self.status()
        same = all(now[field] == self.first[field] for field in ("round", "state"))
        return [] if same else [f"the job is {now['state']} in round {now['round']}, not {self.first['round']}"]

    def end(self):
        for node in self.nodes:
            node.send_signal(signal.SIGTERM)
        for node in self.nodes:
            node.wait()


def children(pid):
    return pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def listens(pid, port):
    """Whether a socket of `pid` listens on `port`."""
    listening = set()
    for family in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/net/{family}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and int(words[1].rpartition(":")[2], 16) == port:
                listening.add(f"socket:[{words[9]}]")
    return any(os.readlink(file) in listening for file in pathlib.Path(f"/proc/{pid}/fd").iterdir())


def percentile(values, part):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def percentile_text(milliseconds, part):
    return f"{percentile(milliseconds, part):.2f} ms" if milliseconds else ""


def mib(size):
    return f"{size / MIB:,.1f} MiB"


def rows(results):
    def row(what, cell, wanted=""):
        return (what, *(cell(result) for result in results.values()), wanted)

    def latency(figures, what, part):
        return lambda result: percentile_text(operations(result[figures], what), part)

    for what in ("set", "get", "add", "wait", "page"):
        name = {"page": "`GET /healthz`, `/status`"}.get(what, what)
        yield row(f"{name}, alone: p50", latency("floor_ms", what, 0.5), "the floor")
        yield row(f"{name}, alone: p99", latency("floor_ms", what, 0.99), "the floor")
        yield row(f"{name}, beside hostile clients: p50", latency("beside_ms", what, 0.5))
        yield row("the same, p99", latency("beside_ms", what, 0.99), f"≤ {P99_WANTED_MS} ms")
    yield row("ordinary requests that failed", lambda result: str(len(result["failed"])), "0")
    yield row("memory before", lambda result: mib(result["memory_before"]))
    yield row("memory, peak", lambda result: mib(result["memory_peak"]), f"≤ {mib(MEMORY_WANTED)} more than before")
    yield row("memory after", lambda result: mib(result["memory_after"]), "≤ 1.2 × before")
    yield row("seconds until then, after the last hostile client left", lambda result: f"{result['returned_s']:.1f}",
              f"≤ {RETURN_S}")
    yield row("hostile connections", lambda result: f"{attempts(result):,}")
    yield row("bytes that they sent", lambda result: f"{result['hostile']['bytes'] / 1e9:,.1f} GB")


def operations(figures, what):
    return next((ms for name, ms in figures.items() if name.startswith("/" if what == "page" else what)), [])


def attempts(result):
    """A flood has 1,000 connections."""
    per_way = {"connect_flood": 1_000, "leaving_waiter": 20, "http_never_reads": 20}
    return sum(count * per_way.get(way, 1) for way, count in result["hostile"].items() if way != "bytes")


def wrongs(name, result):
    found = [f"{name}: {failure}" for failure in result["failed"]]
    if result["memory_peak"] - result["memory_before"] > MEMORY_WANTED:
        found.append(f"{name}: the memory grew to {mib(result['memory_peak'])}")
    if result["memory_after"] > MEMORY_RETURNED * result["memory_before"]:
        found.append(f"{name}: the memory was {mib(result['memory_before'])}, stays at {mib(result['memory_after'])}")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--floor-seconds", type=float, default=10)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--processes", type=int, default=2, help="of the hostile clients")
    parser.add_argument("--nice", type=int, default=19,
                        help="of the hostile processes; above 0, they leave the processors to server and others")
    parser.add_argument("--seed", type=int, default=20261129)
    parser.add_argument("--server", nargs="*", choices=("store", "leader"), default=("store", "leader"))
    parser.add_argument("--json", type=pathlib.Path, help="also write every figure to this file")
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # a flood needs many
    results = {}
    for kind in (Store, Leader):
        if kind.name not in options.server:
            continue
        server = kind(options.programs)
        try:
            results[kind.name] = measure(server, options)
        finally:
            server.end()
    names = {"store": "`ddpctl store serve`", "leader": "leader of a job"}
    print("| figure | " + " | ".join(names[name] for name in results) + " | wanted |")
    print("|---" * (2 + len(results)) + "|")
    for cells in rows(results):
        print("| " + " | ".join(cells) + " |")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    found = [wrong for name, result in results.items() for wrong in wrongs(name, result)]
    for wrong in found[:20]:
        print(wrong, file=sys.stderr)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
