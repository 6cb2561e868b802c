"""Progress of a node's ranks: what their records tell, look by look, becomes the text of a KEEP_ALIVE. Pure.

The script's process writes its record, so it may hold anything. Each value has its bounds here; a value beyond them
counts as not said. The process has run since a time that the Agent knows: no class of time has more.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from taskd_net.base import rank_record
from taskd_net.base.progress import SECTION_CHARS, STEP_MOST, NodeProgress, RankProgress, Seen, Spent, furthest_behind

HOLDS_NS: Final = 3_000_000_000
"""Nanoseconds without a beat of a process that runs, after which one of its threads holds the interpreter. The beat
comes once a second."""

STEP_NS: Final = 100
"""Least nanoseconds of a step: the call that marks one takes longer."""

_SPENT: Final = tuple(Spent(name) for name in rank_record.CLASSES)
_OVER: Final = (Seen.ENDED, Seen.ABSENT)


@dataclass(frozen=True, slots=True)
class Sight:
    """A look at a rank.

    Args:
        rank: its global rank.
        begun: nanoseconds of the steady clock before its process started; another process has another time.
        pid: its process; 0 without one.
        seen: state of that process.
        record: bytes of its record; empty without one.
        image: another value after each exec of the process.
    """

    rank: int
    begun: int
    pid: int = 0
    seen: Seen = Seen.RUNS
    record: bytes = b""
    image: int = 0


@dataclass(frozen=True, slots=True)
class Marks:
    """Marks of a script.

    Args:
        turn: number of marks.
        at: nanoseconds of the last one, by the steady clock; of the opening of the record before any.
        step: the last step; None before any.
        of: number of the last step of the training; None: not told.
        steps, again, samples: counts of this process.
        loss: the last one; None: not told.
        running: class of the time since `at`.
        marked: True after the first mark.
        waits: the script waits for something outside of the training.
        section: name of the section; empty outside of any.
        spent: nanoseconds of each class until `at`.
    """

    turn: int
    at: int
    step: int | None
    of: int | None
    steps: int
    again: int
    samples: int
    loss: float | None
    running: int
    marked: bool
    waits: bool
    section: str
    spent: tuple[int, ...]


def read_marks(sight: Sight, now: int) -> Marks | None:
    """The marks in a record; None: there are none of this process, or their times cannot be.

    Args:
        sight: the look.
        now: the present, in nanoseconds of the steady clock.
    """
    found = rank_record.newest(sight.record, rank_record.SCRIPT, rank_record.SCRIPT_AT)
    if found is None:
        return None
    turn, pid, at, step, of, steps, again, samples, loss, running, marked, waits, length, name, *spent = found
    if pid != sight.pid or not sight.begun <= at <= now:
        return None
    if running >= len(spent) or sum(spent) > at - sight.begun or steps > (at - sight.begun) // STEP_NS:
        return None
    return Marks(
        turn=turn,
        at=at,
        step=_bounded(step),
        of=_bounded(of),
        steps=steps,
        again=min(again, steps),
        samples=_bounded(samples) or 0,
        loss=loss if math.isfinite(loss) else None,
        running=running,
        marked=marked > 0,
        waits=waits > 0,
        section=_name(name[:length]),
        spent=tuple(spent),
    )


@dataclass(frozen=True, slots=True)
class Beat:
    """The last beat of a process.

    Args:
        turn: number of beats.
        group: sequence number of torch's default group; None: not known.
        beats: False once the process is about to end.
    """

    turn: int
    group: int | None
    beats: bool


def read_beat(sight: Sight, now: int) -> Beat | None:
    """The last beat in a record; None: there is none of this process.

    Args:
        sight, now: as of `read_marks`.
    """
    found = rank_record.newest(sight.record, rank_record.BEAT, rank_record.BEAT_AT)
    if found is None:
        return None
    turn, pid, at, group, beats = found
    if pid != sight.pid or not sight.begun <= at <= now:
        return None
    return Beat(turn, _bounded(group), beats > 0)


class NodeLedger:
    """The progress of a node's ranks since its Agent began, over all their processes.

    Attributes:
        highest: the highest step that one of them has done; -1 without one.
    """

    def __init__(self) -> None:
        self.highest = -1
        self._ranks: dict[int, _Rank] = {}
        self._spent = [0] * len(_SPENT)

    def last(self, sight: Sight, now: int) -> None:
        """Take in the last record of a process that another one replaces.

        Args:
            sight, now: as of `look`.
        """
        self._take(sight, now)

    def look(self, sights: Collection[Sight], now: int) -> NodeProgress:
        """Take in the records of all ranks of the node.

        Args:
            sights: the ranks.
            now: the present, in nanoseconds of the steady clock, after the records were read.
        """
        found = [self._take(sight, now) for sight in sights]
        ever = self._ranks.values()
        for index in range(len(_SPENT)):
            self._spent[index] += max((rank.fresh[index] for rank in ever), default=0)
        for rank in ever:
            rank.fresh = [0] * len(_SPENT)
        steps = [each.step for each in found if each.step is not None]
        groups = [each.group for each in found if each.group is not None]
        marked = [each.marked for each in found if each.marked is not None]
        told = [marks for sight in sorted(sights, key=_rank) if (marks := self._of(sight).marks) is not None]
        watched = sum(each.marked is not None or each.group is not None for each in found)
        busiest = max(ever, key=_steps, default=None)
        return NodeProgress(
            ranks=len(found),
            watched=watched,
            marking=len(steps),
            lowest=min(steps, default=None),
            highest=max(steps, default=None),
            low_group=min(groups, default=None),
            high_group=max(groups, default=None),
            marked=min(marked, default=None),
            slowest=furthest_behind(found) if watched else (),
            steps=0 if busiest is None else busiest.steps,
            again=0 if busiest is None else busiest.again,
            samples=min(sum(rank.samples for rank in ever), STEP_MOST),
            of=max((marks.of for marks in told if marks.of is not None), default=None),
            loss=next((marks.loss for marks in told if marks.loss is not None), None),
            spent={each: ns / 1e9 for each, ns in zip(_SPENT, self._spent, strict=True) if ns},
        )

    def _take(self, sight: Sight, now: int) -> RankProgress:
        found = self._of(sight).take(sight, now)
        self.highest = max(self.highest, -1 if found.step is None else found.step)
        return found

    def _of(self, sight: Sight) -> _Rank:
        if sight.rank not in self._ranks:
            self._ranks[sight.rank] = _Rank()
        return self._ranks[sight.rank]


class _Rank:
    """A rank, over its processes. Counters of a process only grow: one that falls is not believed.

    Attributes:
        steps, again, samples: counts over all processes.
        fresh: nanoseconds of each class since the last look.
        marks: of the present process; None without any.
    """

    def __init__(self) -> None:
        self.steps = self.again = self.samples = 0
        self.fresh = [0] * len(_SPENT)
        self._begin(0)

    def take(self, sight: Sight, now: int) -> RankProgress:
        """Take in a look."""
        if sight.begun != self._begun:
            self._begin(sight.begun)
        marks = read_marks(sight, now)
        if marks is not None and (self.marks is None or marks.turn > self.marks.turn):
            self._count(marks)
        if self.marks is not None:
            self._book(self.marks, now, runs=sight.seen not in _OVER)
        seen = self._feel(sight, now)
        said = self.marks
        return RankProgress(
            rank=sight.rank,
            pid=sight.pid,
            seen=seen,
            step=None if said is None else said.step,
            group=self._group,
            section="" if said is None else said.section,
            waits=said is not None and said.waits,
            marked=(now - said.at) / 1e9 if said is not None and said.marked else None,
            moved=None if self._group is None else (now - self._moved) / 1e9,
        )

    def _begin(self, begun: int) -> None:
        """Another process has begun."""
        self._begun = self._booked_at = begun
        self.marks: Marks | None = None
        self._counted = (0, 0, 0)
        self._booked = [0] * len(_SPENT)
        self._group: int | None = None
        self._moved = 0
        self._beat = self._felt = self._image = 0

    def _count(self, marks: Marks) -> None:
        """Count steps and samples since the marks before."""
        before = self._counted
        self._counted = (max(before[0], marks.steps), max(before[1], marks.again), max(before[2], marks.samples))
        self.steps += self._counted[0] - before[0]
        self.again += self._counted[1] - before[1]
        self.samples += self._counted[2] - before[2]
        self.marks = marks

    def _book(self, marks: Marks, now: int, *, runs: bool) -> None:
        """Book the time since the last look, the time since the last mark included; together no more than has passed.

        A class loses time where a step had another number than the one that was expected. It keeps what was booked.
        """
        left, self._booked_at = now - self._booked_at, now
        for index, ns in enumerate(marks.spent):
            total = ns + (now - marks.at if runs and index == marks.running else 0)
            more = min(max(0, total - self._booked[index]), left)
            self._booked[index] = max(self._booked[index], total)
            self.fresh[index] += more
            left -= more

    def _feel(self, sight: Sight, now: int) -> Seen:
        """Take in the beat. Returns the state of the process, as the beat shows it."""
        beat = read_beat(sight, now)
        if beat is not None and beat.group != self._group:
            self._group, self._moved = beat.group, now
        if beat is None or not beat.beats:
            return sight.seen
        if beat.turn != self._beat:
            self._beat, self._felt, self._image = beat.turn, now, sight.image
        elif sight.seen is not Seen.RUNS:
            self._felt = now  # it has no time for a beat
        elif sight.image == self._image and now - self._felt > HOLDS_NS:
            return Seen.HOLDS  # and its thread was not ended by an exec
        return sight.seen


def _bounded(number: int) -> int | None:
    return number if 0 <= number <= STEP_MOST else None


def _name(data: bytes) -> str:
    """The name of a section; empty where it is no text."""
    try:
        return data.decode()[:SECTION_CHARS]
    except UnicodeDecodeError:
        return ""


def _rank(sight: Sight) -> int:
    return sight.rank


def _steps(rank: _Rank) -> int:
    return rank.steps
