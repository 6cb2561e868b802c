"""Plays of the faults of `make supervise` by launchers and ranks without torch."""

from __future__ import annotations

import random
from contextlib import ExitStack
from typing import Final

from benchmarks.supervision.job import Column, Job, Place
from benchmarks.supervision.outcome import LEFT, SUCCEEDS, see
from benchmarks.supervision.rows import ENDS, ROWS, TRAINS

BY_NAME: Final = {row.name: row for row in ROWS}
BUSY_S: Final = 15.0
"""Seconds more on a machine that runs other tests: the end of a process alone takes many."""

GOOD: Final = {TRAINS: SUCCEEDS, ENDS: LEFT}
RANKS: Final = ("rank", "two-ranks", "rank-0", "node-ranks", "exception", "exit-3", "slow-death", "bug", "uneven")
LAUNCHERS: Final = (
    "launcher-1",
    "launcher-0",
    "launcher-1-lost",
    "sigkill-tree",
    "sigkill-all",
    "sigkill-all-back",
    "stopped",
    "never-comes",
)
MANAGERS: Final = ("launcher-0-lost", "manager", "manager-launcher", "proxy", "port", "two-jobs", "second-run")

SIGNALS: Final = "signals are those of torch's launcher"
OF_TORCH: Final = {
    "memory": "a cgroup needs root",
    "import-error": "the launcher has no script",
    "no-script": "the launcher has no script",
    "sigterm-tree": SIGNALS,
    "sigterm-all": SIGNALS,
    "sigterm-all-back": SIGNALS,
    "ctrl-c": SIGNALS,
    "ctrl-c-waits": SIGNALS,
    "ctrl-c-starts": SIGNALS,
    "ctrl-c-restart": SIGNALS,
    "ctrl-c-end": SIGNALS,
}
"""Rows that the launcher without torch cannot show, with the reasons; `make torch` has them."""


def command(place: Place) -> list[str]:
    """The command of the launcher without torch."""
    sizes = [f"--node={place.node}", f"--nodes={place.nodes}", f"--processes={place.processes}"]
    names = [f"--host={place.host}", f"--name={place.name}", f"--mgr={place.mgr}", f"--restarts={place.restarts}"]
    return ["-m", "tests.supervision.launcher", *sizes, *names]


STAND_IN: Final = Column("stand-in", command, script="none")


def play(name: str) -> None:
    """Play a fault, and check its outcome."""
    row = BY_NAME[name]
    with ExitStack() as stack:
        job = stack.enter_context(Job(STAND_IN, **row.job))
        due = row.act(job, random.Random(name), stack)
        outcome = see(row, STAND_IN, 0, job, due)
    assert outcome.outcome == GOOD[outcome.goal], outcome.words
    assert outcome.seconds <= row.ours + BUSY_S
