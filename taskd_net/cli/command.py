"""A command with settings: its options, its one line of error, and its arguments that name nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final

import click

from taskd_net import ConfigError, NodeError, Position
from taskd_net.base.codes import Refusal
from taskd_net.base.position import Destination, Role
from taskd_net.base.vocabulary import FAILED_START
from taskd_net.cli.lines import say
from taskd_net.cli.settings import params_of, refused
from taskd_net.observe.client import AskFailed

FAILED: Final = 1
"""Exit code: the node could not run."""

NOT_ASKED: Final = 3
"""Exit code: no node could be asked."""


class Command(click.Command):
    """A command that ends with one line where a value is refused, or the node that it asks does not answer."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the command."""
        try:
            return self._invoke(ctx)
        except click.ClickException as error:
            _tell_launcher(ctx, error.message)
            raise

    def _invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except ConfigError as error:
            raise refused(ctx, error) from None
        except (NodeError, MemoryError) as error:
            # At a limit of threads or memory. A MemoryError has no text.
            text = str(error) or "the process is out of memory; see ulimit -v"
            _tell_launcher(ctx, text)
            say(f"Error: {text}", err=True)
            ctx.exit(FAILED)
        except AskFailed as error:
            text = str(error)
            if error.unreached:
                # The doctor has commands of this kind itself.
                from taskd_net.cli.unreached import explained

                text = explained(ctx, text)
            say(f"Error: {text}", err=True)
            ctx.exit(NOT_ASKED)


def _tell_launcher(ctx: click.Context, reason: str) -> None:
    """Say on the standard output, in place of the line that a Manager is ready, why it cannot start."""
    if ctx.params.get("until_eof"):
        with suppress(OSError):  # the launcher has ended
            say(f"{FAILED_START}{reason}")


def command(name: str, **attributes: Any) -> Callable[[Callable[..., object]], Command]:
    """The decorator `click.command` for a command with settings.

    Args:
        name: key in `COMMANDS`.
        attributes: of the command, as for `click.command`; `cls` is a subclass of `Command`.
    """
    return click.command(name, **{"cls": Command, **attributes}, params=params_of(name))


JSON: Final = click.Option(["--json", "as_json"], is_flag=True, help="Print one JSON object.")


def add_each(group: click.Group, names: Iterable[str], about: Callable[..., None], text: str) -> None:
    """Add to a group a command about each of some commands, which takes the settings of that one.

    Args:
        group: the group.
        names: keys in `COMMANDS`.
        about: the work, with the context and `as_json`.
        text: the help, with `{}` for the name.
    """
    for name in names:
        params = [*params_of(name), JSON]
        group.add_command(
            click.Command(name, params=params, callback=click.pass_context(about), help=text.format(name))
        )


def read_position(text: str) -> Position:
    """Read a position as a user types it: its role may be in any case. The wire has one spelling.

    Raises:
        ArgumentError: no position.
    """
    role, slash, ranks = text.strip().partition("/")
    spelt = next((str(known) for known in Role if known.casefold() == role.casefold()), role)
    return Position.parse(spelt + slash + ranks)


def _one_or_more(position: Position) -> Position:
    return Destination.of(position).position


def to_position(
    check: Callable[[Position], Position] = _one_or_more,
) -> Callable[[click.Context, click.Parameter, str], Position]:
    """The callback of an argument that is a position. It refuses a wrong one before anything is connected.

    Args:
        check: returns the position to use, or raises `ValueError` or `Refusal`; by default every destination is good.
    """

    def read(_: click.Context, param: click.Parameter, value: str) -> Position:
        try:
            return check(read_position(value))
        except (ValueError, Refusal) as error:
            raise click.UsageError(f"{param.human_readable_name}: {error}") from None

    return read
