"""The measure `recovery` in a short form: it runs, and counts."""

from __future__ import annotations

import pytest

from benchmarks import recovery
from benchmarks.measures import Bench
from benchmarks.systems import OURS
from benchmarks.targets import targets_of
from tests.benchmarks.conftest import SHORT, require_sane

pytestmark = pytest.mark.more


def test_signals_returns_and_rest_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"SIGNALS": 3, "RETURNS": 1, "ROW": 100, "REST_S": 0.2, "SETTLE_S": 0.0}.items():
        monkeypatch.setattr(recovery, name, value)
    bench = Bench(SHORT, lambda _: None, (OURS,))
    recovery.recovery(bench)
    require_sane(bench.results)
    for outcome in ("lost", "twice"):
        assert bench.results.value("recovery", f"100 signals in a row: {outcome}", OURS) == 0.0
    targets = {target.name: target for target in targets_of(["recovery", "latency"], bench.results)}
    missing = [name for name, target in targets.items() if target.value is None]
    assert missing == [f"Recovery: 10,000 signals in a row: {outcome}" for outcome in ("lost", "twice")]
    assert "Recovery: ClusterD listens until its client has subscribed, p99" in targets
