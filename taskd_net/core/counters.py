"""Counters of one node and its links: traffic, outcomes of messages, answer times. They cost a message almost nothing.

Messages and bytes are counted for each batch. Times are sampled: of the messages in flight on a link one at a time is
timed, a hundred in a second at most. So nearly every message pays for two comparisons.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import ceil, log2
from typing import Final, Literal, TypeAlias

Way: TypeAlias = Literal["up", "down", "inbox", "refused"]
"""To the parent; to a child; into this node's own inbox; nowhere, as this node knew no way or could not use it."""

WAYS: Final[tuple[Way, ...]] = ("up", "down", "inbox", "refused")

BATCH_SIZES: Final = 10
"""Classes of batch size, by the bits of the number: none, 1, 2 to 3, 4 to 7, and so on; the last has all above 255."""

PER_OCTAVE: Final = 4
"""Buckets for each doubling of the time: a quantile is right within a tenth."""

SHORTEST_S: Final = 2.0**-14
"""Upper bound of the first bucket, in seconds: 61 µs, less than any round trip through gRPC takes."""

OCTAVES: Final = 20
"""Doublings from the first bucket to the last, whose upper bound is 64 s; what takes longer is in one more."""

_BUCKETS: Final = PER_OCTAVE * OCTAVES + 2


@dataclass(slots=True)
class Statistics:
    """Counters since the node was made. `violations`: claims of peers that are not theirs to make."""

    sent: int = 0
    forwarded: int = 0
    delivered: int = 0
    duplicates: int = 0
    late_acks: int = 0
    lost: int = 0
    violations: int = 0


class Counters:
    """The counters of one node.

    Attributes:
        outcomes: of messages, by the way that they went. A link has the one of its way.
        forgotten: what was on links of children that are known no more.
        joins, losses: of children.
        broadcasts: broadcasts and multicasts that came by here.
    """

    def __init__(self) -> None:
        self.outcomes: dict[Way, Outcomes] = {way: Outcomes() for way in WAYS}
        self.forgotten = LinkCounters()
        self.joins = 0
        self.losses = 0
        self.broadcasts = 0

    @property
    def batches(self) -> list[int]:
        """Writes on all links by the number of messages in them, `int.bit_length` of it."""
        return [up + down for up, down in zip(self.outcomes["up"].batches, self.outcomes["down"].batches, strict=True)]


def bucket_of(seconds: float) -> int:
    """The bucket of a time."""
    return 0 if seconds <= SHORTEST_S else min(ceil(PER_OCTAVE * log2(seconds / SHORTEST_S)), _BUCKETS - 1)


@dataclass(slots=True, eq=False)
class Latency:
    """A histogram of times. Its memory is that of its buckets, some 700 bytes, from the first time on."""

    count: int = 0
    total: float = 0.0
    _buckets: list[int] | None = None

    def add(self, seconds: float, bucket: int) -> None:
        """Take in one time, and the bucket that it belongs to."""
        if self._buckets is None:
            self._buckets = [0] * _BUCKETS
        self._buckets[bucket] += 1
        self.count += 1
        self.total += seconds

    def quantile(self, share: float) -> float | None:
        """The time, in seconds, that this share of the times is not above; None where there are none."""
        need = share * self.count
        for index, number in enumerate(self._buckets or ()):
            need -= number
            if number and need <= 0.0:
                # The middle of the bucket, as its bounds are a fifth apart.
                return float(SHORTEST_S * 2.0 ** ((index - 0.5) / PER_OCTAVE))
        return None

    def octaves(self) -> Iterator[tuple[float, int]]:
        """For each octave its upper bound in seconds, and how many times are not above that."""
        buckets = self._buckets or [0] * _BUCKETS
        below = buckets[0]
        yield SHORTEST_S, below
        for octave in range(OCTAVES):
            first = 1 + octave * PER_OCTAVE
            below += sum(buckets[first : first + PER_OCTAVE])
            yield SHORTEST_S * 2.0 ** (octave + 1), below

    def clear(self) -> None:
        """Forget all times."""
        self._buckets, self.count, self.total = None, 0, 0.0


@dataclass(slots=True, eq=False)
class LinkCounters:
    """Counters of one link, or of several together.

    Attributes:
        sent, sent_bytes: messages that were written.
        received, received_bytes: messages that came in.
        failed: messages that were to go over it and whose outcome was another than 0.
        heard: when the last message or answer came in, on the Router's clock; minus infinity: never.
        recent: times from sending to the answer, since whoever looks at them has last cleared them.
    """

    sent: int = 0
    sent_bytes: int = 0
    received: int = 0
    received_bytes: int = 0
    failed: int = 0
    heard: float = float("-inf")
    recent: Latency = field(default_factory=Latency)

    def arrived(self, now: float, messages: int, size: int) -> None:
        """Messages with `size` bytes in all came in."""
        self.received += messages
        self.received_bytes += size
        self.heard = now

    def add(self, other: LinkCounters) -> None:
        """Take in the counters of another."""
        self.sent += other.sent
        self.sent_bytes += other.sent_bytes
        self.received += other.received
        self.received_bytes += other.received_bytes
        self.failed += other.failed


@dataclass(slots=True, eq=False)
class Outcomes:
    """The outcomes of the messages of one way, with their answer times and the writes that they went out in.

    Attributes:
        by_code: messages by the code of their answer.
        latency: times from sending to the answer; sampled.
        batches: writes by the number of messages in them, `int.bit_length` of it.
    """

    by_code: dict[int, int] = field(default_factory=dict)
    latency: Latency = field(default_factory=Latency)
    batches: list[int] = field(default_factory=lambda: [0] * BATCH_SIZES)

    def count(self, code: int, messages: int = 1) -> None:
        """So many messages were answered with a code."""
        self.by_code[code] = self.by_code.get(code, 0) + messages
