"""The host's clock, even between two of its steps."""

from __future__ import annotations

import time

import pytest

from taskd_net.base.host_clock import HostClock


def test_it_runs_evenly_until_it_is_told_to_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    wall, steady = 5000.0, 10.0
    monkeypatch.setattr(time, "time", lambda: wall)
    clock = HostClock(lambda: steady)
    assert clock.follow() is None and clock.now() == 5000.0
    wall, steady = wall + 1.5, steady + 1.0
    assert clock.follow() is None, "clocks differ by less than a step"
    wall = 1000.0
    assert (clock.now(), clock.at(10.0)) == (5001.0, 5000.0)
    assert clock.follow() == (5001.0, 1000.0)
    assert (clock.follow(), clock.now(), clock.at(10.0)) == (None, 1000.0, 999.0)
