"""The table of docs/mindspore.md: its form, its limits, and one turn of each time."""

from __future__ import annotations

import re
import sys

import pytest

from tests.mindspore import figures
from tests.mindspore.figures import DOCUMENT, Figure

ROWS = [Figure("a", 100, [[20.4, 90.2, 30.0], [120.0]]), Figure("b", 1100, [[1000.0]]), Figure("c", 100, [[99.0], []])]


def test_table() -> None:
    lines = figures.table(ROWS).splitlines()
    assert lines[2:] == [
        "| a | 100 | 30 (90) | 120 (120) |",
        "| b | 1,100 | 1000 (1000) | – |",
        "| c | 100 | 99 (99) | – |",
    ]
    assert figures.missed(ROWS) == ["a"]


@pytest.mark.skipif(not DOCUMENT.exists(), reason="the documents are part of a checkout")
def test_document_has_a_place_for_it() -> None:
    text = DOCUMENT.read_text()
    assert re.search(r"(?s)<!-- figures: generated -->\n.*\n<!-- end of figures -->", text)


@pytest.mark.long
def test_every_time_is_measured(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """In one turn. Limits are for a machine at rest."""
    monkeypatch.setattr(sys, "argv", ["figures", "--turns", "1"])
    monkeypatch.setattr(figures, "missed", lambda _: [])
    figures.main()
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if re.search(r"\| [\d,]+ \| -?\d+ \(-?\d+\) \| ", line)] == lines[2:9]
