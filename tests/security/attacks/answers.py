"""Answers: more of them at once than any other batch, and those that nobody takes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from itertools import count
from typing import Any, Final

from taskd_net.core.ready import Reason
from taskd_net.limits import ANSWERS_UNTAKEN
from taskd_net.link_limits import BATCH_ANSWERS_READ
from taskd_net.peer_limits import Limits
from taskd_net.wire.link_pb2 import Batch
from tests.peers.floods import FloodingChild, FloodingParent, batch
from tests.peers.links import LinkChild
from tests.peers.stubs import pb, position
from tests.security.attacks.attack import Attack
from tests.security.bystander.stand import Stand

FLOOD: Final = 40 * (Limits().child_messages + ANSWERS_UNTAKEN)
"""Messages of a child, far more than those whose answers may wait for it."""


async def _many(stand: Stand) -> AsyncGenerator[None, None]:
    """A child writes as many answers as a batch may have, to messages that nobody sent, and one message of its own."""
    ack = pb.Ack(code=5001, src=position("Worker/80/0")).SerializeToString()
    numbers = range(2**31, 2**31 + BATCH_ANSWERS_READ)
    said = Batch(answers=[ack] * BATCH_ANSWERS_READ, answer_numbers=numbers, accepted_numbers=numbers)
    async with LinkChild("Worker/80/0") as child:
        await child.join(stand.address)
        yield
        for first in count(1):
            message = Batch.FromString(batch(first, 1, "Worker/80/0", "Mgr/0"))
            message.MergeFrom(said)
            message.taken = 1
            await child.write(message.SerializeToString())
            async with asyncio.timeout(60.0):
                while not Batch.FromString(await child.stream.read()).accepted_numbers:
                    pass
            yield


async def _untaken(stand: Stand) -> AsyncGenerator[None, None]:
    """A child floods its parent, and confirms no answer, until its stream ends. It comes back in another place."""
    for rank in count():
        async with FloodingChild(f"Worker/80/{rank}") as child:
            await child.join(stand.address)
            if not rank:
                yield
            reading = asyncio.create_task(child.ended())
            assert not await child.flood("Mgr/0", FLOOD), "the parent took it all"
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


async def _untaken_from_above(stand: Stand) -> AsyncGenerator[None, None]:
    """A parent floods its child, and confirms no answer; the child ends the stream, and joins again."""
    parent = _Parent("Proxy/0", "batched", reads=True)
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
}
