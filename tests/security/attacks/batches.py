"""Batches with far more items than any node of ours writes, and other bytes that are cheap to send and dear to read."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Final

from tests.peers.links import LinkChild
from tests.peers.stubs import pb, position
from tests.security.attacks.attack import Attack, Strikes
from tests.security.bystander.stand import MIB, Stand

EMPTY_MESSAGE: Final = b"\x0a\x00"
EMPTY_ACCEPTED: Final = b"\x1a\x00"
EMPTY_ANSWER: Final = b"\x22\x00"
EMPTY_BRANCH: Final = b"\x3a\x00"
EMPTY_SPAN: Final = b"\x32\x00"
NUMBERS: Final = b"\x72"
REPLY: Final = 60 * MIB


def _message(size: int) -> bytes:
    header = pb.MessageHeader(uuid="u", sync=True, src=position("Worker/80/0"), dst=position("Mgr/0"))
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


def ends_the_stream(make: Callable[[], bytes]) -> Strikes:
    """A child writes a batch, and its stream ends."""

    async def strikes(stand: Stand) -> AsyncGenerator[None, None]:
        data = make()
        async with LinkChild("Worker/80/0") as child:
            await child.join(stand.address)
            yield
            while True:
                await child.write(data)
                await child.ended()
                yield
                await child.cut()
                await child.join(stand.address)

    return strikes


def _attack(sends: str, make: Callable[[], bytes]) -> Attack:
    return Attack(sends, "the stream ends, one line", ends_the_stream(make))


ATTACKS: Final[Mapping[str, Attack]] = {
    "messages-without-numbers": _attack(
        "400,000 empty messages in one batch, without numbers", lambda: EMPTY_MESSAGE * 400_000 + patient(400_000)
    ),
}
