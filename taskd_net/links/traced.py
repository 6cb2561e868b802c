"""The batched link of a node that traces messages: it says of which span each comes, in a field of its own.

A link of its own and not a case in the other one, so that without tracing no message pays for it. A node that does not
trace passes no spans on: what lies behind it is not in the trace.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, Self, TypeAlias

from taskd_net.codes import Code, Refusal
from taskd_net.core.frame import Frame, Traced
from taskd_net.core.ready import Key, Ready, Writes
from taskd_net.core.routes import LinkId
from taskd_net.links.batched import BatchedLink
from taskd_net.links.host import Host
from taskd_net.links.session import Pipe
from taskd_net.position import Position
from taskd_net.wire.batches import read_spans, write_spans

End: TypeAlias = Callable[[int, Position], None]
"""Ends a span with the code of the answer and the position that it comes from."""


class Tracer(Protocol):
    """The spans of one node: each message of a traced send gets one here."""

    def sent(self, frame: Frame) -> tuple[Frame, End]:
        """Begin the span of a message of the application's own; the answer ends it."""

    def arrived(self, frame: Frame, headers: Mapping[str, str], *, awaited: bool) -> tuple[Frame, End | None]:
        """Begin the span of a message that came in, below the neighbour's; this node's answer ends it."""


def batched_link(
    host: Host,
    link: LinkId,
    peer: Position,
    pipe: Pipe,
    tracer: Tracer | None,
    *,
    numbered: bool = False,
    counts: bool = False,
) -> BatchedLink:
    """The batched link of a node with, or without, tracing."""
    if tracer is None:
        return BatchedLink(host, link, peer, pipe, numbered=numbered, counts=counts)
    return TracedLink(host, link, peer, pipe, tracer, numbered=numbered, counts=counts)


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
        *,
        numbered: bool = False,
        counts: bool = False,
    ) -> None:
        self._behind = _Behind(pipe)
        super().__init__(host, link, peer, self._behind, numbered=numbered, counts=counts)
        self._tracer = tracer
        self._spans: Mapping[str, Mapping[str, str]] = {}
        # The ends of the spans of messages that this node has not answered.
        self._ends: dict[Key, End] = {}

    def write(self, writes: Writes) -> None:
        """Queue messages and answers; the answers end their spans."""
        if self._ends:
            here = self._router.position
            outcomes = [(key, int(Code.OK), here) for key in writes.accepted]
            outcomes += [(key, ack.code, ack.src) for key, ack, _ in writes.answers]
            for key, code, src in outcomes:
                end = self._ends.pop(key, None)
                if end is not None:
                    end(code, src)
        super().write(writes)

    def _move_queue(self, successor: Self) -> None:
        super()._move_queue(successor)
        successor._ends, self._ends = self._ends, {}

    def _take_batch(self) -> tuple[list[Frame], list[int], list[int]]:
        frames, patience, numbers = super()._take_batch()
        traced = [(frame.uuid, frame.span) for frame in frames if isinstance(frame, Traced) and frame.span]
        self._behind.behind = write_spans(traced) if traced else b""
        return frames, patience, numbers

    def _take_in(self, data: bytes) -> None:
        self._spans = read_spans(data)
        super()._take_in(data)

    def _arrived(
        self,
        now: float,
        frames: list[Frame],
        keys: Sequence[Key | None],
        budgets: list[float],
        refused: Sequence[tuple[Key, Refusal]],
    ) -> Ready:
        for index, (frame, key) in enumerate(zip(frames, keys, strict=True)):
            headers = self._spans.get(frame.uuid)
            if headers is not None and type(frame) is Frame:
                frames[index], end = self._tracer.arrived(frame, headers, awaited=key is not None)
                if end is not None and key is not None:
                    (self.successor or self)._ends[key] = end
        return super()._arrived(now, frames, keys, budgets, refused)
