"""Prints what is sent to a TCP port of this machine, until its stdin is closed: for each connection the bytes of the
caller in hexadecimal, a line each. Needs root.

    sniffer.py PORT
"""

import select
import socket
import struct
import sys

ETHERNET_BYTES = 14
ETH_P_IP = 0x0800
TCP = 6


def segment_of(packet, port):
    """(caller, sequence number, bytes) of a TCP segment to `port` with data; None for any other packet."""
    if struct.unpack_from("!H", packet, 12)[0] != ETH_P_IP:
        return None
    ip = packet[ETHERNET_BYTES:]
    if ip[9] != TCP:
        return None
    header = (ip[0] & 15) * 4
    size = struct.unpack_from("!H", ip, 2)[0]  # without the padding of a short frame
    tcp = ip[header:size]
    source, target, number = struct.unpack_from("!HHI", tcp)
    data = tcp[(tcp[12] >> 4) * 4:]
    return ((ip[12:16], source), number, data) if target == port and data else None


def stream_of(segments):
    """The bytes of a connection, each once and in their order."""
    stream, expected = b"", min(segments)
    for number in sorted(segments):
        data = segments[number]
        if number + len(data) > expected:
            stream += data[max(0, expected - number):]
            expected = number + len(data)
    return stream


def main():
    port = int(sys.argv[1])
    streams = {}
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_IP)) as packets:
        print("ready", flush=True)
        while True:
            ready, _, _ = select.select([packets, sys.stdin], [], [])
            if packets in ready:
                segment = segment_of(packets.recv(1 << 16), port)
                if segment:
                    caller, number, data = segment
                    streams.setdefault(caller, {}).setdefault(number, data)
            elif not sys.stdin.read(1):
                break
    for segments in streams.values():
        print(stream_of(segments).hex())


if __name__ == "__main__":
    main()
