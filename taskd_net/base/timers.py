"""Times of periodic work, rounded so that timers of many objects wake a process once."""

from __future__ import annotations

import math


def on_grid(at: float, grid: float) -> float:
    """The first multiple of `grid` seconds that is not before `at`."""
    return math.ceil(at / grid) * grid
