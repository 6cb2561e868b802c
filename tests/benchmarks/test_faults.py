"""The measure `faults` in a short form: it runs, and counts."""

from __future__ import annotations

import pytest

from benchmarks import faults
from benchmarks.measures import Bench
from benchmarks.systems import OURS
from benchmarks.targets import targets_of
from taskd_net.faults import editions
from tests.benchmarks.conftest import SHORT, require_sane


def test_throughput_and_memory_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"EVENTS": 2_000, "MANY": 200}.items():
        monkeypatch.setattr(faults, name, value)
    for name, value in {"FAULTS": 400, "DEVICES": 200, "COUNTERS": 120}.items():
        monkeypatch.setattr(editions, name, value)
    bench = Bench(SHORT, lambda _: None, (OURS,))
    faults.faults(bench)
    require_sane(bench.results)
    names = {target.name for target in targets_of(["faults"], bench.results) if target.value is not None}
    assert names == {
        "Faults: events through the policy",
        "Faults: memory of 10,000 devices, 1 % of them with counters",
    }
