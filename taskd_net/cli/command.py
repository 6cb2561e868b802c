"""A command with settings: its options, its one line of error, and its arguments that name nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click

from taskd_net import ConfigError, Position
from taskd_net.cli.settings import COMMANDS, CONFIG, refused
from taskd_net.codes import Refusal
from taskd_net.observe.client import AskFailed

NOT_ASKED: Final = 3
"""Exit code: no node could be asked."""


class Command(click.Command):
    """A command that ends with one line where a value is refused, or the node that it asks does not answer."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except ConfigError as error:
            raise refused(ctx, error) from None
        except AskFailed as error:
            click.echo(f"Error: {error}", err=True)
            ctx.exit(NOT_ASKED)


def command(name: str, **attributes: Any) -> Callable[[Callable[..., object]], Command]:
    """The decorator `click.command` for a command with settings.

    Args:
        name: key in `COMMANDS`.
        attributes: of the command, as for `click.command`; `cls` is a subclass of `Command`.
    """
    return click.command(name, **{"cls": Command, **attributes}, params=[CONFIG, *COMMANDS[name]])


if TYPE_CHECKING:
    _PositionType = click.ParamType[Position]
else:  # not generic in the oldest click
    _PositionType = click.ParamType


class PositionArgument(_PositionType):
    """A position on the command line.

    Args:
        check: returns the position to use, or raises `ValueError` or `Refusal`.
    """

    name = "position"

    def __init__(self, check: Callable[[Position], Position] = lambda position: position) -> None:
        self._check = check

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Position:
        """Read the text.

        Raises:
            click.UsageError: not a position, or none that the command takes.
        """
        try:
            return self._check(Position.parse(str(value)))
        except (ValueError, Refusal) as error:
            raise click.UsageError(f"{param.human_readable_name if param else 'position'}: {error}") from None
