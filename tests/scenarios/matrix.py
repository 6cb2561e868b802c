"""The tables in `docs/interop.md` that tests write."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).parents[2] / "docs" / "interop.md"


def table_of(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table as the page has it."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines) + "\n"


def keep(begin: str, end: str, table: str, *, rewrite: bool) -> None:
    """Compare the text between two marks of the page with an observed table, or write the table there."""
    page = PAGE.read_text("utf-8")
    at, until = page.index(begin) + len(begin), page.index(end)
    if rewrite:
        PAGE.write_text(page[:at] + table + page[until:], "utf-8")
    else:
        assert page[at:until] == table, "docs/interop.md: pytest --rewrite-matrix"
