"""What a node knows of those below it, and what of that its parent has still to be told.

The ledger keeps for each node below the record that somebody made of it, as bytes that nobody on the way reads: to know
whether something has changed it is enough to compare them. Each record belongs to the child that told it, or, for the
children themselves, to this node.

Nodes that have left in good order are remembered beyond the end of whoever told of them, up to a number of them. Others
are forgotten with the child that told them.

What the parent has still to be told is a set of positions. Each is told as it is when its turn comes, so that many
changes of one node cost no more than one; and no report is longer than a bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from taskd_net import limits
from taskd_net.states import State

Source: TypeAlias = str
"""Who told a record: the position of a child, or OWN."""

OWN: Final[Source] = ""


class Record(NamedTuple):
    """What is known of one node.

    Args:
        position: the node, as text.
        node: its serialized status.
        away: its stream is gone.
        ended: the state that it has left in good order with; None for any other.
    """

    position: str
    node: bytes
    away: bool = False
    ended: State | None = None


@dataclass(slots=True)
class _Entry:
    record: Record
    source: Source
    stay: int


@dataclass(frozen=True, slots=True)
class Report:
    """One report to the parent.

    Attributes:
        records: of nodes that are new or have changed.
        gone: nodes that are known no more.
        first: the parent is to take everything from earlier stays as old.
        complete: the parent has everything now.
        urgent: a node has come or gone; the parent is not to wait until it is time for figures to pass it on.
    """

    records: Sequence[Record] = ()
    gone: Sequence[str] = ()
    first: bool = False
    complete: bool = False
    urgent: bool = False


class Ledger:
    """The records of one node.

    Args:
        nodes: at most so many; a new one beyond that takes the place of the one that has ended first, or is not kept,
            and counted in `refused`.
        report: nodes in one report at most.
        ended: nodes that have left in good order, and those that were asked to be forgotten, at most; the oldest make
            room.
    """

    __slots__ = (
        "_ended",
        "_entries",
        "_first",
        "_forgotten",
        "_initial",
        "_limit",
        "_most_ended",
        "_report",
        "_stays",
        "_takes_ends",
        "_telling",
        "_untold",
        "refused",
    )

    def __init__(self, nodes: int, report: int, ended: int = limits.STATUS_ENDED) -> None:
        self._limit = nodes
        self._report = report
        self._most_ended = ended
        self._entries: dict[str, _Entry] = {}
        # Dicts, for their order: those that have left in good order, and those that somebody has asked to forget.
        self._ended: dict[str, None] = {}
        self._forgotten: dict[str, None] = {}
        self._stays: dict[Source, int] = {}
        # A dict, for its order: what has waited longest is told first.
        self._untold: dict[str, None] = {}
        # Whether there is a parent to tell; without one nothing is noted for it.
        self._telling = False
        self._takes_ends = False
        self._first = False
        # What still belongs to the first telling of everything.
        self._initial: set[str] = set()
        self.refused = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Record]:
        return (entry.record for entry in self._entries.values())

    def find(self, position: str) -> Record | None:
        """What is known of one node."""
        entry = self._entries.get(position)
        return None if entry is None else entry.record

    def has_ended(self, position: str) -> bool:
        """Whether a node is known that has left in good order."""
        return position in self._ended

    # ---- what comes in

    def told(self, source: Source, report: Report) -> None:
        """A child has reported."""
        if report.first:
            self._stays[source] = self._stays.get(source, 0) + 1
        for record in report.records:
            self.put(record, source)
        for position in report.gone:
            self.drop(position, source)
        if report.complete:
            stay = self._stays.get(source, 0)
            old = [p for p, entry in self._entries.items() if entry.source == source and entry.stay != stay]
            for position in old:
                # The child was restarted, and does not know who had left before.
                if position not in self._ended:
                    self.drop(position, source)

    def put(self, record: Record, source: Source = OWN) -> None:
        """Keep a record.

        Of a node of which another one has told before, the newest telling counts; but one that it is away says nothing
        against another that has it: it has moved there. Nor does it say anything of a node that was to be forgotten.
        """
        if record.position in self._forgotten:
            if record.away:
                return
            del self._forgotten[record.position]
        entry = self._entries.get(record.position)
        stay = self._stays.get(source, 0)
        if entry is None:
            if len(self._entries) >= self._limit:
                if not self._ended:
                    self.refused += 1
                    return
                self._remove(next(iter(self._ended)))
            self._entries[record.position] = _Entry(record, source, stay)
        else:
            if record.away and entry.source != source and not entry.record.away:
                return
            entry.source, entry.stay = source, stay
            if entry.record == record:
                return
            entry.record = record
        self._ended.pop(record.position, None)
        if record.ended is not None:
            self._ended[record.position] = None
            if len(self._ended) > self._most_ended:
                self._remove(next(iter(self._ended)))
        self._note(record.position)

    def drop(self, position: str, source: Source = OWN) -> None:
        """Forget a node, if this is who told it last."""
        entry = self._entries.get(position)
        if entry is not None and entry.source == source:
            self._remove(position)

    def drop_source(self, source: Source) -> None:
        """Forget all that a child has told, but for the nodes that have left in good order."""
        for position in [p for p, entry in self._entries.items() if entry.source == source]:
            if position in self._ended:
                self._entries[position].source = OWN
            else:
                self.drop(position, source)
        self._stays.pop(source, None)

    def forget(self, position: str) -> None:
        """Forget a node, whoever has told it, until somebody tells that it has joined."""
        self._forgotten[position] = None
        if len(self._forgotten) > self._most_ended:
            del self._forgotten[next(iter(self._forgotten))]
        if position in self._entries:
            self._remove(position)

    # ---- what goes to the parent

    @property
    def reports(self) -> int:
        """How many reports it takes to tell the parent what it has still to be told."""
        return max(int(self._first), -(-len(self._untold) // self._report))

    def begin(self, *, ends: bool = True) -> None:
        """A stay with a parent begins, who may know nothing, or what was true long ago: tell everything.

        `ends`: whether the parent takes it that nodes have left in good order.
        """
        self._takes_ends = ends
        self._untold = dict.fromkeys(self._entries)
        self._initial = set(self._untold)
        self._first = self._telling = True

    def end(self) -> None:
        """The stay is over."""
        self._untold.clear()
        self._initial.clear()
        self._first = self._telling = False

    def next_report(self, *, urgent: bool = False) -> Report:
        """The next report. What is in it counts as told: if it does not arrive, `begin` again."""
        taken = list(islice(self._untold, self._report))
        records, gone = [], []
        for position in taken:
            del self._untold[position]
            entry = self._entries.get(position)
            if entry is None or (not self._takes_ends and entry.record.ended is State.FINISHED):
                # To an older parent a leaf that has left is one that is known no more, and a Proxy a lost one.
                gone.append(position)
            else:
                records.append(entry.record)
        unfinished = self._first or bool(self._initial)
        self._initial.difference_update(taken)
        report = Report(records, gone, self._first, unfinished and not self._initial, urgent or self._first)
        self._first = False
        return report

    def _remove(self, position: str) -> None:
        del self._entries[position]
        self._ended.pop(position, None)
        self._note(position)

    def _note(self, position: str) -> None:
        if self._telling:
            self._untold[position] = None
