"""A name server for pods. Its arguments are its address, and a file with the addresses of names.

It imports nothing of the project, and begins at once.
"""

import socket
import struct
import sys
from pathlib import Path

LIVES_S = 300
"""Seconds for which resolvers may keep an answer."""

A = 1
NOT_KNOWN = 3


def answer(query: bytes, known: dict[str, str]) -> bytes:
    """The answer to a query: the address of a name, no address of another kind, or that the name is not known."""
    labels, at = [], 12
    while length := query[at]:
        labels.append(query[at + 1 : at + 1 + length].decode())
        at += 1 + length
    (kind,) = struct.unpack("!H", query[at + 1 : at + 3])
    address = known.get(".".join(labels).lower())
    has = address is not None and kind == A
    head = query[:2] + struct.pack("!HHHHH", 0x8580 | (0 if address else NOT_KNOWN), 1, int(has), 0, 0)
    record = struct.pack("!HHHIH", 0xC00C, A, 1, LIVES_S, 4) + socket.inet_aton(address or "0.0.0.0") if has else b""
    return head + query[12 : at + 5] + record


def main(address: str, file: str) -> None:
    """Answer, for ever."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((address, 53))
        print("ready", flush=True)
        while True:
            query, peer = server.recvfrom(512)
            lines = [line.split() for line in Path(file).read_text().splitlines()]
            server.sendto(answer(query, {name: own for own, name in lines}), peer)


if __name__ == "__main__":
    main(*sys.argv[1:])
