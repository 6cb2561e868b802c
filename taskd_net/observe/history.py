"""The last hour of a mesh: samples of every node, and the events that led to its state.

It is fed with the statuses of all nodes, again and again, and compares each with the one before. A change between two
looks is found by the time at which the state began: a node that was lost and has joined since has another one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan, nan
from typing import Final

from taskd_net.base import limits
from taskd_net.base.position import Position
from taskd_net.base.states import State
from taskd_net.observe.document import ABSENT, Document, Standing, standings_of
from taskd_net.observe.events import EventLog, NodeEvent
from taskd_net.observe.fields import document_of
from taskd_net.observe.records import NodeStatus, RefusedRegistration
from taskd_net.observe.series import COLUMNS, WHOLE, Sampling, Series, Whole, figures

HISTORY_S: Final = 3600.0
"""Seconds of which a status page keeps samples, and events of nodes that are not known any more: whoever is called
after an incident looks within the hour."""

SAMPLE_S: Final = 20.0
"""Seconds between two samples of the history: 180 in the hour, which a plot of 300 pixels can show."""

NODES: Final = 4096
"""Nodes with samples: 4 KiB each."""

EVENTS_EACH: Final = 32
"""Events of one node that are kept: one that is lost and joins again every minute fills it in a quarter of an hour."""

EVENTS: Final = 20_000
"""Events of all nodes that are kept: ten of each of 2,000. The oldest make room."""

TEXT_BYTES: Final = 2 * 1024 * 1024
"""Bytes of the texts of all events, some of which peers choose: a hundred of each in EVENTS."""

STRAINED_S: Final = 10.0
"""Seconds for which each look has to find messages waiting for a node before it counts as strained. `mesh.js` of the
status page has the same number."""

SLICE: Final = 40
"""Nodes that are looked at in one go: about a millisecond, which messages have to wait."""

VERSION: Final = 1
"""Of the document. It is stepped when a field changes its meaning or goes; fields may be added to it."""

_MOST: Final = [number for number, column in enumerate(COLUMNS) if column.taken is Sampling.MOST]
_RATES: Final = [number for number, column in enumerate(COLUMNS) if column.taken is Sampling.RATE]


@dataclass(slots=True)
class _Known:
    """One node: its status and state at the last look, and its figures at the last sample and the most since then."""

    name: str
    status: NodeStatus
    standing: Standing
    waits_since: float | None = None
    counted: tuple[float, list[float]] | None = None
    most: list[float] = field(default_factory=lambda: [nan] * len(COLUMNS))


class History:
    """The last hour of one mesh.

    Args:
        root: the node that keeps it.
        life: tells it from the one of an earlier process at the same address.
        span: seconds of which it keeps samples and events.
        sample: seconds between two samples.
    """

    def __init__(self, root: Position, life: str, span: float = HISTORY_S, sample: float = SAMPLE_S) -> None:
        self._root = root
        self._life = life
        self._span = span
        self.series = Series(sample, round(span / sample), NODES)
        self.events = EventLog(
            EVENTS_EACH,
            EVENTS,
            limits.STATUS_REASON_BYTES,
            TEXT_BYTES,
        )
        self.strained: dict[str, float] = {}
        """The nodes under a strain at the last look, each with the time since which messages have waited for it, in
        seconds since the epoch."""
        self._known: dict[Position, _Known] = {}
        self._stepped = 0.0

    def look(
        self, now: float, found: Mapping[Position, NodeStatus], refused: Sequence[RefusedRegistration] = ()
    ) -> Iterator[None]:
        """Take in the statuses of all nodes.

        Args:
            now: seconds since the epoch.
            found: every node, the root included.
            refused: registrations since the last look.

        Yields:
            After every slice, so that whoever takes the look lets others have their turn.
        """
        standings = standings_of(found)
        yield
        sampled = now - self.series.last >= self.series.step
        whole = [0.0 if column.whole is Whole.SUM else nan for column in COLUMNS]
        for number, (position, status) in enumerate(found.items(), 1):
            if number % SLICE == 0:
                yield
            known = self._compare(now, position, status, standings[position], found)
            values = _figures(known, now, sample=sampled)
            if sampled:
                self.series.put(known.name, values)
                if status.parent is not None and position != self._root:
                    _add(whole, values)
        for position in [position for position in self._known if position not in found]:
            name = self._known.pop(position).name
            self.strained.pop(name, None)
            self.events.add(name, NodeEvent(now, "forgotten"))
        for each in refused:
            # A stranger can claim any position: names that are not known take no room.
            if each.position in self._known:
                self.events.repeat(str(each.position), NodeEvent(each.time, "refused", each.reason))
        if sampled:
            self.series.put(WHOLE, whole)
            self.series.end(now)
            self.events.forget(now - self._span, {known.name for known in self._known.values()})

    def follow(self, stepped: float) -> None:
        """Follow the steps of the clock: each time keeps its distance to the present, and no wait ends by a step.

        Args:
            stepped: seconds by which the clock of the looks and documents has stepped so far.
        """
        by, self._stepped = stepped - self._stepped, stepped
        if by:
            self.series.move(by)
            self.events.move(by)
            for known in self._known.values():
                if known.waits_since is not None:
                    known.waits_since += by
            self.strained = {name: since + by for name, since in self.strained.items()}

    def document(self, now: float, position: Position | None = None) -> Document:
        """The last hour of a node as one JSON object, described in docs/status-page.md.

        Args:
            now: seconds since the epoch.
            position: the node; None for all links together.
        """
        name = WHOLE if position is None else str(position)
        return {
            "version": VERSION,
            "node": str(self._root),
            "position": None if position is None else name,
            "life": self._life,
            "time": round(now, 3),
            "step": self.series.step,
            "series": self.series.of(name, now - self._span),
            "events": [document_of(event) for event in self.events.of(name)],
        }

    def _compare(
        self,
        now: float,
        position: Position,
        status: NodeStatus,
        standing: Standing,
        found: Mapping[Position, NodeStatus],
    ) -> _Known:
        known = self._known.get(position)
        if known is None:
            known = self._known[position] = _Known(str(position), status, standing)
            self.events.add(known.name, _first(now, status, standing, found))
        else:
            for event in _differences(now, known, status, standing, found):
                self.events.add(known.name, event)
            known.status, known.standing = status, standing
        self._strain(now, known)
        return known

    def _strain(self, now: float, known: _Known) -> None:
        """Note the beginning or the end of a strain: an inbox that nobody reads, or messages that wait at each look of
        10 s."""
        joined = known.standing.state is State.JOINED
        reason = _waiting(known.status) if joined else ""
        if not reason:
            known.waits_since = None
            if self.strained.pop(known.name, None) is not None and joined:
                self.events.add(known.name, NodeEvent(now, "relieved"))
            return
        if known.waits_since is None:
            known.waits_since = now
        closed = known.status.own is not None and known.status.own.inbox_closed
        if known.name not in self.strained and (closed or now - known.waits_since >= STRAINED_S):
            self.strained[known.name] = known.waits_since
            self.events.add(known.name, NodeEvent(now, "strained", reason))


def _first(now: float, status: NodeStatus, standing: Standing, found: Mapping[Position, NodeStatus]) -> NodeEvent:
    """The event of a node that was not known."""
    if standing.state is State.JOINED:
        event = "started" if status.parent is None else "joined"
        return NodeEvent(standing.since or now, event, _arrival(status))
    return NodeEvent(_begin(now, standing), standing.state.value, _circumstances(status, standing, found))


def _differences(
    now: float, known: _Known, status: NodeStatus, standing: Standing, found: Mapping[Position, NodeStatus]
) -> Iterator[NodeEvent]:
    old, before = known.status, known.standing
    joined = standing.state is State.JOINED
    since = max(old.since, before.since if before.state is not State.JOINED else 0.0)
    # After a step of a host's clock, a stream that stands has begun at another time.
    same = before.state is State.JOINED and (status.reopened, status.address) == (old.reopened, old.address)
    again = joined and status.since > since and not same
    if again:
        yield NodeEvent(status.since, "joined_again", _arrival(status))
    elif joined and before.state is not State.JOINED:
        yield NodeEvent(
            now, "back", "it answers again" if before.state is State.NOT_ANSWERING else "it is reached again"
        )
    elif not joined and standing != before:
        yield NodeEvent(_begin(now, standing), standing.state.value, _circumstances(status, standing, found))
    if status.link and old.link and status.link != old.link and not again:
        reason = "" if status.own is None else status.own.link_reason
        yield NodeEvent(now, "link", f"{old.link} → {status.link}" + (f": {reason}" if reason else ""))
    if _is_another(old, status):
        words = ("another process: its counters begin at 0", _version(status))
        yield NodeEvent(now, "restarted", ", ".join(part for part in words if part))


def _is_another(old: NodeStatus, new: NodeStatus) -> bool:
    """True if a node's own counters have gone back: they are those of another process."""
    if old.own is None or new.own is None:
        return False
    return new.own.delivered < old.own.delivered or new.own.reconnects < old.own.reconnects


