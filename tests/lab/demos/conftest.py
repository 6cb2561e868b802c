from __future__ import annotations

import os
from typing import Final

import pytest

PLAYED_BY: Final = "TEST_PLAYED_BY"
"""Variable of the processes of a play: the number of the process that runs the tests."""


@pytest.fixture(autouse=True)
def played_by(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mark all processes that a test begins."""
    monkeypatch.setenv(PLAYED_BY, str(os.getpid()))
