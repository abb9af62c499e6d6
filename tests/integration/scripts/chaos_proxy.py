"""A proxy for all TCP connections of one simulated machine, which disturbs a few of them by a seed.

    chaos_proxy.py --port PORT --seed SEED --log FILE

The machine's nft rules redirect every connection here, except those of the proxy itself, whose packets have MARK. A
trouble happens at a given byte of a given connection:

    delay      what follows is late
    stall      nothing follows for longer than a lease, and then the connection is reset
    reset      both ends see a reset
    half_close the receiver sees an end of file; what it sends still arrives
    flip       one bit is changed

Any connection may be opened late, so that one after it overtakes it, or be cut into pieces of a few bytes. Prints a
line when it listens. Each trouble that happened is a line of the log.
"""

import argparse
import asyncio
import random
import socket
import struct

MARK = 1
SO_ORIGINAL_DST = 80
TROUBLES = ("delay", "stall", "reset", "reset", "half_close", "flip")
WAYS = ("forth", "back")
CONNECTIONS = 4  # the first ones of a job: rendezvous, lifeline, and those that follow a lost one
BYTES = 3000  # what a job of one restart sends on its longest connection
STALL_S = 4  # longer than the lease of the drill


class Plan:
    """What becomes of one connection."""

    def __init__(self, seed, number):
        chance = random.Random(f"{seed} {number}")
        self.trouble = chance.choice(TROUBLES) if number < CONNECTIONS and chance.random() < 0.6 else None
        self.way = chance.choice(WAYS)
        self.at = int(BYTES ** chance.random())  # near the beginning as often as far from it
        self.delay_s = chance.choice((0.05, 0.3, 1, 1.9))
        self.bit = 1 << chance.randrange(8)
        self.open_after_s = chance.choice((0, 0, 0, 0, 0.02, 0.2, 0.7))
        self.piece_bytes = chance.choice((0, 0, 0, 1, 7))  # 0: not cut


class Proxy:
    def __init__(self, seed, log):
        self._seed = seed
        self._log = log
        self._count = 0
        self._tasks = set()  # asyncio itself only refers to them weakly

    async def serve(self, reader, writer):
        plan, number = Plan(self._seed, self._count), self._count
        self._count += 1
        task = asyncio.current_task()
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        await asyncio.sleep(plan.open_after_s)
        target = original_target(writer.get_extra_info("socket"))
        try:
            far_reader, far_writer = await connect(target)
        except OSError:
            return abort(writer)
        note = lambda: print(f"connection {number} to {target[0]}:{target[1]}: {plan.trouble} at byte {plan.at} "
                             f"{plan.way}", file=self._log, flush=True)
        both = (writer, far_writer)
        ways = [self._carry(reader, far_writer, both, plan, "forth", note),
                self._carry(far_reader, writer, both, plan, "back", note)]
        await asyncio.gather(*ways)
        for each in both:
            each.close()

    async def _carry(self, reader, writer, both, plan, way, note):
        """Passes on what one end sends, until it ends. A connection that one end resets is reset for both."""
        position, drops = 0, False
        try:
            while data := await reader.read(1 << 16):
                if drops:
                    continue
                cut = plan.at - position if plan.trouble and plan.way == way else -1
                position += len(data)
                if 0 <= cut < len(data):
                    note()
                    await self._send(writer, data[:cut], plan)
                    data = await self._trouble(data[cut:], writer, both, plan)
                    drops = data is None
                if not drops:
                    await self._send(writer, data, plan)
            if not drops:
                writer.write_eof()
        except OSError:
            for each in both:
                abort(each)

    @staticmethod
    async def _trouble(rest, writer, both, plan):
        """What is left to send; None: nothing ever."""
        if plan.trouble == "delay":
            await asyncio.sleep(plan.delay_s)
        elif plan.trouble == "flip":
            return bytes([rest[0] ^ plan.bit]) + rest[1:]
        elif plan.trouble == "half_close":
            writer.write_eof()
            return None
        else:
            if plan.trouble == "stall":
                await asyncio.sleep(STALL_S)
            for each in both:
                abort(each)
            return None
        return rest

    @staticmethod
    async def _send(writer, data, plan):
        size = plan.piece_bytes or len(data) or 1
        for begin in range(0, len(data), size):
            writer.write(data[begin:begin + size])
            await writer.drain()
            if plan.piece_bytes:
                await asyncio.sleep(0)  # other connections go first


def original_target(connection):
    _, port, address = struct.unpack("!HH4s8x", connection.getsockopt(socket.IPPROTO_IP, SO_ORIGINAL_DST, 16))
    return socket.inet_ntoa(address), port


async def connect(target):
    connection = socket.socket()
    connection.setblocking(False)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, MARK)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        await asyncio.get_running_loop().sock_connect(connection, target)
        return await asyncio.open_connection(sock=connection)
    except OSError:
        connection.close()
        raise


def abort(writer):
    """Closes with a reset."""
    connection = writer.get_extra_info("socket")
    if connection.fileno() >= 0:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--log", type=argparse.FileType("a"), required=True)
    given = parser.parse_args()
    server = await asyncio.start_server(Proxy(given.seed, given.log).serve, "0.0.0.0", given.port)
    print("listens", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