def _waiting(status: NodeStatus) -> str:
    """The messages that wait for a node, in words; empty if none do."""
    own = status.own
    if own is not None:
        if own.inbox_closed:
            return "nobody reads its inbox"
        if own.inbox_line or (own.inbox_room and own.inbox >= own.inbox_room):
            return f"its inbox is full: {own.inbox} of {own.inbox_room}, {own.inbox_line} in line"
    queued = status.down.queued + (own.up.queued if own is not None else 0)
    return f"{queued} messages wait to be written" if queued else ""


def _begin(now: float, standing: Standing) -> float:
    """The beginning of a state; of GONE it is the loss, which has an event of its own."""
    return now if standing.state is State.GONE else standing.since or now


def _circumstances(status: NodeStatus, standing: Standing, found: Mapping[Position, NodeStatus]) -> str:
    if standing.state is State.CUT_OFF:
        above, passed = _above(status, found), 1
        while above is not None and above[1].state is State.JOINED and passed < len(found):
            above, passed = _above(above[1], found), passed + 1
        return "" if above is None else f"{above[0]} is {above[1].state.value.replace('_', ' ')}"
    return status.end_reason


def _above(status: NodeStatus, found: Mapping[Position, NodeStatus]) -> tuple[Position, NodeStatus] | None:
    """The parent of a node; None where it is not known."""
    parent = status.parent
    return None if parent is None or parent not in found else (parent, found[parent])


