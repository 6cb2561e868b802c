"""Lines on a terminal: wrapped beside the tree, or cut to one screen, in the characters that it has."""

from __future__ import annotations

import codecs
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from taskd_net.cli.branches import Line

NARROWEST: Final = 20
"""Columns that are used even where a terminal says that it has fewer."""

_STEMS: Final = re.compile(r"^[│├└─ ]*")
_BELOW: Final = str.maketrans("├└─", "│  ")
_ASCII: Final = str.maketrans({"│": "|", "├": "|", "└": "`", "─": "-", "…": "~", "●": "*", "µ": "u"})
_HANG: Final = "  "


def wrapped(lines: Iterable[Line], width: int) -> Iterator[Line]:
    """Break long lines; the rest of a line stands to the right of the tree's stems."""
    columns = max(NARROWEST, width)
    for text, style in lines:
        if len(text) <= columns:
            yield text, style
            continue
        found = _STEMS.match(text)
        stems = found[0] if found else ""
        below = stems.translate(_BELOW) + _HANG
        if len(below) >= columns // 2:  # a tree as deep as the terminal is wide
            yield cut(text, columns), style
            continue
        parts = textwrap.wrap(
            text[len(stems) :], columns, initial_indent=stems, subsequent_indent=below, break_on_hyphens=False
        )
        yield from ((part, style) for part in parts)


def fitted(lines: Sequence[Line], width: int, height: int) -> list[Line]:
    """One screen: the first lines, none longer than the screen, and a last one that says how many are left out."""
    room = max(2, height - 1)
    shown = [(cut(text, max(NARROWEST, width)), style) for text, style in lines]
    if len(shown) <= room:
        return shown
    left = f"{len(shown) - room + 1} lines more: a taller terminal has them"
    return [*shown[: room - 1], (cut(left, max(NARROWEST, width)), "dim")]


def cut(text: str, width: int) -> str:
    """A text of at most `width` characters; a longer one ends with an ellipsis."""
    return text if len(text) <= width else text[: width - 1] + "…"


def to_ascii(text: str) -> str:
    """The text with the nearest ASCII characters for those of the tree; of any others it has escapes."""
    return text.translate(_ASCII).encode("ascii", "backslashreplace").decode()


def speaks_ascii_alone(encoding: str, environment: Mapping[str, str]) -> bool:
    """True for a terminal without characters beyond ASCII, by its encoding and the variables of the locale.

    Python takes the locale C for UTF-8, so its encoding does not tell. A locale that nobody has set tells nothing.
    """
    try:
        if codecs.lookup(encoding).name != "utf-8":
            return True
    except LookupError:
        return True
    locale = next((said for name in ("LC_ALL", "LC_CTYPE", "LANG") if (said := environment.get(name))), "")
    charset = locale.partition(".")[2].partition("@")[0]
    return locale in ("C", "POSIX") or (bool(charset) and charset.replace("-", "").lower() != "utf8")
