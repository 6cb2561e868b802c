"""The commands of `taskd-net`."""

from __future__ import annotations

from inspect import cleandoc

import click

from taskd_net import __version__
from taskd_net.cli.bench import bench
from taskd_net.cli.certs import certs
from taskd_net.cli.clusterd_sim import clusterd_sim
from taskd_net.cli.completion import completion
from taskd_net.cli.context import context
from taskd_net.cli.demo import demo
from taskd_net.cli.doctor.checkup import doctor
from taskd_net.cli.effective import config
from taskd_net.cli.faults.group import faults
from taskd_net.cli.forget import forget
from taskd_net.cli.health import health
from taskd_net.cli.job import job
from taskd_net.cli.listen import listen
from taskd_net.cli.ping import ping
from taskd_net.cli.roles import mgr, proxy
from taskd_net.cli.run import run
from taskd_net.cli.send import send
from taskd_net.cli.simulate import simulate
from taskd_net.cli.top import top
from taskd_net.cli.trace import trace
from taskd_net.cli.tree import tree
from taskd_net.untrusted import printable


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


@click.group(cls=OneLineErrors, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", message="%(prog)s %(version)s")
def group() -> None:
    """A message mesh for distributed training jobs: Mgr, Proxies, Agents and Workers, joined by gRPC."""


_LOOKING = (tree, top, job, ping, trace, doctor, forget, health)
for _command in (
    mgr,
    proxy,
    send,
    listen,
    *_LOOKING,
    config,
    context,
    completion,
    certs,
    faults,
    run,
    demo,
    bench,
    clusterd_sim,
    simulate,
):
    group.add_command(_command)


def _split_help(command: click.Command) -> None:
    """Print the examples and exit codes of a docstring below the options."""
    text, mark, rest = cleandoc(command.help or "").partition("\b\nExamples:")
    if mark:
        command.help, command.epilog = text, mark + rest
    for below in command.commands.values() if isinstance(command, click.Group) else ():
        _split_help(below)


_split_help(group)
