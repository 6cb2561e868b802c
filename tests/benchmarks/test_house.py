"""The figures of `make house`: they are counted right, here and in an earlier version."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from benchmarks import checkout, house

MODULE = '''"""A module."""

from __future__ import annotations

import os

LIMIT = 3
"""A docstring of a constant."""


class Thing:
    """A class."""

    def put(self, other: Thing) -> None:
        # A comment.
        self.value = other.value = (
            LIMIT
        )
        other.count += 1
        self.a, other.b = 1, 2
        other.seen: bool = True
        other.declared: bool
'''


def test_logical_lines_are_those_without_docstrings() -> None:
    assert house.logical_lines(MODULE) == 10


def test_writes_to_other_objects_are_foreign() -> None:
    assert sum(map(house.foreign_writes, ast.walk(ast.parse(MODULE)))) == 4


def test_figures_are_of_the_package_without_what_is_left_out(tmp_path: Path) -> None:
    package = tmp_path / "taskd_net"
    names = ("__init__.py", "few_limits.py", "core/__init__.py", "core/thing.py", "demo/thing.py", "net/wire/x_pb2.py")
    for name in names:
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("" if path.stem == "__init__" else MODULE)
    assert house.Sources(tmp_path).figures() == {
        "logical lines": "20",
        "modules": "4",
        "top level of the package: files + folders": "1 + 1",
        "share of imports in logical lines": "20.0%",
        "foreign writes: core / jobs": "4 / 0",
        "class names that several classes share": "1",
        "constants in files of limits": "1",
    }


def test_row_says_why_a_checkout_has_no_figure(tmp_path: Path) -> None:
    package = tmp_path / "taskd_net"
    package.mkdir()
    (package / "__init__.py").write_text("pass\n")
    assert house.figures(tmp_path)["settings"] == "– (ModuleNotFoundError: No module named 'taskd_net.cli')"


@pytest.mark.more
@pytest.mark.skipif(not (checkout.HERE / ".git").exists(), reason="the earlier version is part of git's history")
def test_table_has_this_checkout_beside_the_earlier_version(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["house"])
    monkeypatch.setenv("COLUMNS", "160")
    house.main()
    said = capsys.readouterr().out
    assert "–" not in said
    rows = [line.strip("│ ").split("│") for line in said.splitlines() if line.startswith("│")]
    earlier = {name.strip(): figure.strip() for name, figure, _ in rows}
    assert earlier["foreign writes: core / jobs"] == "145 / 125"
    assert earlier["settings"] == "77"
    assert int(earlier["walk of a 202 until its commands: calls / modules"].split()[0]) > 500


def test_benchmarks_name_modules_as_the_other_checkout_does() -> None:
    texts = {
        "from taskd_net.base import limits": "from taskd_net import limits",
        "from taskd_net.job.decide.events import Reported": "from taskd_net.jobs.events import Reported",
        "from taskd_net.node.node import Node": "from taskd_net.node import Node",
        "from taskd_net.core.links import UP": "from taskd_net.core.links import UP",
    }
    assert {text: checkout.before_rooms(text) for text in texts} == texts
