"""The commands of `taskd-net`: the module of each, which is loaded with the first use of the command.

Commands for development come from the distribution `taskd-net-lab`, of the version of this package. `HOMES` and
`OF_DEMO` are the only places of this package that name its modules. Where the lab is not installed, or in another
version, its commands are still listed. Each refuses to run, and says what to install.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module, metadata
from inspect import cleandoc
from typing import Final

import click

from taskd_net import __version__

LAB: Final = "taskd-net-lab"

HOMES: Final = {
    "mgr": "taskd_net.cli.daemon",
    "proxy": "taskd_net.cli.daemon",
    "send": "taskd_net.cli.send",
    "listen": "taskd_net.cli.listen",
    "tree": "taskd_net.cli.tree",
    "top": "taskd_net.cli.top",
    "job": "taskd_net.cli.job",
    "ping": "taskd_net.cli.ping",
    "trace": "taskd_net.cli.trace",
    "doctor": "taskd_net.cli.doctor.checkup",
    "forget": "taskd_net.cli.forget",
    "health": "taskd_net.cli.health",
    "config": "taskd_net.cli.config",
    "context": "taskd_net.cli.context",
    "completion": "taskd_net.cli.completion",
    "certs": "taskd_net.cli.certs",
    "faults": "taskd_net.cli.faults.group",
    "run": "taskd_net.cli.run",
    "demo": "taskd_net.cli.demo",
    "bench": "taskd_net_lab.bench",
    "clusterd-sim": "taskd_net_lab.clusterd.command",
    "simulate": "taskd_net_lab.simulate",
}
"""The module of each command."""

SECTIONS: Final = {
    "Run": ("mgr", "proxy", "run"),
    "Look": ("tree", "top", "job", "ping", "trace", "doctor", "health"),
    "Send and receive": ("send", "listen"),
    "Set up and repair": ("config", "context", "certs", "completion", "faults", "forget"),
    "Try and measure": ("demo", "simulate", "clusterd-sim", "bench"),
}
"""The commands by what a person wants, as the help lists them."""

OF_DEMO: Final = dict.fromkeys(
    ("job", "faults", "recovery", "training", "watch", "mindspore"), "taskd_net_lab.demos.commands"
)
"""The module of each subcommand of `taskd-net demo`."""


class Commands(MutableMapping[str, click.Command]):
    """Commands by name, each imported with its first use: a probe that runs every few seconds loads only its own.

    Args:
        homes: the module of each command; it has the command under its name.
    """

    def __init__(self, homes: Mapping[str, str]) -> None:
        self._homes = dict(homes)
        self._found: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._found:
            home = self._homes[name]
            lacking = lack_of_lab() if home.startswith("taskd_net_lab.") else None
            if lacking is None:
                self[name] = getattr(import_module(home), name.replace("-", "_"))
            else:
                self[name] = _Lacking(name, lacking)
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


def lack_of_lab() -> str | None:
    """The words about a lab that is not installed in the version of this package; None if it is."""
    try:
        installed = metadata.version(LAB)
    except metadata.PackageNotFoundError:
        return f"in the distribution {LAB}; install {LAB}=={__version__}"
    if installed != __version__:
        return f"in {LAB}, which is {installed}; expected {__version__}, as taskd-net: install {LAB}=={__version__}"
    return None


class _Lacking(click.Command):
    """A command whose distribution is not installed. With any arguments it says so, and ends with 2."""

    def __init__(self, name: str, lacking: str) -> None:
        super().__init__(
            name,
            short_help=f"Not installed: it is in {LAB}=={__version__}.",
            add_help_option=False,
            context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
        )
        self._lacking = lacking

    def invoke(self, ctx: click.Context) -> None:
        raise click.UsageError(f"{self.name} is {self._lacking}")


def _split_help(command: click.Command) -> None:
    """Print the examples and exit codes of a docstring below the options."""
    text, mark, rest = cleandoc(command.help or "").partition("\b\nExamples:")
    if mark:
        command.help, command.epilog = text, mark + rest
    # `Commands` does the same with each that it loads.
    if isinstance(command, click.Group) and not isinstance(command.commands, Commands):
        for below in command.commands.values():
            _split_help(below)
