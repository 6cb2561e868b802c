"""Figures of tests, each beside its promise: printed, and written into the table of a document.

The table of the fault laboratory is in docs/reliability.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

DOCUMENT: Final = Path(__file__).resolve().parents[2] / "docs" / "reliability.md"
_BEGIN, _END = "<!-- figures: generated -->", "<!-- end of figures -->"
_HEADINGS: Final = ("fault", "promise", "measured")


@dataclass(frozen=True, slots=True)
class Row:
    """One fault and its promise, in the table's words."""

    fault: str
    promise: str


ROWS: Final = {
    "kill-mgr": Row("`kill -9` of the Mgr, restart on the same port", "every node routable ≤ 1 s after it listens"),
    "kill-proxy": Row(
        "`kill -9` of a Proxy, restart",
        "its Workers routable from the Mgr ≤ 1 s; the other Proxy's traffic undisturbed",
    ),
    "kill-worker": Row(
        "`kill -9` of a Worker",
        "senders get 6001 or 6002 ≤ 1 s; its place is free after the grace time; the rank may come back at once, on "
        "another node too",
    ),
    "stop-worker": Row(
        "SIGSTOP of a Worker for 30 s", "detected ≤ 8.5 s; others undisturbed; works again after SIGCONT"
    ),
    "stop-proxy": Row("SIGSTOP of a Proxy for 30 s", "detected ≤ 8.5 s; others undisturbed; works again after SIGCONT"),
    "cut-both": Row("network of a node cut for 10 s, both ways", "detected ≤ 8.5 s; rejoined ≤ 2 s after it heals"),
    "cut-up": Row("… only towards the Mgr", "detected ≤ 8.5 s; rejoined ≤ 2 s after it heals"),
    "cut-down": Row("… only from the Mgr", "detected ≤ 8.5 s; rejoined ≤ 2 s after it heals"),
    "link-down": Row(
        "link between two network namespaces down for 10 s, under traffic",
        "detected ≤ 3 s; rejoined ≤ 2 s after it heals",
    ),
    "link-one-way": Row("… its packets lost one way, for 10 s", "detected ≤ 3 s; rejoined ≤ 2 s after it heals"),
    "lossy": Row("100 ms delay, 2 % loss, for 60 s", "no false death; throughput"),
    "mgr-away": Row(
        "Mgr away for 60 s", "Worker ↔ Worker under one Proxy keeps working; sends to the Mgr wait, or fail with 6002"
    ),
    "any-order": Row("start in any order, Mgr last by 10 s", "all joined ≤ 1 s after the Mgr listens"),
    "crowd": Row(
        "500 children of one parent reconnect together",
        "all joined ≤ 5 s; attempts spread by jitter, the first one too",
    ),
    "deaf": Row(
        "a Worker that never reads its inbox",
        "its senders get 5001; throughput of the others ≥ 90 % of before; memory bounded",
    ),
    "flood": Row("10 × what the mesh can carry, for 60 s", "memory bounded; answers 5001; recovers ≤ 1 s after"),
    "flood-at-once": Row(
        "… 10 × as many at once as the links hold", "memory bounded; answers 5001; recovers ≤ 1 s after"
    ),
    "large": Row("8 MiB messages among small ones", "no starvation of the small ones"),
    "chaos": Row(
        "kills, stops, cuts every second for 3 minutes, 100,000 sync messages with retries",
        "acknowledged with 0: delivered exactly once; every other one has a code; none vanishes",
    ),
    "clock": Row("clock steps by an hour, both ways", "no effect"),
    "leaks": Row(
        "1,000 joins and leaves, of the same and of different ranks",
        "file descriptors, tasks, threads and memory back to where they began",
    ),
}
"""The table, by the name under which a test reports."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value. `met`: whether it keeps the promise; None without one."""

    text: str
    met: bool | None


