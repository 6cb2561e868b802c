"""The measure `faults` in a short form: it runs, and counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import fault_mesh, faults
from benchmarks.command import fill_own
from benchmarks.machine import describe
from benchmarks.measures import Bench
from benchmarks.systems import OURS
from benchmarks.targets import targets_of
from taskd_net.job.faults import editions
from tests.benchmarks.conftest import SHORT, require_sane

pytestmark = pytest.mark.more

PERIOD = "Faults: change of a file until it is in force, unwatched, PollInterval 30"


async def skipped(bench: Bench) -> None:
    """No period passes here: the least one is 30 s."""


def test_policy_memory_and_mesh_are_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in {"EVENTS": 2_000, "MANY": 200}.items():
        monkeypatch.setattr(faults, name, value)
    for name, value in {"FAULTS": 400, "DEVICES": 200, "COUNTERS": 120}.items():
        monkeypatch.setattr(editions, name, value)
    for name, value in {"EVENTS": 3, "CHANGES": 2}.items():
        monkeypatch.setattr(fault_mesh, name, value)
    monkeypatch.setattr(fault_mesh, "_period", skipped)
    bench = Bench(SHORT, lambda _: None, (OURS,))
    faults.faults(bench)
    require_sane(bench.results)
    targets = {target.name: target for target in targets_of(["faults"], bench.results)}
    assert [name for name, target in targets.items() if target.value is None] == [PERIOD]
    assert set(targets) == {
        PERIOD,
        "Faults: events through the policy",
        "Faults: memory of 10,000 devices, 1 % of them with counters",
        "Faults: event at the Manager until its command is at the Agent, p99",
        "Faults: change of a file until it is in force, p99",
    }
    document = tmp_path / "performance.md"
    document.write_text("<!-- faults: generated -->\n\n<!-- end of faults -->\n")
    assert fill_own(["faults"], bench.results, describe(), document) == []
    assert all(name in document.read_text() for name in targets)
