"""Messages in the form that a neighbour with quirks understands.

Source: docs/interop.md.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from itertools import product

from taskd_net.base.position import ALL, NO_PROCESS, Destination, Position, Role
from taskd_net.core.frame import Adapted, Frame
from taskd_net.core.links import Link
from taskd_net.core.quirks import Quirks
from taskd_net.core.routes import Routes


def copies(link: Link, quirks: Quirks, frame: Frame, routes: Routes, here: Position) -> list[Frame]:
    """The messages that take the place of a broadcast or multicast on a link.

    Args:
        link: the link; the messages keep the uuid, so that each receiver knows a resend.
        quirks: its.
        frame: the message.
        routes: who is known below this node.
        here: this node's identity.
    """
    dst = frame.dst
    if "," in dst.position.server_rank or "," in dst.position.process_rank:
        if quirks.reads_lists:
            return [frame]
        frame = _asked(frame, quirks.acks_lists)
        return [_for_one(link, frame, node) for node in _named(link, frame, routes, here)] or [frame]
    return [_asked(frame, quirks.acks_broadcasts)]


def _asked(frame: Frame, answered: bool) -> Frame:
    """The message, with `sync=false` where nobody answers it."""
    return frame if answered or not frame.sync else Adapted(frame.uuid, False, frame.src, frame.dst, frame.data)


def spelled(link: Link, frame: Frame) -> Frame:
    """The message as the neighbour wants it addressed: by the very fields that the receiver was announced with."""
    known = link.spellings.get(frame.dst.position)
    return frame if known is None else _for_one(link, frame, frame.dst.position)


def _for_one(link: Link, frame: Frame, node: Position) -> Frame:
    dst = Destination.of(node)
    if node in link.spellings:
        dst = replace(dst, position=link.spellings[node])
    return Adapted(frame.uuid, frame.sync, frame.src, dst, frame.data)


def _named(link: Link, frame: Frame, routes: Routes, here: Position) -> list[Position]:
    """The destinations of a list behind a link, rank by rank; none where the list is ambiguous."""
    dst, sender = frame.dst, frame.src.identity
    if link.is_child:
        return sorted(node for node in routes.behind(link.id) if dst.matches(node) and node != sender)
    # Only the root knows which ranks of a product of two lists exist. Such a list goes up as it is.
    role, servers, processes = dst.position.role, sorted(dst.servers or (ALL,)), sorted(dst.processes or (ALL,))
    if role != Role.WORKER:
        processes = [NO_PROCESS]
    if min(len(servers), len(processes)) > 1:
        return []
    named = [Position(role, *rank) for rank in product(servers, processes)]
    return [node for node in named if not _is_here(Destination.of(node), routes, (here, sender))]


def _is_here(dst: Destination, routes: Routes, others: tuple[Position, Position]) -> bool:
    """True if the one rank that is meant is on this side already."""
    if dst.position.process_rank == ALL:
        return False
    return bool(routes.receivers(dst)) or any(dst.matches(node) for node in others)


class Copies:
    """Knows the broadcasts that came, or left, on a link that carries one copy for each receiver.

    For some seconds only: a sender that repeats the message later has a reason.
    """

    def __init__(self, window: int, seconds: float) -> None:
        self._window = window
        self._seconds = seconds
        self._known: set[tuple[str, Position, Position]] = set()
        self._order: deque[tuple[float, tuple[str, Position, Position]]] = deque()

    def add(self, now: float, frame: Frame) -> bool:
        """Remember a message. Returns False when it was known."""
        order = self._order
        while order and (order[0][0] <= now - self._seconds or len(order) >= self._window):
            self._known.discard(order.popleft()[1])
        key = (frame.uuid, frame.src, frame.dst.position)
        if key in self._known:
            return False
        self._known.add(key)
        order.append((now, key))
        return True
