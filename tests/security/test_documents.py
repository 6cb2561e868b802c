"""docs/security.md names existing tests, and every test of an attack."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.security.attacks import ATTACKS

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "security.md"
TABLES = "## Attacks, answers, tests"

pytestmark = pytest.mark.skipif(not DOCUMENT.exists(), reason="the documents are part of a checkout")


def functions_in(file: str) -> set[str]:
    """The test functions of a module."""
    tree = ast.parse((ROOT / file).read_text())
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {node.name for node in functions if node.name.startswith("test_")}


def named() -> set[tuple[str, str]]:
    """Modules and tests in the document; the test is empty for a whole module."""
    return set(re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", DOCUMENT.read_text()))


def test_every_row_names_a_test_that_exists() -> None:
    rows = [
        line
        for line in DOCUMENT.read_text().partition(TABLES)[2].splitlines()
        if line.startswith("| ") and "expected answer" not in line
    ]
    assert len(rows) > 40
    for row in rows:
        assert re.search(r"`tests/[\w/]+\.py(::\w+)?`", row), row
    for file, test in named():
        assert (ROOT / file).exists(), file
        assert not test or test in functions_in(file), f"{file}::{test}"


@pytest.mark.parametrize("file", ["tests/security/test_limits.py", "tests/security/test_certificates.py"])
def test_every_limit_and_certificate_that_is_refused_has_a_row(file: str) -> None:
    honest = {
        "test_nothing_is_still_counted_when_all_is_answered",
        "test_position_that_the_certificate_names",
        "test_newcomer_with_the_same_certificate_wins",
        "test_tree_of_certificates",
    }
    assert functions_in(file) - honest == {test for module, test in named() if module == file}


def test_every_attack_has_a_row_and_every_row_an_attack() -> None:
    found = re.search(r"<!-- attacks: generated -->\n(.*?)<!-- end of attacks -->", DOCUMENT.read_text(), re.DOTALL)
    assert found is not None
    rows = [line for line in found[1].splitlines() if line.startswith("| `")]
    told = [(row.split("`")[1], ", an exception" in row.split(" | ")[0], row.split("`")[-2]) for row in rows]
    modules = {name: f"{attack.module.replace('.', '/')}.py" for name, attack in ATTACKS.items()}
    assert told == [(name, not attack.promised, modules[name]) for name, attack in ATTACKS.items()]
