"""The batched link of a node that traces messages: it says of which span each comes, in a field of its own.

A link of its own and not a case in the other one, so that without tracing no message pays for it. A node that does not
trace passes no spans on: what lies behind it is not in the trace.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from taskd_net.core.acks import Reply
from taskd_net.core.frame import Frame, Traced
from taskd_net.core.router import Arrival
from taskd_net.core.routes import LinkId
from taskd_net.links.batched import BatchedLink
from taskd_net.links.host import Host
from taskd_net.links.quota import Quota
from taskd_net.links.session import Pipe
from taskd_net.position import Position
from taskd_net.wire.batches import Batch, read_spans, write_spans


class Tracer(Protocol):
    """The spans of one node: each message of a traced send gets one here."""

    def sent(self, frame: Frame, reply: Reply) -> tuple[Frame, Reply]:
        """Begin the span of a message of the application's own; the answer ends it."""

    def arrived(self, frame: Frame, headers: Mapping[str, str], reply: Reply | None) -> tuple[Frame, Reply | None]:
        """Begin the span of a message that came in, below the neighbour's; this node's answer ends it."""


def batched_link(
    host: Host,
    link: LinkId,
    peer: Position,
    pipe: Pipe,
    tracer: Tracer | None,
    quota: Quota | None = None,
    *,
    numbered: bool = False,
    counts: bool = False,
) -> BatchedLink:
    """The batched link of a node with, or without, tracing."""
    if tracer is None:
        return BatchedLink(host, link, peer, pipe, quota, numbered=numbered, counts=counts)
    return TracedLink(host, link, peer, pipe, tracer, quota, numbered=numbered, counts=counts)


class _Behind:
    """A stream on which something is written behind the next batch."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self.behind = b""

    async def read(self) -> bytes | None:
        return await self._pipe.read()

    async def write(self, data: bytes) -> bool:
        behind, self.behind = self.behind, b""
        return await self._pipe.write(data + behind)

    async def finish(self) -> None:
        await self._pipe.finish()


class TracedLink(BatchedLink):
    """Either end of the link."""

    def __init__(
        self,
        host: Host,
        link: LinkId,
        peer: Position,
        pipe: Pipe,
        tracer: Tracer,
        quota: Quota | None = None,
        *,
        numbered: bool = False,
        counts: bool = False,
    ) -> None:
        self._behind = _Behind(pipe)
        super().__init__(host, link, peer, self._behind, quota, numbered=numbered, counts=counts)
        self._tracer = tracer
        self._spans: Mapping[str, Mapping[str, str]] = {}

    def _take_batch(self) -> tuple[list[Frame], list[int], list[int], int]:
        frames, patience, numbers, size = super()._take_batch()
        traced = [(frame.uuid, frame.span) for frame in frames if isinstance(frame, Traced) and frame.span]
        self._behind.behind = write_spans(traced) if traced else b""
        return frames, patience, numbers, size

    def _take_in(self, data: bytes) -> None:
        self._spans = read_spans(data)
        super()._take_in(data)

    def _arrivals(self, batch: Batch) -> Iterator[Arrival]:
        spans = self._spans
        for frame, reply, budget in super()._arrivals(batch):
            headers = spans.get(frame.uuid)
            if headers is None or type(frame) is not Frame:
                yield frame, reply, budget
            else:
                yield (*self._tracer.arrived(frame, headers, reply), budget)
