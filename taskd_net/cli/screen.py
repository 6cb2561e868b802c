"""The standard output of a command that draws. Daemons and commands of plain lines do without `rich`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

from rich.console import Console

from taskd_net.base.untrusted import printable
from taskd_net.cli.frames import fitted, speaks_ascii_alone, to_ascii, wrapped

_HOME: Final = "\x1b[H\x1b[2J"


class Screen(Console):
    """The standard output as a terminal, or as a file for which styles are left out.

    Colours follow `NO_COLOR`. A dumb terminal is written like a file, but for the width of its lines.
    """

    def __init__(self) -> None:
        super().__init__(highlight=False, soft_wrap=True, emoji=False, markup=False)
        self._ascii = speaks_ascii_alone(self.encoding, os.environ if self.is_terminal else {})

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
