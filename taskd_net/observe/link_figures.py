"""Figures of one link of a node, for its view of the mesh."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from taskd_net.base.states import State
from taskd_net.core.links import Link
from taskd_net.net.links.session import Session
from taskd_net.observe.records import Flow, NodeStatus

LATELY_S: Final = 10.0
"""Seconds for which the time that answers took is shown after the last one."""


@dataclass(slots=True)
class Seen:
    """One link at the last look: its status without the time of the figures, that time, and recent answer times.

    `marks` differ if the status does. Nearly every link is idle, and comparing them takes half the time of a status.
    """

    measured: float
    marks: tuple[object, ...] = ()
    status: NodeStatus | None = None
    at: float = 0.0
    acks: tuple[float | None, float | None] = (None, None)


def sent(now: float, link: Link, seen: Seen, every: float) -> Flow:
    """The side of a link that this node writes to. Its answer times are those of `every` seconds at least."""
    counters = link.counters
    acks = _acks(now, link, seen, every)
    return Flow(counters.sent, counters.sent_bytes, counters.failed, link.in_flight.count, link.queued_messages, *acks)


def _acks(now: float, link: Link, seen: Seen, every: float) -> tuple[float | None, float | None]:
    """Recent answer times in seconds: p50 and p99."""
    recent = link.counters.recent
    if recent.count and (seen.acks[0] is None or now - seen.measured >= every):
        seen.acks = (recent.quantile(0.5), recent.quantile(0.99))
        seen.measured = now
        recent.clear()
    elif now - seen.measured > LATELY_S:
        seen.acks = (None, None)
    return seen.acks


def standing(link: Link) -> State | None:
    """The state of a child whose stream stands; None for any other."""
    if not link.up:
        return None
    return State.NOT_ANSWERING if link.silent else State.JOINED


def why(link: Link) -> str:
    """The reason for which a link is of no better kind; empty where there is none, or no link."""
    return link.session.why if isinstance(link.session, Session) else ""


def upstream_in_use(link: Link) -> str:
    """The address of the upstream in use, where several are given; empty elsewhere."""
    return link.session.upstream if isinstance(link.session, Session) else ""


def kind(link: Link) -> str:
    """The kind of a link; empty without a stream."""
    return link.session.kind if isinstance(link.session, Session) else ""
