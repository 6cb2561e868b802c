"""Answers: more of them at once than any other batch, and those that nobody takes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from functools import partial
from itertools import count
from typing import Any, Final

from taskd_net.base.peer_limits import Limits
from taskd_net.core.ready import Reason
from taskd_net.core.router import ANSWERS_UNTAKEN
from taskd_net.net.links import peer as peers
from taskd_net.net.links import tasknet
from taskd_net.net.wire.batches import BATCH_ANSWERS_READ
from taskd_net.net.wire.link_pb2 import Batch
from taskd_net.net.wire.socket_frames import FrameKind
from tests.peers.direct_child import DirectChild
from tests.peers.direct_parent import DirectParent, Line
from tests.peers.floods import FloodingParent, batch, flood
from tests.peers.links import LinkChild
from tests.peers.stubs import pb, position
from tests.security.attacks.attack import Attack
from tests.security.bystander.stand import MIB, Stand

ACKS: Final = 10_000
FOREIGN: Final = frozenset(key for key, _ in peers.own_metadata())
"""The metadata that a child with the four calls alone does not have."""

_GARBAGE: Final = b"\xff" * 8

FLOOD: Final = 40 * (Limits().child_messages + ANSWERS_UNTAKEN)
"""Messages of a child, far more than those whose answers may wait for it."""


class _Reader:
    """The batches that a child receives, over either kind of link."""

    def __init__(self, child: LinkChild) -> None:
        self._child = child

    async def next(self) -> Batch:
        """The next one."""
        child = self._child
        if not isinstance(child, DirectChild):
            return Batch.FromString(await child.stream.read())
        while True:
            kind, payload = await child.other.get()
            assert kind != FrameKind.END
            if kind == FrameKind.BATCH:
                return Batch.FromString(payload)


async def _many(stand: Stand, child_at: type[LinkChild] = LinkChild) -> AsyncGenerator[None, None]:
    """A child writes as many answers as a batch may have, to messages that nobody sent, and one message of its own."""
    ack = pb.Ack(code=5001, src=position("Worker/80/0")).SerializeToString()
    numbers = range(2**31, 2**31 + BATCH_ANSWERS_READ)
    said = Batch(answers=[ack] * BATCH_ANSWERS_READ, answer_numbers=numbers, accepted_numbers=numbers)
    async with child_at("Worker/80/0") as child:
        await child.join(stand.address)
        reader = _Reader(child)
        yield
        for first in count(1):
            message = Batch.FromString(batch(first, 1, "Worker/80/0", "Mgr/0"))
            message.MergeFrom(said)
            message.taken = 1
            await child.write(message.SerializeToString())
            async with asyncio.timeout(60.0):
                while not (await reader.next()).accepted_numbers:
                    pass
            yield


async def _untaken(stand: Stand, child_at: type[LinkChild] = LinkChild) -> AsyncGenerator[None, None]:
    """A child floods its parent, and confirms no answer, until its stream ends. It comes back in another place."""
    for rank in count():
        async with child_at(f"Worker/80/{rank}") as child:
            await child.join(stand.address)
            if not rank:
                yield
            reading = asyncio.create_task(child.ended())
            assert not await flood(child, "Mgr/0", FLOOD), "the parent took it all"
            await reading
            assert Reason.VIOLATION.value in stand.log()
            yield


class _Parent(FloodingParent):
    """A parent that is honest at first."""

    floods = False

    async def serve(self, request: object, context: Any) -> None:
        self.streams.put_nowait(context)
        await super().serve(request, context)

    async def _flood(self, context: Any) -> None:
        if self.floods:
            await super()._flood(context)


async def _untaken_from_above(stand: Stand, kind: str = "batched", *, reads: bool = True) -> AsyncGenerator[None, None]:
    """A parent floods its child, and confirms no answer; the child ends the stream, and joins again."""
    parent = _Parent("Proxy/0", kind, reads=reads)
    await parent.start(stand.parent)
    try:
        await parent.opened()
        yield
        parent.floods = True
        parent.end_streams()
        await parent.opened()
        while True:
            await parent.opened()
            yield
    finally:
        await parent.stop()


class _DirectParent(DirectParent):
    """A parent that floods all links but the first."""

    _lives = 0

    async def accepted(self, line: Line) -> None:
        await super().accepted(line)
        self._lives += 1
        if self._lives > 1:
            self._flooding = asyncio.create_task(self._flood(line))

    async def _flood(self, line: Line) -> None:
        for first in count(1, 256):
            await self.write(line, batch(first, 256, "Mgr/0", "Proxy/0"))
            if line.done():
                return


async def _untaken_from_above_direct(stand: Stand) -> AsyncGenerator[None, None]:
    """The same over a direct link."""
    parent = await _DirectParent().start(stand.parent)
    try:
        await parent.opened()
        yield
        parent.end_streams()
        await parent.opened()
        while True:
            await parent.opened()
            yield
    finally:
        await parent.stop()


async def _acks(stand: Stand) -> AsyncGenerator[None, None]:
    """Each strike is Acks up the stream of the four calls, every second one garbage, and a message of the child."""
    unknown = pb.Ack(uuid="nobody", src=position("Worker/80/0")).SerializeToString()
    async with LinkChild("Worker/80/0", tasknet.NAME, without=FOREIGN) as child:
        await child.join(stand.address)
        header = pb.MessageHeader(mtype="raw", sync=False, src=position(child.place), dst=position("Mgr/0"))
        yield
        for number in count():
            for _ in range(ACKS // 2):
                await child.write(unknown)
                await child.write(_GARBAGE)
            header.uuid = f"raw-{number}"
            assert (await child.call("TransferMessage", pb.Message(header=header).SerializeToString())).code in (
                0,
                5001,
            )
            assert stand.log_bytes() < MIB
            yield


ATTACKS: Final[Mapping[str, Attack]] = {
    "answers": Attack(
        f"batches of {2 * BATCH_ANSWERS_READ:,} answers to messages that nobody sent",
        "dropped; the stream stays",
        _many,
    ),
    "answers-untaken": Attack(
        "messages without an end, whose answers are not confirmed", "the stream ends, one line", _untaken
    ),
    "answers-untaken-from-above": Attack(
        "the same, downwards", "the child leaves, and joins again", _untaken_from_above, from_above=True
    ),
    "answers-untaken-from-above-by-calls": Attack(
        "messages down the stream of the four calls, whose Acks are not read",
        "the child leaves, and joins again",
        partial(_untaken_from_above, kind="tasknet", reads=False),
        from_above=True,
    ),
    "acks": Attack(
        f"{ACKS:,} Acks up the stream of the four calls, of messages that nobody sent or unreadable",
        "dropped; the stream stays; 10 lines of the log",
        _acks,
    ),
    "direct-answers": Attack(
        f"batches of {2 * BATCH_ANSWERS_READ:,} answers to messages that nobody sent, over a direct link",
        "dropped; the link stays",
        partial(_many, child_at=DirectChild),
    ),
    "direct-answers-untaken": Attack(
        "messages without an end, whose answers are not confirmed, over a direct link",
        "the link ends, one line",
        partial(_untaken, child_at=DirectChild),
    ),
    "direct-answers-untaken-from-above": Attack(
        "the same, downwards", "the child leaves, and joins again", _untaken_from_above_direct, from_above=True
    ),
}
