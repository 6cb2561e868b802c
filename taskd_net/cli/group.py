"""The command `taskd-net` itself: its commands, its version, and errors in one line."""

from __future__ import annotations

import click
from click.shell_completion import add_completion_class

from taskd_net import __version__
from taskd_net.base.untrusted import printable
from taskd_net.cli.bash import Bash
from taskd_net.cli.commands import HOMES, SECTIONS, Commands


class OneLineErrors(click.Group):
    """A group whose commands refuse arguments in one line, without the usage around it."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
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