@dataclass(slots=True)
class Figures:
    """All figures of one run, by row."""

    rows: dict[str, list[Figure]] = field(default_factory=dict)

    def add(
        self,
        row: str,
        what: str,
        value: float,
        unit: str = "",
        *,
        at_most: float | None = None,
        at_least: float | None = None,
    ) -> None:
        """Report a value; with a bound, check the promise."""
        bounds = [at_most is None or value <= at_most, at_least is None or value >= at_least]
        met = all(bounds) if at_most is not None or at_least is not None else None
        figure = Figure(f"{what} {number(value)}{' ' if unit else ''}{unit}", met)
        self.rows.setdefault(row, []).append(figure)
        bounds_text = [f"≤ {at_most:g}"] if at_most is not None else [f"≥ {at_least:g}"] if at_least is not None else []
        promise = "".join(f" (promised: {bound})" for bound in bounds_text)
        print(f"{row}: {figure.text}{promise}{'  MISSED' if met is False else ''}")

    def note(self, row: str, text: str) -> None:
        """Report an observation in words."""
        self.rows.setdefault(row, []).append(Figure(text, None))
        print(f"{row}: {text}")

    @property
    def missed(self) -> list[str]:
        """The broken promises."""
        return [f"{row}: {figure.text}" for row, all_ in self.rows.items() for figure in all_ if figure.met is False]

    def write(self, document: Path = DOCUMENT, table: Mapping[str, Row] = ROWS, below: str = "") -> None:
        """Fill in the measured column. Rows without a figure in this run stay.

        Args:
            document: has the place for the table.
            table: the rows, by the names under which tests report.
            below: a line under the table.
        """
        text = document.read_text()
        found = re.search(re.escape(_BEGIN) + "(.*?)" + re.escape(_END), text, re.DOTALL)
        assert found is not None, f"{document} has no place for the figures"
        known = {cells[0]: cells[2] for cells in map(_cells, found[1].splitlines()) if len(cells) == len(_HEADINGS)}
        lines = [_line(_HEADINGS), _line(["---"] * len(_HEADINGS))]
        for name, row in table.items():
            measured = self.rows.get(name)
            cell = "; ".join(_in_table(figure) for figure in measured) if measured else known.get(row.fault, "")
            lines.append(_line([row.fault, row.promise, cell]))
        made = "\n".join(lines) + (f"\n\n{below}" if below else "")
        document.write_text(text[: found.start()] + f"{_BEGIN}\n\n{made}\n\n{_END}" + text[found.end() :])


class Report:
    """The figures of one run: a plugin of pytest, which the conftest of their tests registers.

    Args:
        title: of the section at the end of the run.
        document: has the place for the table.
        table: the rows, by the names under which tests report.
        below: makes a line under the table.

    Attributes:
        figures: takes the reports.
    """

    def __init__(self, title: str, document: Path, table: Mapping[str, Row], below: Callable[[], str] = str) -> None:
        self._title = title
        self._document = document
        self._table = table
        self._below = below
        self.figures = Figures()

    def of(self, *, long: bool) -> Figures:
        """The report of a test. Reports of the short forms are printed only."""
        return self.figures if long else Figures()

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the figures on request, and fail the run if a promise was missed."""
        if self.figures.rows and session.config.getoption("--write-figures", False):
            self.figures.write(self._document, self._table, self._below())
        if self.figures.missed and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the figures, and the missed promises."""
        if not self.figures.rows:
            return
        terminalreporter.section(self._title)
        for row, measured in self.figures.rows.items():
            for figure in measured:
                terminalreporter.line(f"{row:14} {figure.text}{'  MISSED' if figure.met is False else ''}")
        for missed in self.figures.missed:
            terminalreporter.line(f"missed: {missed}", red=True)


def number(value: float) -> str:
    """A value with its significant digits."""
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"


def _in_table(figure: Figure) -> str:
    return f"**{figure.text} (missed)**" if figure.met is False else figure.text


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split(" | ")] if line.startswith("|") else []
