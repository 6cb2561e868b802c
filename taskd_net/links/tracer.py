"""The tracer of a node, as links and sends use it; it is implemented above."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

from taskd_net.core.frame import Frame
from taskd_net.position import Position

End: TypeAlias = Callable[[int, Position], None]
"""Ends a span with the code of the answer and the position that it comes from."""


class Tracer(Protocol):
    """The spans of one node: each message of a traced send gets one here."""

    def sent(self, frame: Frame) -> tuple[Frame, End]:
        """Begin the span of a message of the application's own; the answer ends it."""

    def arrived(self, frame: Frame, headers: Mapping[str, str], *, awaited: bool) -> tuple[Frame, End | None]:
        """Begin the span of a message that came in, below the neighbour's; this node's answer ends it."""
