"""The table in the document: measured rows are filled in, others stay, and a missed promise shows."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.faults.figures import DOCUMENT, ROWS, Figures, Report


@pytest.fixture
def document(tmp_path: Path) -> Path:
    """A copy of the document."""
    copy = tmp_path / "reliability.md"
    copy.write_text(DOCUMENT.read_text())
    return copy


def row_of(document: Path, name: str) -> str:
    """A row of the table."""
    return next(line for line in document.read_text().splitlines() if line.startswith(f"| {ROWS[name].fault} |"))


def test_measured_rows_are_filled_in_and_others_stay(document: Path) -> None:
    first, second = Figures(), Figures()
    first.add("kill-mgr", "all routable:", 0.5, "s", at_most=1.0)
    first.add("clock", "failed:", 0)
    first.write(document)
    second.add("clock", "failed:", 3, at_most=0)
    second.note("clock", "and in words")
    second.write(document)
    assert row_of(document, "kill-mgr").endswith("| all routable: 0.50 s |")
    assert row_of(document, "clock").endswith("| **failed: 3 (missed)**; and in words |")
    assert (first.missed, second.missed) == ([], ["clock: failed: 3"])
    text = document.read_text()
    assert text.startswith(DOCUMENT.read_text()[:100]) and text.endswith(DOCUMENT.read_text()[-100:])


def test_bounds() -> None:
    figures = Figures()
    figures.add("deaf", "", 89.9, at_least=90.0)
    figures.add("deaf", "", 90.0, at_least=90.0)
    figures.add("deaf", "", 1.1, at_most=1.0)
    figures.add("deaf", "", 1.0, at_most=1.0)
    assert [figure.met for figure in figures.rows["deaf"]] == [False, True, False, True]


def test_run_is_failed_by_a_missed_promise_of_the_long_forms_alone(document: Path) -> None:
    report = Report("figures", document, ROWS, lambda: "One machine.")
    given = SimpleNamespace(config=SimpleNamespace(getoption=lambda *_: True), exitstatus=pytest.ExitCode.OK)
    session, before = cast("pytest.Session", given), document.read_text()
    for long, code in ((False, pytest.ExitCode.OK), (True, pytest.ExitCode.TESTS_FAILED)):
        report.of(long=long).add("clock", "failed:", 3, at_most=0)
        report.pytest_sessionfinish(session)
        assert session.exitstatus == code
        assert (document.read_text() != before) == long
    assert row_of(document, "clock").endswith("| **failed: 3 (missed)** |")
    assert "\n\nOne machine.\n\n<!-- end" in document.read_text()


def test_figures_are_printed_at_the_end_of_a_run(document: Path) -> None:
    report, lines = Report("figures", document, ROWS), list[str]()
    reporter = cast(
        "pytest.TerminalReporter", SimpleNamespace(section=lines.append, line=lambda text, **_: lines.append(text))
    )
    report.pytest_terminal_summary(reporter)
    assert not lines, "none were measured"
    report.of(long=True).add("clock", "failed:", 3, at_most=0)
    report.pytest_terminal_summary(reporter)
    assert lines == ["figures", f"{'clock':14} failed: 3  MISSED", "missed: clock: failed: 3"]


def test_every_row_says_a_fault_of_its_own() -> None:
    assert len({row.fault for row in ROWS.values()}) == len(ROWS)
