"""Raw HTTP/2 and garbage against a listening node, which serves its other children meanwhile."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Final

from tests.peers.mesh import Mesh
from tests.peers.stubs import pb, position
from tests.security import http2
from tests.security.bystander.pair import Bystanders
from tests.security.http2 import Http2, frame

PATHS: Final = [
    "/TaskNet/Register",
    "/TaskNet/PathDiscovery",
    "/TaskNet/TransferMessage",
    "/TaskNet/InitServerDownStream",
    "/taskd_net.link.TaskLink/Exchange",
    "/Nobody/Nothing",
    "",
]
GROWTH_BYTES: Final = 200 * 1024 * 1024
"""Allowed growth of a node's memory: gRPC keeps buffers, and connections that are still ending."""

LOOK_EVERY: Final = 100


def resident() -> int:
    """Bytes of memory of this process."""
    return int(Path("/proc/self/statm").read_bytes().split()[1]) * os.sysconf("SC_PAGESIZE")


def _payload(chance: Random) -> bytes:
    """The message of a call: good, damaged, or noise."""
    place = position(f"Worker/0/{chance.randrange(4)}")
    whole: bytes = chance.choice(
        [
            pb.RegisterReq(uuid="u", pos=place),
            pb.PathDiscoveryReq(uuid="u", proxyPos=place, path=[place, position("Worker/90/900")]),
            pb.Message(header=pb.MessageHeader(uuid="u", sync=True, src=place, dst=position("Mgr/0")), body="x"),
            pb.Ack(uuid="u", src=place),
        ]
    ).SerializeToString()
    match chance.randrange(3):
        case 0:
            return whole
        case 1:
            at = chance.randrange(len(whole))
            return whole[:at] + chance.randbytes(chance.randrange(3)) + whole[at + chance.randrange(3) :]
        case _:
            return chance.randbytes(chance.choice([0, 1, 50, 5000]))


def _call(chance: Random, connection: Http2) -> None:
    rank = str(chance.randrange(4))
    metadata = chance.choice(
        [
            (),
            (("role", "Worker"), ("serverrank", "0"), ("processrank", rank)),
            (("role", "Worker"), ("serverrank", "90"), ("processrank", "900")),
            (("taskd-net-version", "9"), ("taskd-net-routes", chance.choice(["complete", "withdraw", "x" * 100]))),
            (("x", "\xff"), ("X", "y")),
            (("k", "v" * chance.choice([100, 20_000])),),
        ]
    )
    data = chance.choice([None, _payload(chance)])
    connection.open(chance.choice(PATHS), *metadata, data=data, end=chance.random() < 0.7)


def _frame(chance: Random, connection: Http2) -> None:
    payload = chance.randbytes(chance.choice([0, 1, 4, 5, 6, 8, 100]))
    length = chance.choice([None, None, None, 0, len(payload) + 3, 2**24 - 1])
    stream = chance.choice([0, 1, 2, 3, 5, 0x7FFF_FFFF, 0x8000_0000])
    connection.write(frame(chance.randrange(14), chance.randrange(256), stream, payload, length=length))


def _settings(chance: Random, connection: Http2) -> None:
    pairs = b"".join(
        chance.randrange(8).to_bytes(2) + chance.choice([0, 1, 2**16, 2**31, 2**32 - 1]).to_bytes(4)
        for _ in range(chance.randrange(40))
    )
    connection.write(frame(http2.SETTINGS, 0, 0, pairs))


def _flood(chance: Random, connection: Http2) -> None:
    kind = chance.choice(
        [http2.PING, http2.SETTINGS, http2.RST_STREAM, http2.WINDOW_UPDATE, http2.PRIORITY, http2.DATA]
    )
    size = {http2.PING: 8, http2.RST_STREAM: 4, http2.WINDOW_UPDATE: 4, http2.PRIORITY: 5}.get(kind, 0)
    stream = 0 if kind in (http2.PING, http2.SETTINGS) else 1
    connection.write(b"".join(frame(kind, 0, stream, chance.randbytes(size)) for _ in range(200)))


def _resets(chance: Random, connection: Http2) -> None:
    """Calls that are reset at once."""
    for _ in range(50):
        stream = connection.open(chance.choice(PATHS[:5]), data=_payload(chance))
        connection.write(frame(http2.RST_STREAM, 0, stream, b"\x00\x00\x00\x08"))


def _headers_without_end(chance: Random, connection: Http2) -> None:
    block = http2.header_block(http2.request(PATHS[0]))
    connection.write(frame(http2.HEADERS, 0, 1, block))
    for _ in range(chance.randrange(1, 60)):
        connection.write(frame(http2.CONTINUATION, 0, 1, http2.header_block([("k", "v" * 200)])))


_ACTS: Final[Sequence[Callable[[Random, Http2], None]]] = [
    _call,
    _call,
    _call,
    _frame,
    _settings,
    _flood,
    _resets,
    _headers_without_end,
]


async def attack(chance: Random, address: str) -> None:
    """One attacking connection, from another host than the bystanders, so that it cannot take their places."""
    async with Http2(address, answers_pings=chance.random() < 0.5, source="127.0.0.2") as connection:
        match chance.randrange(6):
            case 0:
                connection.write(chance.randbytes(chance.choice([1, 24, 500])))
            case 1:
                connection.write(http2.PREFACE[: chance.randrange(24)] + chance.randbytes(9))
            case _:
                connection.write(http2.PREFACE + frame(http2.SETTINGS))
                for _ in range(chance.randrange(1, 6)):
                    chance.choice(_ACTS)(chance, connection)
        wait = chance.choice([0.0, 0.005, 0.05])
        try:
            await connection.closed(wait)
        except TimeoutError:
            return


class Siege:
    """Attacks on one Mgr, a few at a time.

    Attributes:
        connections: number so far.
    """

    def __init__(self, mesh: Mesh, bystanders: Bystanders, seed: int) -> None:
        self._mesh = mesh
        self._bystanders = bystanders
        self._chance = Random(seed)
        self._least: int | None = None
        self.connections = 0

    @property
    def growth(self) -> int:
        """Growth of the process in bytes since the first look."""
        return 0 if self._least is None else resident() - self._least

    async def lay(self, connections: int) -> None:
        """Make this many attacks, with regular checks of the bystanders and the memory."""
        address = self._bystanders.parent.address or ""
        for start in range(0, connections, LOOK_EVERY):
            for _ in range(start, min(start + LOOK_EVERY, connections), 5):
                await asyncio.gather(*(attack(Random(self._chance.random()), address) for _ in range(5)))
                self.connections += 5
            await self._bystanders.undisturbed()
            assert not self._mesh.broken, self._mesh.broken
            if self._least is None:
                self._least = resident()
            assert self.growth < GROWTH_BYTES, f"{self.growth} bytes more after {self.connections} connections"
