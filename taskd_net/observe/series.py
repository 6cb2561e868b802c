"""Samples of every node at a fixed step, for the last hour: rings of numbers, bounded in nodes and in time."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from math import isnan, nan
from typing import Final, NamedTuple

from taskd_net.observe.document import Document
from taskd_net.observe.records import Direction


class Sampling(StrEnum):
    """The value of a sample out of the figures since the sample before."""

    RATE = "rate"
    """The change of a counter for each second."""
    MOST = "most"
    LAST = "last"


class Whole(StrEnum):
    """The value of all links together."""

    SUM = "sum"
    MOST = "most"
    NONE = "none"


class Column(NamedTuple):
    """A column of the samples, here and on the status page: `history.js` reads these declarations, too.

    Charts of columns are drawn by hand in `details.js`, because a node's and the mesh's have other headings and curves.

    Attributes:
        name: its key in the document.
        figures: the figures of a node whose sum it shows, each as the direction of its link and the field of that. A
            sum has no times, which may be unknown.
        taken: the value of a sample.
        whole: the value of all links together.
    """

    name: str
    figures: tuple[tuple[str, str], ...]
    taken: Sampling
    whole: Whole


COLUMNS: Final = (
    Column("down", (("down", "messages"),), Sampling.RATE, Whole.SUM),
    Column("up", (("up", "messages"),), Sampling.RATE, Whole.SUM),
    Column("down_p50", (("down", "ack_p50"),), Sampling.LAST, Whole.NONE),
    Column("down_p99", (("down", "ack_p99"),), Sampling.MOST, Whole.MOST),
    Column("in_flight", (("down", "in_flight"), ("up", "in_flight")), Sampling.MOST, Whole.SUM),
    Column("up_p99", (("up", "ack_p99"),), Sampling.MOST, Whole.MOST),
)
"""Messages a second to and from the node, seconds until its answers, messages in flight both ways, and seconds until
the answers to it."""

FIELDS: Final = tuple(column.name for column in COLUMNS)

COUNTED_ABOVE: Final = ("messages", "bytes")
"""Figures of a link to the parent that the parent counts; the others are the node's own."""


def _reader() -> Callable[[Direction, Direction, Direction], list[float | None]]:
    """A function that is compiled, as those of `fields`: each look reads the figures of all nodes."""
    sums = []
    for column in COLUMNS:
        sides = ["counted" if way == "up" and name in COUNTED_ABOVE else way for way, name in column.figures]
        sums.append(" + ".join(f"{side}.{name}" for side, (_, name) in zip(sides, column.figures, strict=True)))
    read: Callable[[Direction, Direction, Direction], list[float | None]]
    read = eval(f"lambda down, up, counted: [{', '.join(sums)}]")  # noqa: S307 - names of our own fields
    return read


figures: Final = _reader()
"""The figures of a node now, by column, out of its link down, its own side of the link up, and the parent's side."""

WHOLE: Final = ""
"""The name of the sums over all links, which no node has."""

GAP_STEPS: Final = 2.5
"""Steps between two samples from which on there is a gap between them."""

_UNKNOWN: Final = array("f", [nan] * len(FIELDS))


class _Ring:
    __slots__ = ("last", "values")

    def __init__(self, samples: int, number: int) -> None:
        self.values = _UNKNOWN * samples
        self.last = number


class Series:
    """The samples of all nodes.

    Args:
        step: seconds between two samples.
        samples: of each node at most; older ones are dropped.
        nodes: with samples at most; further ones have none until another is forgotten.
    """

    def __init__(self, step: float, samples: int, nodes: int) -> None:
        self.step = step
        # One more, which is being written.
        self._places = samples + 1
        self._nodes = nodes
        self._times = array("d", [nan] * self._places)
        self._taken = 0
        self._rings: dict[str, _Ring] = {}

    def __len__(self) -> int:
        """The nodes with samples."""
        return len(self._rings) - (WHOLE in self._rings)

    @property
    def last(self) -> float:
        """The time of the last sample; minus infinity before the first."""
        return self._times[(self._taken - 1) % self._places] if self._taken else float("-inf")

    def move(self, by: float) -> None:
        """Move the times of all samples by some seconds."""
        self._times = array("d", (time + by for time in self._times))

    def put(self, name: str, values: Sequence[float]) -> None:
        """Set a node's part of the sample that is being written; NaN stands for an unknown value."""
        ring = self._rings.get(name)
        if ring is None:
            if name != WHOLE and len(self) >= self._nodes:
                return
            ring = self._rings[name] = _Ring(self._places, self._taken)
        ring.last = self._taken
        at = self._taken % self._places * len(FIELDS)
        ring.values[at : at + len(FIELDS)] = array("f", values)

    def end(self, now: float) -> None:
        """End the sample that is being written: nodes that are not in it have no values at this time.

        Args:
            now: its time, in seconds since the epoch.
        """
        place = self._taken % self._places
        at = place * len(FIELDS)
        for name, ring in list(self._rings.items()):
            if ring.last != self._taken:
                ring.values[at : at + len(FIELDS)] = _UNKNOWN
                if self._taken - ring.last >= self._places - 1:
                    del self._rings[name]
        self._times[place] = now
        self._taken += 1

    def of(self, name: str, since: float) -> Document:
        """The samples of one node after `since`, oldest first, as columns.

        Returns:
            `times` in seconds since the epoch, and a column for each of FIELDS. None stands for an unknown value. A
            gap has a time of its own, with no value in any column.
        """
        ring = self._rings.get(name)
        times: list[float] = []
        rows: list[Sequence[float]] = []
        for at in self._known():
            time = self._times[at]
            if time <= since:
                continue
            if times and time - times[-1] > GAP_STEPS * self.step:
                times.append((times[-1] + time) / 2)
                rows.append(_UNKNOWN)
            times.append(time)
            rows.append(_UNKNOWN if ring is None else ring.values[at * len(FIELDS) : (at + 1) * len(FIELDS)])
        columns = {field: [_rounded(row[number]) for row in rows] for number, field in enumerate(FIELDS)}
        return {"times": [round(time, 3) for time in times], **columns}

    def _known(self) -> Iterator[int]:
        """The places of the samples, oldest first."""
        for number in range(max(0, self._taken - self._places + 1), self._taken):
            yield number % self._places


def _rounded(value: float) -> float | None:
    return None if isnan(value) else float(f"{value:.4g}")
