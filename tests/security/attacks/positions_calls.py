"""A thousand positions of one process over gRPC: the batched link, and the four calls.

gRPC reads them without turns, so the bounds here are those of its streams, of the Router, and of all children together.
Each attack is made over one connection, and over 64.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache, partial
from typing import Any, Final, TypeAlias

import grpc.aio

from taskd_net import Position
from taskd_net.net.links import batched, tasknet
from taskd_net.net.wire import batches
from taskd_net.net.wire.link_pb2 import Batch
from taskd_net.net.wire.requests import write_announcement
from tests.peers.floods import batch
from tests.peers.links import NO_LIMITS, LinkChild, stream_metadata
from tests.peers.stubs import pb, position
from tests.security.attacks.attack import ALL_BYTES, Attack
from tests.security.bystander.stand import Stand

POSITIONS: Final = 1000
CONNECTIONS: Final = (1, 64)
AT_ONCE: Final = 50
STRIKE_S: Final = 0.2
MESSAGES: Final = 256
ANNOUNCEMENT_BYTES: Final = 16_000

_Work: TypeAlias = Callable[["SharingChild"], Awaitable[object]]


class SharingChild(LinkChild):
    """A child whose connection others use as well."""

    def __init__(self, place: str, kind: str, channel: Any) -> None:
        super().__init__(place, kind)
        self.channel = channel
        self.numbers = itertools.count()

    def connect(self, address: str) -> None:
        """It is connected."""

    async def cut(self) -> None:
        """End the stream alone."""
        if self.stream is not None:
            self.stream._cython_call.cancel("cut")


@asynccontextmanager
async def positions(
    address: str, connections: int, kind: str, role: str = "Worker", count: int = POSITIONS
) -> AsyncIterator[list[SharingChild]]:
    """So many positions of this process, over so many connections."""
    options = [("grpc.use_local_subchannel_pool", 1), *NO_LIMITS]
    async with AsyncExitStack() as stack:
        channels = [
            await stack.enter_async_context(grpc.aio.insecure_channel(address, options=options))
            for _ in range(connections)
        ]
        places = [f"Worker/80/{rank}" if role == "Worker" else f"{role}/{1000 + rank}" for rank in range(count)]
        children = [
            await stack.enter_async_context(SharingChild(place, kind, channels[at % connections]))
            for at, place in enumerate(places)
        ]
        for first in range(0, count, AT_ONCE):
            await asyncio.gather(*(child.join(address) for child in children[first : first + AT_ONCE]))
        yield children


async def flood(
    stand: Stand,
    work: _Work,
    *,
    connections: int,
    kind: str = batched.NAME,
    role: str = "Worker",
    at_once: int = 1,
    count: int = POSITIONS,
    reads: bool = True,
) -> AsyncGenerator[None, None]:
    """Every position works without a pause; a strike is a time of it."""
    async with positions(stand.address, connections, kind, role, count) as children:
        resume = asyncio.Event()

        async def read(child: SharingChild) -> None:
            while await child.stream.read() is not grpc.aio.EOF:
                pass

        async def go_on(child: SharingChild) -> None:
            while True:
                await resume.wait()
                try:
                    await work(child)
                except grpc.aio.AioRpcError:
                    await asyncio.sleep(0.1)  # gRPC has no stream for it, or its time is over

        readers = [asyncio.create_task(read(child)) for child in children if reads]
        tasks = [asyncio.create_task(go_on(child)) for child in children for _ in range(at_once)]
        try:
            yield
            while True:
                resume.set()
                await asyncio.sleep(STRIKE_S)  # a strike is a time of the attack
                resume.clear()
                for task in tasks:
                    if task.done():
                        task.result()
                yield
        finally:
            for task in tasks + readers:
                task.cancel()
            await asyncio.gather(*tasks, *readers, return_exceptions=True)


async def _register(child: SharingChild) -> None:
    me = f"Worker/{81 + next(child.numbers)}/{child.place.rpartition('/')[2]}"
    await child.call("Register", pb.RegisterReq(uuid="r", pos=position(me)).SerializeToString())


async def _announce(child: SharingChild) -> None:
    me = Position.parse(child.place)
    await child.call("PathDiscovery", write_announcement("a", me, [me]))


@cache
def _path(place: str) -> bytes:
    return write_announcement("a", Position.parse(place), ()) + b"\x1a\x00" * (ANNOUNCEMENT_BYTES // 2)


async def _long_announce(child: SharingChild) -> None:
    await child.call("PathDiscovery", _path(child.place))


@cache
def _fresh(place: str, size: int) -> bytes:
    header = pb.MessageHeader(mtype="raw", sync=True, src=position(place), dst=position("Worker/80/0"), createTime=1)
    data: bytes = pb.Message(header=header, body="x" * size).SerializeToString()
    return data


async def _transfer(child: SharingChild, size: int = 16) -> None:
    # The uuid stands in front, so each message has one of its own.
    uuid = f"{child.place}-{next(child.numbers)}".encode()
    extra = b"\x0a" + bytes([len(uuid) + 2]) + b"\x0a" + bytes([len(uuid)]) + uuid
    await child.call("TransferMessage", extra + _fresh(child.place, size))


@cache
def _messages(place: str) -> bytes:
    made = Batch.FromString(batch(1, MESSAGES, place, "Worker/99/77", sync=False))
    del made.numbers[:], made.patience[:]
    made.numbers.extend([0] * MESSAGES)
    made.patience.extend([0] * MESSAGES)
    data: bytes = made.SerializeToString()
    return data


_ANSWERS: Final = Batch(accepted_numbers=range(2**31, 2**31 + batches.BATCH_ANSWERS)).SerializeToString()


async def _reopen(child: SharingChild) -> None:
    """Open the stream again, which ends the one before."""
    before, call = child.stream, child.channel.stream_stream(child._method)
    child.stream = call(metadata=stream_metadata(child.place))
    await child.stream.initial_metadata()
    before._cython_call.cancel("again")


_KINDS: Final[Mapping[str, tuple[str, str, _Work, dict[str, Any]]]] = {
    "batched-messages": (
        f"batches of {MESSAGES} messages to a node that does not exist, over batched links", "lost, one line",
        lambda child: child.write(_messages(child.place)), {},
    ),
    "batched-answers": (
        f"batches of {batches.BATCH_ANSWERS:,} answers to messages that nobody sent, over batched links",
        "dropped", lambda child: child.write(_ANSWERS), {},
    ),
    "registers": (
        "a Register of each under way, ever new positions", "64 of a connection have a place, the others wait",
        _register, {"kind": tasknet.NAME},
    ),
    "path-discoveries": (
        "a PathDiscovery of each under way", "answered", _announce, {"kind": tasknet.NAME},
    ),
    "long-path-discoveries": (
        f"4 PathDiscoveries of {ANNOUNCEMENT_BYTES // 1024} KiB of each under way",
        "paced; 5001 beyond the share of one in the bytes of all",
        _long_announce, {"kind": tasknet.NAME, "role": "Proxy", "at_once": 4},
    ),
    "transfers": (
        "a TransferMessage of each under way, ever new uuids, to one that never reads", "5001 or 6001",
        _transfer, {"kind": tasknet.NAME, "reads": False},
    ),
    "large-transfers": (
        "a TransferMessage of 64 KiB of each under way, to one that never reads", "5001 or 6001",
        partial(_transfer, size=65_536), {"kind": tasknet.NAME, "reads": False},
    ),
    "streams": (
        "InitServerDownStream again and again", "the stream before ends",
        _reopen, {"kind": tasknet.NAME, "reads": False},
    ),
}  # fmt: skip

ATTACKS: Final[Mapping[str, Attack]] = {
    f"positions-{name}-{connections}": Attack(
        f"{POSITIONS:,} positions of one process: {sends}, over {connections} connections"
        if connections > 1
        else f"{POSITIONS:,} positions of one process: {sends}, over one connection",
        answer,
        partial(flood, work=work, connections=connections, **more),
        share=ALL_BYTES,
        promised=False,
    )
    for name, (sends, answer, work, more) in _KINDS.items()
    for connections in CONNECTIONS
}
