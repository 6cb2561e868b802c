"""Outcomes of faults, and their comparison."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.supervision.outcome import LEFT, STANDS, SUCCEEDS, Cell, Outcome, cells, markdown, origin
from benchmarks.supervision.rows import ENDS, TRAINS
from tests.supervision.plays import BY_NAME, LAUNCHERS, MANAGERS, OF_TORCH, RANKS


def outcome(what: str, seconds: float, *, goal: str = TRAINS, column: str = "ours", turn: int = 0) -> Outcome:
    return Outcome("rank", column, turn, goal, what, seconds, "0 0")


def test_each_row_is_played_or_has_a_reason() -> None:
    played = [*RANKS, *LAUNCHERS, *MANAGERS]
    assert sorted([*played, *OF_TORCH]) == sorted(BY_NAME)


@pytest.mark.parametrize(
    ("ours", "theirs", "worse"),
    [
        (outcome(SUCCEEDS, 5.0), outcome(SUCCEEDS, 5.0), False),
        (outcome(SUCCEEDS, 6.1), outcome(SUCCEEDS, 5.0), True),
        (outcome(SUCCEEDS, 60.0), outcome(STANDS, 5.0), False),
        (outcome(STANDS, 50.0), outcome(STANDS, 5.0), False),
        (outcome(STANDS, 5.0), outcome(SUCCEEDS, 50.0), True),
        (outcome(SUCCEEDS, 1.0, goal=ENDS), outcome(LEFT, 9.0, goal=ENDS), True),
    ],
)
def test_worse_is_a_worse_outcome_or_a_longer_time(ours: Outcome, theirs: Outcome, worse: bool) -> None:
    assert Cell((ours,)).is_worse_than(Cell((theirs,))) is worse


def test_cell_has_the_worst_outcome_and_the_median() -> None:
    plays = [outcome(SUCCEEDS, 3.0), outcome(SUCCEEDS, 4.0, turn=1), outcome(STANDS, 45.0, turn=2)]
    (cell,) = cells(plays).values()
    assert (cell.worst.outcome, cell.seconds) == (STANDS, 4.0)
    assert cell.text() == f"{SUCCEEDS} (2), stands (1), 4.0 s"


def test_play_that_is_repeated_counts_once() -> None:
    (cell,) = cells([outcome(STANDS, 45.0), outcome(SUCCEEDS, 3.0)]).values()
    assert markdown([BY_NAME["rank"]], ["ours"], {("rank", "ours"): cell}).splitlines()[-1] == (
        f"| one rank killed | 30 s | {SUCCEEDS}, 3.0 s |"
    )


def test_table_says_of_what_it_is_made() -> None:
    plays = [outcome(SUCCEEDS, 3.0), outcome(SUCCEEDS, 4.0, turn=1), outcome(SUCCEEDS, 4.0, column="theirs")]
    assert origin(plays) == "1-2 plays of each, medians of seconds"
    plays = [replace(each, commit=commit) for each, commit in zip(plays, ("a1", "b2", "a1"), strict=True)]
    assert origin(plays) == "1-2 plays of each, medians of seconds; commits a1, b2"
