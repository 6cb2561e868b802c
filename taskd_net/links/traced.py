"""The batched link of a node that traces messages: a field of its own names the span that each comes from.

It is a subclass, so that without tracing no message pays for it. A node that does not trace passes no spans on, and the
trace ends there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

from taskd_net.codes import Code, Refusal
from taskd_net.core.frame import Frame, Traced
from taskd_net.core.ready import Key, Ready, Writes
from taskd_net.core.routes import LinkId
from taskd_net.links.batched import BatchedLink
from taskd_net.links.session import End, Host, Pipe, Tracer
from taskd_net.position import Position
from taskd_net.wire.batches import read_spans, write_span
from taskd_net.wire.link_pb2 import Batch


class TracedLink(BatchedLink):
    """Either end of the link."""

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
        self._headers: Mapping[str, Mapping[str, str]] = {}
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
        traced = (frame for frame in frames if isinstance(frame, Traced) and frame.span)
        self._spans = [write_span(frame.uuid, frame.span) for frame in traced]
        return frames, patience, numbers

    def _read_messages(self, now: float, batch: Batch) -> Ready:
        self._headers = read_spans(batch.spans)
        return super()._read_messages(now, batch)

    def _arrived(
        self,
        now: float,
        frames: list[Frame],
        keys: Sequence[Key | None],
        budgets: list[float],
        refused: Sequence[tuple[Key, Refusal]],
    ) -> Ready:
        for index, (frame, key) in enumerate(zip(frames, keys, strict=True)):
            headers = self._headers.get(frame.uuid)
            if headers is not None and type(frame) is Frame:
                frames[index], end = self._tracer.arrived(frame, headers, awaited=key is not None)
                if end is not None and key is not None:
                    (self.successor or self)._ends[key] = end
        return super()._arrived(now, frames, keys, budgets, refused)
