"""Lines of commands on the standard files: the gate for every text that a node, a file or an argument may have made.

Each call writes one line, and no character of it has an effect on a terminal (`untrusted.printable`).
"""

from __future__ import annotations

import click

from taskd_net.base.untrusted import json_line, printable


def say(text: str, *, err: bool = False) -> None:
    """Write a line on the standard output, or on stderr."""
    click.echo(printable(text), err=err)


def say_json(value: object) -> None:
    """Write a value as one line of JSON on the standard output."""
    click.echo(json_line(value))
