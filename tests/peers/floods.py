"""Peers that write batches of messages without a pause, wait for no answer, and confirm nothing."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any, Self

from taskd_net.net.links import batched
from taskd_net.net.links import peer as peers
from taskd_net.net.wire import link_pb2
from tests.peers.links import LinkChild, LinkParent
from tests.peers.stubs import pb, position

SAYS = peers.own_metadata()


def batch(first: int, count: int, src: str, dst: str, *, sync: bool = True, wait: int = 3000) -> bytes:
    """A batch of small messages, numbered from `first`."""
    header = pb.MessageHeader(mtype="raw", sync=sync, src=position(src), dst=position(dst), createTime=1)
    made = link_pb2.Batch()
    for number in range(first, first + count):
        header.uuid = f"raw-{number}"
        made.messages.append(pb.Message(header=header, body="x").SerializeToString())
        made.patience.append(wait)
        made.numbers.append(number)
    data: bytes = made.SerializeToString()
    return data


class FloodingChild(LinkChild):
    """A child on a batched link."""

    async def flood(self, to: str, messages: int, *, in_batch: int = 256) -> bool:
        """Write messages as fast as the parent reads. Returns False when it has ended the stream."""
        return await flood(self, to, messages, in_batch)


async def flood(child: LinkChild, to: str, messages: int, in_batch: int = 256) -> bool:
    """Write messages of a child as fast as its parent reads. Returns False when that has ended the stream."""
    for first in range(1, messages, in_batch):
        await child.write(batch(first, in_batch, child.place, to))
        if child.over():
            return False
    return True


class FloodingParent(LinkParent):
    """A Mgr on either kind of link.

    Args:
        to: the child.
        kind: of link.
        reads: whether it reads what the child writes.
    """

    def __init__(self, to: str, kind: str, *, reads: bool) -> None:
        # It buffers 64 KiB of what it does not read.
        super().__init__(kind, options=[("grpc.http2.bdp_probe", 0)])
        self._to = to
        self._batched = kind == batched.NAME
        self._reads = reads

    async def serve(self, _: object, context: Any) -> None:
        """Flood the stream until the end."""
        over = self._over
        await context.send_initial_metadata(peers.joined_metadata(True))
        tasks = [asyncio.create_task(self._flood(context))]
        if self._reads:
            tasks.append(asyncio.create_task(self.drain(context)))
        try:
            await over.wait()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _flood(self, context: Any) -> None:
        for first in count(1, 256):
            data = batch(first, 256, "Mgr/0", self._to)
            for one in (data,) if self._batched else link_pb2.Batch.FromString(data).messages:
                await self.write(context, one)
            if context.done():
                return

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