def _arrival(status: NodeStatus) -> str:
    parts = [
        f"below {status.parent}" if status.parent is not None else "",
        f"{status.link} link" if status.link else "",
        f"from {status.address}" if status.address else "",
        _version(status),
    ]
    return ", ".join(part for part in parts if part)


def _version(status: NodeStatus) -> str:
    return f"version {status.version}" if status.version else ""


def _figures(known: _Known, now: float, *, sample: bool) -> list[float]:
    """The values of a node since the last sample, by column; none between two samples."""
    status = known.status
    if known.standing.state in ABSENT or known.standing.state.ended:
        if sample:
            known.counted, known.most = None, [nan] * len(COLUMNS)
        return [nan] * len(COLUMNS)
    own = status.up if status.own is None else status.own.up
    found = figures(status.down, own, status.up)
    for number in _MOST:
        known.most[number] = _most(known.most[number], found[number])
    if not sample:
        return []
    last = [nan if value is None else float(value) for value in found]
    values = {Sampling.RATE: _rates(known, now, last), Sampling.MOST: known.most, Sampling.LAST: last}
    known.most = [nan] * len(COLUMNS)
    return [values[column.taken][number] for number, column in enumerate(COLUMNS)]


def _rates(known: _Known, now: float, counted: list[float]) -> list[float]:
    """Changes of figures a second since the last sample; NaN where the counters among them have begun at 0."""
    before = known.counted
    at, _ = known.counted = (known.status.at or now, counted)
    if before is None:
        return [nan] * len(counted)
    seconds = at - before[0]
    if seconds <= 0.0:
        # The same figures as before: nothing has changed since.
        return [0.0] * len(counted)
    changes = [new - old for new, old in zip(counted, before[1], strict=True)]
    again = any(changes[number] < 0 for number in _RATES)
    return [nan if again else change / seconds for change in changes]


def _most(one: float, other: float | None) -> float:
    if other is None or isnan(other):
        return one
    return float(other) if isnan(one) else max(one, other)


def _add(whole: list[float], values: Sequence[float]) -> None:
    """Add a node's values to those of all links together."""
    for number, (column, value) in enumerate(zip(COLUMNS, values, strict=True)):
        if column.whole is Whole.SUM and not isnan(value):
            whole[number] += value
        elif column.whole is Whole.MOST:
            whole[number] = _most(whole[number], value)
