"""The figures of the state in etcd: printed, and written into docs/high-availability.md."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from benchmarks.machine import caption, describe
from tests.faults.figures import Figures, Report, Row

DOCUMENT: Final = Path(__file__).resolve().parents[2] / "docs" / "high-availability.md"

ROWS: Final = {
    "decision": Row("a decision, until etcd has it", "≤ 1.5 × a bare put of as many bytes, in turns with it"),
    "failover": Row(
        "`kill -9` of the leader, 20 times", "the standby leads ≤ 6 s later; all are back ≤ 3 s after that"
    ),
    "host": Row(
        "packets to the leader's host and from it dropped, 10 times",
        "the standby leads ≤ 6 s later; the nodes are back ≤ 12 s after the loss",
    ),
    "ledger": Row(
        "50 fail-overs in the middle of rescheduling rounds",
        "no command lost, none carried out twice, no restart counted twice; traffic below one Proxy: 0 failures",
    ),
    "member": Row(
        "`kill -9` of one of three members", "not noticed; no command later than by the election and a retry"
    ),
    "away": Row(
        "all members away for 20 s", "the leader decides nothing, and goes on; the mesh's traffic is untouched"
    ),
}
"""The table, by the name under which a test reports."""

REPORT: Final = Report("figures of the state in etcd", DOCUMENT, ROWS, lambda: f"{caption(describe())}.")


@pytest.fixture
def figures(request: pytest.FixtureRequest) -> Figures:
    """The report of a test."""
    return REPORT.of(long=request.node.get_closest_marker("long") is not None)


def pytest_configure(config: pytest.Config) -> None:
    """Report the figures of a run at its end."""
    config.pluginmanager.register(REPORT)
