"""Docstrings and comments name their subject: none begins with a word that stands for the noun."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Final

import pytest

from tests.documents.pages import PAGES, ROOT

pytestmark = pytest.mark.skipif(len(PAGES) < 10, reason="the documents are part of a checkout")

FOLDERS: Final = ("taskd_net", "tests", "benchmarks", "examples", "lab")
AVOIDED: Final = re.compile(r"\W*(What|Who|Whom|How|Where|When|Whether|Which|Why|Whoever|Whatever|That|Those)\b")
"""First words that hide the noun: "Admission checks for messages", not "What a message has to pass"."""
STATEMENTS: Final = ("body", "orelse", "finalbody", "handlers", "cases")
"""Fields of a syntax tree that list statements, or parts of one that have some."""


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """The docstrings of a module with their lines, those of attributes included."""
    # `ast.walk` would visit expressions, too: most of the tree.
    parents: list[ast.AST] = [ast.parse(source)]
    while parents:
        parent = parents.pop()
        for statement in chain.from_iterable(getattr(parent, name, ()) for name in STATEMENTS):
            match statement:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield statement.lineno, text
                case _:
                    parents.append(statement)


def comments(source: str) -> Iterator[tuple[int, str]]:
    """The comments on lines of their own, with their lines; of several lines the first."""
    before = False
    for number, line in enumerate(source.splitlines(), 1):
        found = re.match(r"\s*# (.*)", line)
        if found is not None and not before:
            yield number, found[1]
        before = found is not None


@pytest.mark.parametrize("folder", FOLDERS)
def test_docstrings_and_comments_begin_with_the_noun_or_the_verb(folder: str) -> None:
    paths = [path for path in sorted((ROOT / folder).rglob("*.py")) if not path.name.endswith("_pb2.py")]
    assert paths
    assert [
        f"{path.relative_to(ROOT)}:{line}: {text.lstrip().splitlines()[0]}"
        for path in paths
        for source in [path.read_text("utf-8")]
        for line, text in chain(docstrings(source), comments(source))
        if AVOIDED.match(text)
    ] == []


@pytest.mark.parametrize("text", ["What it does.", "\n    Who is there.", "Those of the mesh.", "Whether it listens."])
def test_a_first_word_that_hides_the_noun_is_found(text: str, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(f'X = 1\n"""{text}"""\n\n    # {text.strip()}\n    # What follows is another line.\n')
    ((line, found),) = docstrings(path.read_text())
    assert line == 2
    assert list(comments(path.read_text()))[-1][1] == text.strip()
    assert AVOIDED.match(found)
    assert not AVOIDED.match(f"Thus. {found}")
