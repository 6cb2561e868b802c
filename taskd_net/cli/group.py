"""The commands of `taskd-net`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from inspect import cleandoc
from typing import Final

import click
from click.shell_completion import add_completion_class

from taskd_net import __version__
from taskd_net.base.untrusted import printable
from taskd_net.cli.bash import Bash

HOMES: Final = {
    "mgr": "roles",
    "proxy": "roles",
    "send": "send",
    "listen": "listen",
    "tree": "tree",
    "top": "top",
    "job": "job",
    "ping": "ping",
    "trace": "trace",
    "doctor": "doctor.checkup",
    "forget": "forget",
    "health": "health",
    "config": "effective",
    "context": "context",
    "completion": "completion",
    "certs": "certs",
    "faults": "faults.group",
    "run": "run",
    "demo": "demo",
    "bench": "bench",
    "clusterd-sim": "clusterd_sim",
    "simulate": "simulate",
}
"""The module of each command."""


class Commands(MutableMapping[str, click.Command]):
    """Commands by name, each imported with its first use: a probe that runs every few seconds loads its own alone.

    Args:
        homes: the module of each command, below this package.
    """

    def __init__(self, homes: Mapping[str, str]) -> None:
        self._homes = dict(homes)
        self._found: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._found:
            module = import_module(f"taskd_net.cli.{self._homes[name]}")
            self[name] = getattr(module, name.replace("-", "_"))
        return self._found[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        _split_help(command)
        self._homes.setdefault(name, "")
        self._found[name] = command

    def __delitem__(self, name: str) -> None:
        self._found.pop(name, None)
        del self._homes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._homes)

    def __len__(self) -> int:
        return len(self._homes)

    def __contains__(self, name: object) -> bool:
        return name in self._homes


def _split_help(command: click.Command) -> None:
    """Print the examples and exit codes of a docstring below the options."""
    text, mark, rest = cleandoc(command.help or "").partition("\b\nExamples:")
    if mark:
        command.help, command.epilog = text, mark + rest
    for below in command.commands.values() if isinstance(command, click.Group) else ():
        _split_help(below)


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


add_completion_class(Bash, "bash")


@click.group(cls=OneLineErrors, commands=Commands(HOMES), context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", message="%(prog)s %(version)s")
def group() -> None:
    """A message mesh for distributed training jobs: Mgr, Proxies, Agents and Workers, joined by gRPC."""
