"""docs/operators-guide.md: what the commands print stands there between markers, and is written there by this module."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

DOCUMENT: Final = Path(__file__).resolve().parents[2] / "docs" / "operators-guide.md"

_SHOWN = re.compile(r"(<!-- shown: (\S+) -->\n)(?:```\n(.*?)```\n)?(<!-- end -->)", re.DOTALL)


def shown(page: str) -> dict[str, str]:
    """What a page has between its markers, by name."""
    found = {name: text for _, name, text, _ in _SHOWN.findall(page)}
    assert len(found) == page.count("<!-- shown: "), "a marker without end, or a name twice"
    return found


def written(page: str, texts: Mapping[str, str]) -> str:
    """The page with these texts between its markers.

    Raises:
        KeyError: there is no text for a marker.
    """
    return _SHOWN.sub(lambda found: f"{found[1]}```\n{texts[found[2]]}```\n{found[4]}", page)


def shape(text: str) -> list[str]:
    """What has to be the same in every run: the words, without figures and what is only sometimes measured."""
    lines = []
    for line in text.splitlines():
        line = re.sub(r"  (gets )?answers in \S+ ms|  \d+ in flight|  reconnected \d+ times", "", line)
        line = re.sub(r"\d+(?:[.,:]\d+)*(?:e[+-]?\d+)?", "#", line)
        # How long something has lasted, in whatever unit; and what `top` may not have measured.
        line = re.sub(r"# (?:s|min|h)\b(?: # min)?", "# T", line)
        line = re.sub(r"(?<= )-(?= |$)", "#", line)
        lines.append(re.sub(r" +", " ", line).strip())
    return lines
