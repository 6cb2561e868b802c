"""Batches with far more items than any node of ours writes, and other bytes that are cheap to send and dear to read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from itertools import count
from typing import Final

from taskd_net.net.wire.batches import BATCH_COUNTED_BYTES, DIRECT_BATCH_BYTES
from taskd_net.net.wire.link_pb2 import Batch
from tests.peers.links import LinkChild, LinkParent
from tests.peers.stubs import pb, position
from tests.security.attacks.attack import Attack, Strikes
from tests.security.bystander.stand import MIB, Stand

EMPTY_MESSAGE: Final = b"\x0a\x00"
EMPTY_ACCEPTED: Final = b"\x1a\x00"
EMPTY_ANSWER: Final = b"\x22\x00"
EMPTY_BRANCH: Final = b"\x3a\x00"
EMPTY_SPAN: Final = b"\x32\x00"
CONFIRMATION: Final = Batch(taken=1).SerializeToString()
ACCEPTED: Final = b"\x72"
BATCH: Final = 9 * MIB
"""Bytes of a batch that gRPC lets in: `limits.RECEIVE_BYTES` is more."""
PAIRS: Final = BATCH // 2


def _message(size: int, to: str = "Mgr/0") -> bytes:
    header = pb.MessageHeader(uuid="u", sync=True, src=position("Worker/80/0"), dst=position(to))
    data: bytes = pb.Message(header=header, body="x" * size).SerializeToString()
    return data


def _field(tag: bytes, data: bytes) -> bytes:
    size, out = len(data), bytearray()
    while size >= 0x80:
        out.append(size & 0x7F | 0x80)
        size >>= 7
    return tag + bytes((*out, size)) + data


def patient(count: int) -> bytes:
    """The times of patience of so many messages."""
    return _field(b"\x12", b"\x01" * count)


def ends_the_stream(make: Callable[[], bytes], child_at: type[LinkChild] = LinkChild) -> Strikes:
    """A child writes a batch, and its stream ends. It comes back in another place, as its own has to wait."""

    async def strikes(stand: Stand) -> AsyncGenerator[None, None]:
        data = make()
        for rank in count():
            async with child_at(f"Worker/80/{rank}") as child:
                await child.join(stand.address)
                if not rank:
                    yield
                await child.write(data)
                await child.ended()
                assert "event=violation" in stand.log(), "gRPC has refused it, not the node"
                yield

    return strikes


def ends_the_stream_from_above(make: Callable[[], bytes], parent_at: type[LinkParent] = LinkParent) -> Strikes:
    """A parent writes a batch. Its child ends the stream, and joins again after a pause."""

    async def strikes(stand: Stand) -> AsyncGenerator[None, None]:
        data = make()
        parent = await parent_at().start(stand.parent)
        try:
            stream = await parent.opened()
            yield
            while True:
                await parent.write(stream, data)
                stream = await parent.opened()
                assert "event=violation" in stand.log()
                yield
        finally:
            await parent.stop()

    return strikes


def refused(make: Callable[[], bytes]) -> Strikes:
    """A child writes an honest batch; all its messages are answered with a code."""

    async def strikes(stand: Stand) -> AsyncGenerator[None, None]:
        data = make()
        messages = len(Batch.FromString(data).messages)
        async with LinkChild("Worker/80/0") as child:
            await child.join(stand.address)
            yield
            while True:
                await child.write(data)
                answered = 0
                async with asyncio.timeout(60.0):
                    while answered < messages:
                        batch = Batch.FromString(await child.stream.read())
                        answered += len(batch.answers)
                        if batch.answers:
                            await child.write(CONFIRMATION)
                yield

    return strikes


def _numbered(count: int) -> bytes:
    return patient(count) + _field(b"\x6a", b"\x01" * count)


def _broadcasts() -> bytes:
    """As many broadcasts as a batch may have, to 16,384 ranks each that do not exist: a MiB."""
    data = _message(0, "Worker/0/" + ",".join(map(str, range(100_000, 105_000))))
    count = DIRECT_BATCH_BYTES // len(data)
    return _field(b"\x0a", data) * count + _numbered(count)


BATCHES: Final[Mapping[str, Callable[[], bytes]]] = {
    "empty-messages": lambda: EMPTY_MESSAGE * 400_000 + _numbered(400_000),
    "messages-without-numbers": lambda: EMPTY_MESSAGE * 400_000 + patient(400_000),
    "empty-accepted": lambda: EMPTY_ACCEPTED * PAIRS,
    "empty-accepted-behind-a-large-message": lambda: (
        _field(b"\x0a", _message(10_000)) + _numbered(1) + EMPTY_ACCEPTED * PAIRS
    ),
    "empty-answers": lambda: EMPTY_ANSWER * PAIRS,
    "empty-branches": lambda: EMPTY_BRANCH * PAIRS,
    "empty-failures": lambda: _field(b"\x3a", EMPTY_ACCEPTED * (PAIRS - 10)),
    "empty-spans": lambda: EMPTY_SPAN * PAIRS,
    "accepted-numbers": lambda: _field(ACCEPTED, b"\x01" * BATCH),
    "unknown-fields": lambda: b"\xa2\x06\x00" * (BATCH // 3),
    "smallest-bomb": lambda: EMPTY_MESSAGE * (BATCH_COUNTED_BYTES // 2),
}
"""Batches beyond the bounds of the protocol, by the attack with one."""

_SENDS: Final = {
    "empty-messages": "400,000 empty messages in one batch",
    "messages-without-numbers": "the same without numbers",
    "empty-accepted": "9 MiB of empty uuids of accepted messages",
    "empty-accepted-behind-a-large-message": "the same behind one large message",
    "empty-answers": "9 MiB of empty answers",
    "empty-branches": "9 MiB of empty counts of a broadcast",
    "empty-failures": "9 MiB of empty failures of a broadcast",
    "empty-spans": "9 MiB of empty spans",
    "accepted-numbers": "9 MiB of numbers of accepted messages",
    "unknown-fields": "9 MiB of fields of another version",
    "smallest-bomb": "empty messages, as many as are read before they are counted",
}

FROM_ABOVE: Final = "the child ends the stream, and joins again"

ATTACKS: Final[Mapping[str, Attack]] = {
    **{
        name: Attack(_SENDS[name], "the stream ends, one line", ends_the_stream(make)) for name, make in BATCHES.items()
    },
    **{
        f"{name}-from-above": Attack(
            f"{_SENDS[name]}, downwards", FROM_ABOVE, ends_the_stream_from_above(make), from_above=True
        )
        for name, make in BATCHES.items()
    },
    "lists": Attack("batches of lists with 5,000 ranks each", "5002 for each", refused(_broadcasts)),
}
