"""Records of the nodes below a node, and the reports of them to its parent.

A record is bytes, which no node on the way reads: comparing them shows whether something has changed. It belongs to the
child that reported it; the records of the children themselves belong to this node.

A node that has left in good order stays in the ledger when its reporter goes, up to a number of such nodes. Any other
record goes with its reporter.

Changes for the parent are a set of positions. Each is reported as it is when its turn comes, so that many changes of
one node cost one record. Reports have a bounded length.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from taskd_net.base.states import State

ENDED: Final = 32_768
"""Nodes that have left in good order of which a node keeps the state: a job of 4,000 nodes that has come to its end.
Beyond that the one that has left first is forgotten, as it is where a living one needs its place."""

Source: TypeAlias = str
"""The reporter of a record: the position of a child, or OWN."""

OWN: Final[Source] = ""


class Record(NamedTuple):
    """The status of one node, as bytes.

    Args:
        position: the node, as text.
        node: its serialized status.
        away: its stream is gone.
        ended: its state, if it has left in good order; else None.
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
        records: of new and changed nodes.
        gone: positions that are no longer known.
        first: begins a stay: records of earlier stays are old.
        complete: the parent has every record now, and drops the old ones.
        urgent: a node has come or gone; the parent passes it on before the time of the next figures.
    """

    records: Sequence[Record] = ()
    gone: Sequence[str] = ()
    first: bool = False
    complete: bool = False
    urgent: bool = False


class Ledger:
    """The records of one node.

    Args:
        nodes: records at most. A further one replaces the node that was the first to leave in good order. Without one
            it replaces the newest record of the reporter with most of them, unless its own reporter has a fair share
            already. Then it is counted in `refused`.
        report: records in one report at most.
        ended: nodes at most that have left in good order, and that were asked to be forgotten. The oldest make room.
    """

    def __init__(self, nodes: int, report: int, ended: int = ENDED) -> None:
        self._limit = nodes
        self._report = report
        self._most_ended = ended
        self._entries: dict[str, _Entry] = {}
        # Dicts, for their order.
        self._of: dict[Source, dict[str, None]] = {}
        self._ended: dict[str, None] = {}
        self._forgotten: dict[str, None] = {}
        self._stays: dict[Source, int] = {}
        # The longest wait comes first.
        self._untold: dict[str, None] = {}
        self._telling = False
        self._takes_ends = False
        self._first = False
        # The rest of the first report of everything.
        self._initial: set[str] = set()
        self.refused = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Record]:
        return (entry.record for entry in self._entries.values())

    def find(self, position: str) -> Record | None:
        """The record of one node; None without one."""
        entry = self._entries.get(position)
        return None if entry is None else entry.record

    def source(self, position: str) -> Source | None:
        """The reporter of a node; None for an unknown node."""
        entry = self._entries.get(position)
        return None if entry is None else entry.source

    def has_ended(self, position: str) -> bool:
        """True if a node of this position has left in good order."""
        return position in self._ended

    def told(self, source: Source, report: Report) -> None:
        """Take in the report of a child."""
        if report.first:
            self._stays[source] = self._stays.get(source, 0) + 1
        for record in report.records:
            self.put(record, source)
        for position in report.gone:
            self.drop(position, source)
        if report.complete:
            stay = self._stays.get(source, 0)
            old = [p for p in self._of.get(source, ()) if self._entries[p].stay != stay]
            for position in old:
                # A restarted child does not know which nodes had left before.
                if position not in self._ended:
                    self.drop(position, source)

    def put(self, record: Record, source: Source = OWN) -> None:
        """Keep a record; the newest of a node counts.

        A record that a node is away is ignored where another source has the node, which has moved there, and where the
        node is to be forgotten.
        """
        if record.position in self._forgotten:
            if record.away:
                return
            del self._forgotten[record.position]
        entry = self._entries.get(record.position)
        stay = self._stays.get(source, 0)
        if entry is None:
            if len(self._entries) >= self._limit:
                leaves = next(iter(self._ended), None) or self._above_its_share(source)
                if leaves is None:
                    self.refused += 1
                    return
                self._remove(leaves)
            self._entries[record.position] = _Entry(record, source, stay)
            self._of.setdefault(source, {})[record.position] = None
        else:
            if record.away and entry.source != source and not entry.record.away:
                return
            self._belongs(record.position, entry, source)
            entry.stay = stay
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
        """Forget a node, if its record belongs to this source."""
        entry = self._entries.get(position)
        if entry is not None and entry.source == source:
            self._remove(position)

    def drop_source(self, source: Source) -> None:
        """Forget the records of a child, except those of nodes that have left in good order."""
        for position in list(self._of.get(source, ())):
            if position in self._ended:
                self._belongs(position, self._entries[position], OWN)
            else:
                self.drop(position, source)
        self._stays.pop(source, None)

    def forget(self, position: str) -> None:
        """Forget a node, whatever its source, until a record says that it has joined."""
        self._forgotten[position] = None
        if len(self._forgotten) > self._most_ended:
            del self._forgotten[next(iter(self._forgotten))]
        if position in self._entries:
            self._remove(position)

    @property
    def reports(self) -> int:
        """Reports that the changes for the parent take."""
        return max(int(self._first), -(-len(self._untold) // self._report))

    def begin(self, *, ends: bool = True) -> None:
        """Begin a stay with a parent: everything is to be reported.

        Args:
            ends: whether the parent understands that nodes leave in good order.
        """
        self._takes_ends = ends
        self._untold = dict.fromkeys(self._entries)
        self._initial = set(self._untold)
        self._first = self._telling = True

    def end(self) -> None:
        """End the stay: nothing is noted for a parent."""
        self._untold.clear()
        self._initial.clear()
        self._first = self._telling = False

    def next_report(self, *, urgent: bool = False) -> Report:
        """The next report. Its records count as reported; if it does not arrive, call `begin` again."""
        taken = list(islice(self._untold, self._report))
        records, gone = [], []
        for position in taken:
            del self._untold[position]
            entry = self._entries.get(position)
            if entry is None or (not self._takes_ends and entry.record.ended is State.FINISHED):
                # An older parent drops a leaf that has left, and shows a Proxy as lost.
                gone.append(position)
            else:
                records.append(entry.record)
        unfinished = self._first or bool(self._initial)
        self._initial.difference_update(taken)
        report = Report(records, gone, self._first, unfinished and not self._initial, urgent or self._first)
        self._first = False
        return report

    def _above_its_share(self, source: Source) -> str | None:
        """A record that makes room for one of a reporter with less than a fair share; None if the reporter has that."""
        share = self._limit // (len(self._of) + (source not in self._of))
        if len(self._of.get(source, ())) >= share:
            return None
        largest = max(self._of, key=lambda known: len(self._of[known]))
        return next(reversed(self._of[largest]))

    def _belongs(self, position: str, entry: _Entry, source: Source) -> None:
        """Give a record to a reporter."""
        if entry.source != source:
            self._leave(position, entry.source)
            self._of.setdefault(source, {})[position] = None
            entry.source = source

    def _leave(self, position: str, source: Source) -> None:
        del self._of[source][position]
        if not self._of[source]:
            del self._of[source]

    def _remove(self, position: str) -> None:
        self._leave(position, self._entries.pop(position).source)
        self._ended.pop(position, None)
        self._note(position)

    def _note(self, position: str) -> None:
        if self._telling:
            self._untold[position] = None
