"""Faults of managers and whole jobs: each course ends as it has to."""

from __future__ import annotations

import pytest

from tests.supervision.plays import MANAGERS, play


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", MANAGERS)
def test_fault_has_its_outcome(name: str) -> None:
    play(name)
