"""The faults of `make supervise`, for launchers and ranks without torch: each course ends as it has to."""

from __future__ import annotations

import random
from contextlib import ExitStack
from typing import Final

import pytest

from benchmarks.supervision.job import Column, Job, Place
from benchmarks.supervision.outcome import LEFT, STANDS, SUCCEEDS, Cell, Outcome, cells, markdown, see
from benchmarks.supervision.rows import ENDS, ROWS, TRAINS


def command(place: Place) -> list[str]:
    """The command of the launcher without torch."""
    sizes = [f"--node={place.node}", f"--nodes={place.nodes}", f"--processes={place.processes}"]
    names = [f"--host={place.host}", f"--name={place.name}", f"--mgr={place.mgr}", f"--restarts={place.restarts}"]
    return ["-m", "tests.supervision.launcher", *sizes, *names]


STAND_IN: Final = Column("stand-in", command, script="none")
SIGNALS: Final = "signals are those of torch's launcher"
OF_TORCH: Final = {
    "memory": "a cgroup needs root",
    "import-error": "the launcher has no script",
    "no-script": "the launcher has no script",
    "sigterm-tree": SIGNALS,
    "ctrl-c": SIGNALS,
    "ctrl-c-waits": SIGNALS,
    "ctrl-c-starts": SIGNALS,
    "ctrl-c-restart": SIGNALS,
    "ctrl-c-end": SIGNALS,
}
"""Rows that the launcher without torch cannot show, with the reasons; `make torch` has them."""

BY_NAME: Final = {row.name: row for row in ROWS}
GOOD: Final = {TRAINS: SUCCEEDS, ENDS: LEFT}


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", [name for name in BY_NAME if name not in OF_TORCH])
def test_fault_has_its_outcome(name: str) -> None:
    row = BY_NAME[name]
    with ExitStack() as stack:
        job = stack.enter_context(Job(STAND_IN, **row.job))
        due = row.act(job, random.Random(name), stack)
        outcome = see(row, STAND_IN, 0, job, due)
    assert outcome.outcome == GOOD[outcome.goal], outcome.words


def outcome(what: str, seconds: float, *, goal: str = TRAINS, column: str = "ours", turn: int = 0) -> Outcome:
    return Outcome("rank", column, turn, goal, what, seconds, "0 0")


def test_rows_that_are_left_out_are_rows() -> None:
    assert OF_TORCH.keys() <= BY_NAME.keys()


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
        f"| one rank killed | {SUCCEEDS}, 3.0 s |"
    )
