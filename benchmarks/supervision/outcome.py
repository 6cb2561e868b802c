"""Outcomes of faults, and their comparison between launchers."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from benchmarks.supervision.job import Column, Job
from benchmarks.supervision.rows import ENDS, TRAINS, Due, Row, runs

END_S: Final = 40.0
"""Seconds in which a job that shall succeed has to end."""

STANDS: Final = "stands"
FAILS: Final = "ends in failure"
SUCCEEDS: Final = "trains on, ends 0"
STUCK: Final = "trains on, does not end"
LEFT: Final = "all launchers end"
WRONG: Final = "ends 0"

_GOOD: Final = {TRAINS: (STANDS, WRONG, FAILS, STUCK, SUCCEEDS), ENDS: (STANDS, STUCK, WRONG, SUCCEEDS, FAILS, LEFT)}
"""Outcomes by what was to come, the worst first."""

LARGER: Final = 1.1
LATER_S: Final = 0.5
"""Ours takes at most the median of torchrun, and a tenth, and this."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One play of a row.

    Args:
        row, column: their names.
        turn: number of the play.
        goal: what was to come.
        outcome: what came.
        seconds: until all ranks had taken a step again, or all launchers had left; until the end of the wait elsewhere.
        codes: exit codes of the launchers; empty for one that has not left.
        words: the last lines of the launchers, where it is not what was to come.
        commit: the version that was played.
    """

    row: str
    column: str
    turn: int
    goal: str
    outcome: str
    seconds: float
    codes: str
    words: str = ""
    commit: str = ""

    def record(self) -> dict[str, Any]:
        """Its fields, for a file; without the words, which name files of this machine."""
        return {name: value for name, value in asdict(self).items() if name != "words"}


def see(row: Row, column: Column, turn: int, job: Job, due: Due) -> Outcome:
    """Wait for the outcome of a fault."""
    jobs = [job, *([due.also] if due.also else [])]
    give_up_at = time.monotonic() + row.within
    trained: float | None = None
    while trained is None and time.monotonic() < give_up_at and not _over(jobs, due):
        for each in jobs:
            each.wait()
        # A row in which all shall end may not end because all train on.
        if due.goal == TRAINS:
            times = [each.stepped(due.since, due.fresh if each is job else ()) for each in jobs]
            trained = None if None in times else max(at for at in times if at is not None)
    if trained is not None:
        for each in jobs:
            each.finish()
        end = time.monotonic() + END_S
        while time.monotonic() < end and not all(map(_left, jobs)):
            for each in jobs:
                each.wait()
        outcome = SUCCEEDS if all(map(_succeeded, jobs)) else (FAILS if all(map(_left, jobs)) else STUCK)
        seconds = trained - due.since
    elif _over(jobs, due):
        last = max(at for each in jobs for at in each.ended_at.values())
        seconds = (time.monotonic() if due.processes else last) - due.since
        outcome = WRONG if all(map(_succeeded, jobs)) else (LEFT if due.goal == ENDS else FAILS)
    else:
        seconds = time.monotonic() - due.since
        outcome = STUCK if due.goal == ENDS and job.stepped(time.monotonic() - 2) is not None else STANDS
    codes = " ".join(str(launcher.poll() if launcher.poll() is not None else "-") for launcher in _launchers(jobs))
    words = "" if outcome == _GOOD[due.goal][-1] else "\n".join(each.words() for each in jobs)
    return Outcome(row.name, column.name, turn, due.goal, outcome, round(seconds, 2), codes, words)


def _launchers(jobs: Iterable[Job]) -> Iterable[Any]:
    return (job.launchers[node] for job in jobs for node in sorted(job.launchers))


def _left(job: Job) -> bool:
    return len(job.ended_at) == len(job.launchers)


def _over(jobs: Iterable[Job], due: Due) -> bool:
    """True where nothing is left of the jobs."""
    return all(map(_left, jobs)) and not any(map(runs, due.processes))


def _succeeded(job: Job) -> bool:
    """True if all launchers that were not killed have left with 0."""
    statuses = {launcher.poll() for launcher in job.launchers.values()}
    return _left(job) and 0 in statuses and statuses <= {0, -9}


@dataclass(frozen=True, slots=True)
class Cell:
    """The plays of a row under one launcher.

    Args:
        outcomes: of all plays.
    """

    outcomes: tuple[Outcome, ...]

    @property
    def worst(self) -> Outcome:
        """The play with the worst outcome."""
        return min(self.outcomes, key=lambda each: _GOOD[each.goal].index(each.outcome))

    @property
    def seconds(self) -> float:
        """Median of the plays."""
        return statistics.median(each.seconds for each in self.outcomes)

    def text(self) -> str:
        """For the table."""
        counts = {each.outcome: sum(other.outcome == each.outcome for other in self.outcomes) for each in self.outcomes}
        words = ", ".join(name if len(counts) == 1 else f"{name} ({count})" for name, count in counts.items())
        return f"{words}, {self.seconds:.1f} s" if self.worst.outcome != STANDS or len(counts) > 1 else words

    def is_worse_than(self, other: Cell) -> bool:
        """True if its outcome, or its time where the outcome is the same, is worse than that of another launcher."""
        good = _GOOD[self.worst.goal]
        ours, theirs = good.index(self.worst.outcome), good.index(other.worst.outcome)
        if ours != theirs:
            return ours < theirs
        return self.worst.outcome != STANDS and self.seconds > other.seconds * LARGER + LATER_S


def origin(outcomes: Sequence[Outcome]) -> str:
    """The plays of a table, in words."""
    counts = sorted({len(each.outcomes) for each in cells(outcomes).values()})
    commits = list(dict.fromkeys(each.commit for each in outcomes if each.commit))
    plays = f"{'-'.join(map(str, counts))} plays of each, medians of seconds"
    return f"{plays}; commits {', '.join(commits)}" if commits else plays


def cells(outcomes: Iterable[Outcome]) -> dict[tuple[str, str], Cell]:
    """Plays by row and column; of a play that was repeated the last."""
    last = {(each.row, each.column, each.turn): each for each in outcomes}
    found: dict[tuple[str, str], list[Outcome]] = {}
    for (row, column, _), outcome in sorted(last.items()):
        found.setdefault((row, column), []).append(outcome)
    return {key: Cell(tuple(each)) for key, each in found.items()}


def markdown(rows: Sequence[Row], columns: Sequence[str], found: Mapping[tuple[str, str], Cell]) -> str:
    """The table, as it stands in the documents."""
    lines = [f"| fault | at most | {' | '.join(columns)} |", f"|---|---|{'---|' * len(columns)}"]
    for row in rows:
        texts = [found[row.name, column].text() if (row.name, column) in found else "" for column in columns]
        if any(texts):
            lines.append(f"| {row.title} | {min(row.within, row.ours):g} s | {' | '.join(texts)} |")
    return "\n".join(lines)
