"""The faults of `make supervise` under `taskd-net run`: each course ends as it has to."""

from __future__ import annotations

import os
import random
from contextlib import ExitStack

import pytest

from benchmarks.supervision.__main__ import OURS
from benchmarks.supervision.job import MEMORY, Column, Job
from benchmarks.supervision.outcome import LEFT, SUCCEEDS, see
from benchmarks.supervision.rows import ENDS, ROWS, TRAINS, Row
from tests.supervision.plays import BUSY_S

GOOD = {TRAINS: SUCCEEDS, ENDS: LEFT}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("column", OURS, ids=["same-script", "rejoins"])
@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_fault_has_its_outcome(row: Row, column: Column) -> None:
    if row.name == "memory" and not (os.geteuid() == 0 and os.access(MEMORY, os.W_OK)):
        pytest.skip("this user may make no memory cgroup of version 1 here")
    with ExitStack() as stack:
        job = stack.enter_context(Job(column, **row.job))
        due = row.act(job, random.Random(row.name), stack)
        outcome = see(row, column, 0, job, due)
        words = job.words()
    assert outcome.outcome == GOOD[outcome.goal], outcome.words
    assert outcome.seconds <= row.ours + BUSY_S, words
