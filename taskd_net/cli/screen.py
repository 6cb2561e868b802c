"""The standard output of a command that draws: wrapped, or cut to one screen, in the characters that it has.

Daemons and commands of plain lines do without `rich`.
"""

from __future__ import annotations

import codecs
import os
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NoReturn

from rich.console import Console

from taskd_net.base.untrusted import printable
from taskd_net.cli.mesh_lines import Line

_HOME: Final = "\x1b[H\x1b[2J"


class Screen(Console):
    """The standard output as a terminal, or as a file for which styles are left out.

    Colours follow `NO_COLOR`. A dumb terminal is written like a file, but for the width of its lines.
    """

    def __init__(self) -> None:
        super().__init__(highlight=False, soft_wrap=True, emoji=False, markup=False)
        self._ascii = speaks_ascii_alone(self.encoding, os.environ if self.is_terminal else {})

    def on_broken_pipe(self) -> NoReturn:
        """Leave the error to `cli.group`; rich would end with 1, which is the verdict of a command."""
        raise BrokenPipeError

    @property
    def live(self) -> bool:
        """True where a screen can be drawn over the one before."""
        return self.is_terminal and not self.is_dumb_terminal

    def say(self, text: str, style: str = "") -> None:
        """Write a line in a style."""
        said = printable(text)
        self.print(to_ascii(said) if self._ascii else said, style=style)

    def say_all(self, lines: Iterable[tuple[str, str]], *, again: bool) -> None:
        """Write lines, each with its style; on a terminal none runs through the tree.

        Args:
            lines: the lines.
            again: whether others follow: a terminal shows one screen of them, from the first one on, and a file gets an
                empty line after them.
        """
        if again and self.live:
            self.draw(fitted(list(lines), self.width, self.height))
            return
        for text, style in wrapped(lines, self.width) if self.is_terminal else lines:
            self.say(text, style=style)
        if again:
            self.say("")

    def draw(self, lines: Iterable[tuple[str, str]]) -> None:
        """Draw one screen over the one before."""
        self.file.write(_HOME)
        for text, style in lines:
            self.say(text, style=style)


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
