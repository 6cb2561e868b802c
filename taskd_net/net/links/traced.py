"""The batched link of a node that traces messages: a field of its own names the span that each comes from.

It is a subclass, so that without tracing no message pays for it. A node that does not trace passes no spans on, and the
trace ends there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from taskd_net.base.codes import Code
from taskd_net.base.position import Position
from taskd_net.core.frame import Frame, Traced
from taskd_net.core.ready import Key, Writes
from taskd_net.core.routes import LinkId
from taskd_net.net.links.batched import BatchedLink
from taskd_net.net.links.session import End, Host, Pipe, Tracer
from taskd_net.net.wire.batches import read_spans, write_span
from taskd_net.net.wire.link_pb2 import Batch


class TracedLink(BatchedLink):
    """Either end of the link."""

    traces = True

    def __init__(
        self,
        host: Host,
        link: LinkId,
        peer: Position,
        pipe: Pipe[bytes],
        tracer: Tracer,
        *,
        numbered: bool = False,
        counts: bool = False,
    ) -> None:
        super().__init__(host, link, peer, pipe, numbered=numbered, counts=counts)
        self._tracer = tracer
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

    def _take_batch(self, batch: Batch, count: int) -> list[Frame]:
        frames = super()._take_batch(batch, count)
        traced = (frame for frame in frames if isinstance(frame, Traced) and frame.span)
        batch.spans.extend(write_span(frame.uuid, frame.span) for frame in traced)
        return frames

    def _trace(self, frames: list[Frame], keys: Sequence[Key | None], batch: Batch) -> None:
        spans = read_spans(batch.spans)
        for index, (frame, key) in enumerate(zip(frames, keys, strict=True)):
            headers = spans.get(frame.uuid)
            if headers is not None and type(frame) is Frame:
                frames[index], end = self._tracer.arrived(frame, headers, awaited=key is not None)
                if end is not None and key is not None:
                    (self.successor or self)._ends[key] = end
