"""What a node knows of those below it, and what of that its parent has still to be told.

The ledger keeps for each node below the record that somebody made of it, as bytes that nobody on the way reads: to know
whether something has changed it is enough to compare them. Each record belongs to the child that told it, or, for the
children themselves, to this node.

What the parent has still to be told is a set of positions. Each is told as it is when its turn comes, so that many
changes of one node cost no more than one; and no report is longer than a bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

Source: TypeAlias = str
"""Who told a record: the position of a child, or OWN."""

OWN: Final[Source] = ""


@dataclass(slots=True)
class _Entry:
    record: bytes
    source: Source
    stay: int


@dataclass(frozen=True, slots=True)
class Report:
    """One report to the parent.

    Attributes:
        entries: nodes with their records.
        gone: nodes that are known no more.
        first: the parent is to take everything from earlier stays as old.
        complete: the parent has everything now.
        urgent: a node has come or gone; the parent is not to wait until it is time for figures to pass it on.
    """

    entries: Sequence[tuple[str, bytes]] = ()
    gone: Sequence[str] = ()
    first: bool = False
    complete: bool = False
    urgent: bool = False


class Ledger:
    """The records of one node.

    Args:
        records: at most so many; a new node beyond that is not kept, and counted in `refused`.
        report: nodes in one report at most.
    """

    __slots__ = ("_entries", "_first", "_initial", "_limit", "_report", "_stays", "_untold", "refused")

    def __init__(self, records: int, report: int) -> None:
        self._limit = records
        self._report = report
        self._entries: dict[str, _Entry] = {}
        self._stays: dict[Source, int] = {}
        self._untold: dict[str, None] = {}
        self._first = True
        # What still belongs to the first telling of everything.
        self._initial: set[str] = set()
        self.refused = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        return ((position, entry.record) for position, entry in self._entries.items())

    def record(self, position: str) -> bytes | None:
        """The record of a node; None for one that is not known."""
        entry = self._entries.get(position)
        return None if entry is None else entry.record

    # ---- what comes in

    def told(self, source: Source, report: Report) -> None:
        """A child has reported."""
        if report.first:
            self._stays[source] = self._stays.get(source, 0) + 1
        for position, record in report.entries:
            self.put(position, record, source)
        for position in report.gone:
            self.drop(position, source)
        if report.complete:
            stay = self._stays.get(source, 0)
            old = [p for p, entry in self._entries.items() if entry.source == source and entry.stay != stay]
            for position in old:
                self.drop(position, source)

    def put(self, position: str, record: bytes, source: Source = OWN) -> None:
        """Keep a record. Of a node that another child has told before, the newest telling counts."""
        entry = self._entries.get(position)
        stay = self._stays.get(source, 0)
        if entry is None:
            if len(self._entries) >= self._limit:
                self.refused += 1
                return
            self._entries[position] = _Entry(record, source, stay)
        else:
            entry.source, entry.stay = source, stay
            if entry.record == record:
                return
            entry.record = record
        self._untold[position] = None

    def drop(self, position: str, source: Source = OWN) -> bool:
        """Forget a node, if this is who told it last. Returns whether it was so."""
        entry = self._entries.get(position)
        if entry is None or entry.source != source:
            return False
        del self._entries[position]
        self._untold[position] = None
        return True

    def drop_source(self, source: Source) -> None:
        """Forget all that a child has told."""
        for position in [p for p, entry in self._entries.items() if entry.source == source]:
            self.drop(position, source)
        self._stays.pop(source, None)

    # ---- what goes to the parent

    @property
    def untold(self) -> bool:
        """Whether there is something that the parent is to be told."""
        return bool(self._untold) or self._first

    def begin(self) -> None:
        """A stay with a parent begins, who may know nothing, or what was true long ago: tell everything."""
        self._untold = dict.fromkeys(self._entries)
        self._initial = set(self._untold)
        self._first = True

    def next_report(self, *, urgent: bool = False) -> Report:
        """The next report. What is in it counts as told: if it does not arrive, `begin` again."""
        taken = list(self._untold)[: self._report]
        for position in taken:
            del self._untold[position]
        entries, gone = [], []
        for position in taken:
            entry = self._entries.get(position)
            if entry is None:
                gone.append(position)
            else:
                entries.append((position, entry.record))
        unfinished = bool(self._initial)
        self._initial.difference_update(taken)
        complete = (unfinished or self._first) and not self._initial
        report = Report(entries, gone, self._first, complete, urgent or self._first)
        self._first = False
        return report
