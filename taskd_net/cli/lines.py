"""Lines of commands on the standard files: the gate for every text that a node, a file or an argument may have made.

Each call writes one line, and no character of it has an effect on a terminal (`untrusted.printable`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import click
from rich.console import Console

from taskd_net.untrusted import json_line, printable


def say(text: str, *, err: bool = False) -> None:
    """Write a line on the standard output, or on stderr."""
    click.echo(printable(text), err=err)


def say_json(value: object) -> None:
    """Write a value as one line of JSON on the standard output."""
    click.echo(json_line(value))


_CLEAR: Final = "\x1b[H\x1b[2J\x1b[3J"


class Screen(Console):
    """The standard output as a terminal, or as a file for which styles are left out."""

    def __init__(self) -> None:
        super().__init__(highlight=False, soft_wrap=True, emoji=False, markup=False)

    def say(self, text: str, style: str = "") -> None:
        """Write a line in a style."""
        self.print(printable(text), style=style)

    def say_all(self, lines: Iterable[tuple[str, str]], *, again: bool) -> None:
        """Write lines, each with its style.

        Args:
            lines: the lines.
            again: whether others follow: a terminal is cleared before them, and a file gets an empty line after them.
        """
        if again and self.is_terminal:
            self.file.write(_CLEAR)
        for text, style in lines:
            self.say(text, style=style)
        if again and not self.is_terminal:
            self.say("")
