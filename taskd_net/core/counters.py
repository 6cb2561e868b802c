"""Counters of one node: outcomes of messages, and the loads of its links, also of those that are forgotten."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from taskd_net.base.codes import Code
from taskd_net.core.acks import Awaited
from taskd_net.core.link_counters import LinkCounters, Outcomes, bucket_of
from taskd_net.core.links import UP, Link

Way: TypeAlias = Literal["up", "down", "inbox", "refused"]
"""To the parent; to a child; into this node's own inbox; nowhere, as this node knew no way or could not use it."""

WAYS: Final[tuple[Way, ...]] = ("up", "down", "inbox", "refused")

BATCH_SIZES: Final = 10
"""Classes of batch size, by the bits of the number: none, 1, 2 to 3, 4 to 7, and so on; the last has all above 255."""


class Counters:
    """The counters of one node.

    Attributes:
        outcomes: of messages, by the way that they went.
        batches: writes by the number of messages in them, `int.bit_length` of it.
        forgotten: what was on links of children that are known no more.
        joins, losses: of children.
        broadcasts: broadcasts and multicasts that came by here.
    """

    def __init__(self) -> None:
        self.outcomes: dict[Way, Outcomes] = {way: Outcomes() for way in WAYS}
        self.batches = [0] * BATCH_SIZES
        self.forgotten = LinkCounters()
        self.joins = 0
        self.losses = 0
        self.broadcasts = 0

    def arrived(self, now: float, link: Link, messages: int, size: int) -> None:
        """Messages with `size` bytes in all came in on a link."""
        counters = link.counters
        counters.received += messages
        counters.received_bytes += size
        counters.heard = now

    def written(self, link: Link, messages: int, size: int) -> None:
        """Messages with `size` bytes in all went out on a link, in one write."""
        link.counters.sent += messages
        link.counters.sent_bytes += size
        self.batches[min(messages.bit_length(), BATCH_SIZES - 1)] += 1

    def accepted(self, now: float, link: Link, messages: int) -> None:
        """So many messages on a link were answered with 0."""
        link.counters.heard = now
        if messages:
            self.outcomes[_way(link)].count(0, messages)

    def answered(self, now: float, link: Link, part: Awaited, code: int) -> None:
        """A message on a link was answered by the other end."""
        link.counters.heard = now
        self.ended(now, link, part, code)

    def ended(self, now: float, link: Link, part: Awaited, code: int) -> None:
        """A message on a link has its outcome, by an answer or without one."""
        if part is link.timed or (type(link.timed) is int and not link.in_flight.holds(link.timed)):
            self.timed(now, link)
        if code >= Code.NIL_MESSAGE:
            self.failed(link, code)
        else:  # 0, or where a probe has ended: it was answered
            self.outcomes[_way(link)].count(0)

    def failed(self, link: Link, code: int) -> None:
        """A message that was to go over a link will not be delivered, or nobody knows."""
        link.counters.failed += 1
        self.outcomes[_way(link)].count(code)

    def timed(self, now: float, link: Link) -> None:
        """The message that is being timed on a link has its outcome."""
        seconds = now - link.timed_at
        link.timed = None
        bucket = bucket_of(seconds)
        link.counters.recent.add(seconds, bucket)
        self.outcomes[_way(link)].latency.add(seconds, bucket)


def _way(link: Link) -> Way:
    return "up" if link.id == UP else "down"
