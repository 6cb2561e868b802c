"""docs/operations.md has every log event, metric and code, and no others."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from taskd_net import Code
from tests.metrics import exported

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "operations.md"
LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}

pytestmark = pytest.mark.skipif(not DOCUMENT.exists(), reason="the documents are part of a checkout")


def rows(heading: str) -> dict[str, list[str]]:
    """The rows of the last table below a heading, by their first cell."""
    section = re.split(r"^## ", DOCUMENT.read_text(), flags=re.MULTILINE)
    (text,) = (part for part in section if part.startswith(heading + "\n"))
    table = text.strip().split("\n\n")
    lines = next(part for part in reversed(table) if part.startswith("| ")).splitlines()[2:]
    found = {}
    for line in lines:
        first, *rest = (cell.strip() for cell in line.strip("|").split(" | "))
        assert first not in found, first
        found[first.strip("` ")] = rest
    return found


def is_logger(value: ast.expr) -> bool:
    """`log`, `self._log`, `host.log`."""
    return ast.unparse(value).rpartition(".")[2] in ("log", "_log")


def events() -> dict[str, set[str]]:
    """The events in the source, with their levels."""
    found: dict[str, set[str]] = {}
    for path in sorted(path for folder in ("taskd_net", "compat") for path in (ROOT / folder).rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text())):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
                continue
            if call.func.attr in LEVELS and is_logger(call.func.value):
                name = call.args[0]
                assert isinstance(name, ast.Constant) and isinstance(name.value, str), (path.name, call.lineno)
                level = "error" if call.func.attr == "exception" else call.func.attr
                found.setdefault(name.value, set()).add(level)
    return found


def test_every_log_event_is_there_with_its_level() -> None:
    known = events()
    assert len(known) > 40
    assert {event: {cells[0]} for event, cells in rows("Log events").items()} == known


def test_every_code_is_there_with_its_name() -> None:
    described = {code: cells[0] for code, cells in rows("Codes").items()}
    assert described == {str(int(code)): f"`{code.name}`" for code in Code}


async def test_every_metric_is_there_with_its_labels() -> None:
    known: dict[str, set[str]] = {}
    for name, labels in (await exported()).items():
        if name.startswith("taskd_net_"):
            family = re.sub(r"_(bucket|count|sum)$", "", name)
            known.setdefault(family, set()).update(set(labels) - {"le"})
    described = {
        name: set(re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", cells[0]))) for name, cells in rows("Metrics").items()
    }
    assert described == known
