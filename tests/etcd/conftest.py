"""The figures of the state in etcd: printed, and written into docs/high-availability.md."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from benchmarks.machine import caption, describe
from tests.faults.figures import Figures, Row

DOCUMENT: Final = Path(__file__).resolve().parents[2] / "docs" / "high-availability.md"

ROWS: Final = {
    "decision": Row("a decision, until etcd has it", "≤ 1.5 × a bare put of as many bytes, in turns with it"),
    "failover": Row(
        "`kill -9` of the leader, 20 times", "the standby leads ≤ 6 s later; all are back ≤ 3 s after that"
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

_FIGURES: Final = pytest.StashKey[Figures]()


@pytest.fixture
def figures(request: pytest.FixtureRequest) -> Figures:
    """The report of a test. Reports of the short forms are printed only."""
    return request.config.stash[_FIGURES] if request.node.get_closest_marker("long") else Figures()


def pytest_configure(config: pytest.Config) -> None:
    """Begin with no figures."""
    config.stash[_FIGURES] = Figures()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the figures on request, and fail the run if a promise was missed."""
    figures = session.config.stash[_FIGURES]
    if figures.rows and session.config.getoption("--write-figures", False):
        figures.write(DOCUMENT, ROWS, f"{caption(describe())}.")
    if figures.missed and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the figures, and the missed promises."""
    figures = config.stash[_FIGURES]
    if not figures.rows:
        return
    terminalreporter.section("figures of the state in etcd")
    for row, measured in figures.rows.items():
        for figure in measured:
            terminalreporter.line(f"{row:14} {figure.text}{'  MISSED' if figure.met is False else ''}")
