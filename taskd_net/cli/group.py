"""The command `taskd-net` itself: its commands, its version, and errors in one line."""

from __future__ import annotations

import os
import signal
from typing import NoReturn

import click
from click.shell_completion import add_completion_class

from taskd_net import __version__
from taskd_net.base.untrusted import printable
from taskd_net.cli.bash import Bash
from taskd_net.cli.commands import HOMES, SECTIONS, Commands


def _end_by_sigpipe() -> NoReturn:
    """End as every program that writes into a closed pipe: an exit code of the command would be its verdict."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGPIPE})
    os.kill(os.getpid(), signal.SIGPIPE)
    raise AssertionError("SIGPIPE has ended this process")


class OneLineErrors(click.Group):
    """A group whose commands refuse arguments in one line, and end by SIGPIPE where nobody reads any more."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments, of which some print and end."""
        try:
            return super().parse_args(ctx, args)
        except BrokenPipeError:
            _end_by_sigpipe()

    def invoke(self, ctx: click.Context) -> object:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            _end_by_sigpipe()
        except click.UsageError as error:
            raise click.UsageError(printable(" ".join(error.format_message().split()))) from None
        except click.ClickException as error:
            raise click.ClickException(printable(error.format_message())) from None


class Sections(OneLineErrors):
    """A group that lists its commands in sections."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands."""
        for heading, names in SECTIONS.items():
            with formatter.section(heading):
                width = formatter.width - 6 - max(map(len, names))
                formatter.write_dl([(name, self.commands[name].get_short_help_str(width)) for name in names])


add_completion_class(Bash, "bash")


@click.group(cls=Sections, commands=Commands(HOMES), context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", message="%(prog)s %(version)s")
def group() -> None:
    """A message mesh for distributed training jobs: Mgr, Proxies, Agents and Workers, joined by gRPC."""
