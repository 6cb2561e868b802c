"""docs/design.md has a line for each file and folder at the top level of the package."""

from __future__ import annotations

import re

import pytest

from tests.documents.pages import ROOT

DESIGN = ROOT / "docs" / "design.md"
pytestmark = pytest.mark.skipif(not DESIGN.exists(), reason="the documents are part of a checkout")


def test_each_top_level_name_has_its_line() -> None:
    _, _, rest = DESIGN.read_text().partition("\n## The top level of the package\n")
    lines = re.findall(r"^\| `([\w./]+)` \|", rest.partition("\n## ")[0], re.MULTILINE)
    package = ROOT / "taskd_net"
    files = {path.name for path in package.glob("*.py")} - {"__init__.py"}
    folders = {f"{path.parent.name}/" for path in package.glob("*/__init__.py")}
    assert lines == sorted(files | folders)
