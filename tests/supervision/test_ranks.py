"""Faults of ranks: each course ends as it has to."""

from __future__ import annotations

import pytest

from tests.supervision.plays import RANKS, play


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", RANKS)
def test_fault_has_its_outcome(name: str) -> None:
    play(name)
