"""docs/operators-guide.md: the output of the commands stands between markers, and comes from here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

DOCUMENT: Final = Path(__file__).resolve().parents[2] / "docs" / "operators-guide.md"

_SHOWN = re.compile(r"(<!-- shown: (\S+) -->\n)(?:```\w*\n(.*?)```\n)?(<!-- end -->)", re.DOTALL)


def shown(page: str) -> dict[str, str]:
    """The texts between a page's markers, by name."""
    found = {name: text for _, name, text, _ in _SHOWN.findall(page)}
    assert len(found) == page.count("<!-- shown: "), "a marker without end, or a name twice"
    return found


def written(page: str, texts: Mapping[str, str], language: str = "") -> str:
    """Put these texts between the page's markers, as blocks in a language.

    Raises:
        KeyError: there is no text for a marker.
    """
    return _SHOWN.sub(lambda found: f"{found[1]}```{language}\n{texts[found[2]]}```\n{found[4]}", page)


_LEFT_OUT: Final = (
    # A command may come before a node's first report.
    (r": the parent offers no \w+ link", ""),
    (r"  (gets )?answers in \S+ ms|  \d+ in flight|  reconnected \d+ times", ""),
    (r"\d+(?:[.,:]\d+)*(?:e[+-]?\d+)?", "#"),
    # A duration, in any unit.
    (r"# (?:s|min|h)\b(?: # min)?", "# T"),
    # A value that `top` has not measured.
    (r"(?<= )-(?= |$)", "#"),
    (r" +", " "),
)


def shape(text: str) -> list[str]:
    """The part that is the same in every run: the words, without figures and optional values."""
    for pattern, instead in _LEFT_OUT:
        text = re.sub(pattern, instead, text, flags=re.MULTILINE)
    # The sign of a clock difference counts as a figure.
    text = re.sub(r"(ahead of|behind) the upstream's", "off the upstream's", text)
    return [line.strip() for line in text.splitlines()]
