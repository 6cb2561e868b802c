"""A failed connection of a command: the cause, as `taskd-net doctor` finds it, and the command to try next."""

from __future__ import annotations

import asyncio
import shlex
import signal
import sys
from typing import Final

import click
from click.core import ParameterSource

from taskd_net import ConfigError
from taskd_net.base import upstreams
from taskd_net.cli.doctor import upstream
from taskd_net.cli.doctor.finding import Verdict
from taskd_net.cli.options import SettingOption
from taskd_net.cli.settings import CONFIG, CONTEXT, tls_of
from taskd_net.cli.signals import run_until_signal
from taskd_net.net.free_position import free_position

LOOK_S: Final = 6.0
"""Seconds for the look: a connection (3 s), and who answers (3 s)."""

_CHECKS: Final = ("name", "upstream", "tls")
"""Checks of the connection itself."""

_HANDED_ON: Final = ("enable_tls", "ca", "client_key", "client_crt", "server_name")


async def explain(ctx: click.Context, otherwise: str) -> str:
    """Look why the node of a command cannot be reached.

    Args:
        ctx: of the command, with its settings.
        otherwise: the cause as far as it is known, where the look finds nothing.

    Returns:
        A sentence with the cause, and the next command.
    """
    name = "at" if "at" in ctx.params else "upstream"
    cause = otherwise
    try:
        addresses, tls = upstreams.parse(ctx.params[name], name), tls_of(ctx)
        async with asyncio.timeout(LOOK_S):
            each = await asyncio.gather(*(upstream.check(address, free_position(), tls) for address in addresses))
        found = [finding for findings in each for finding in findings]
    except (TimeoutError, ConfigError):
        found = []
    for state in (Verdict.WARNING, Verdict.WRONG):
        for finding in found:
            if finding.check in _CHECKS and finding.state is state:
                cause = finding.text
    return f"{cause}. Try: {_next(ctx, name)}"


def _next(ctx: click.Context, name: str) -> str:
    """The doctor's command for the same node, with the flags that lead there."""
    words = ["taskd-net", "doctor", "send", "--at", str(ctx.params[name])]
    for option in (CONFIG, CONTEXT):
        assert option.name is not None
        if ctx.get_parameter_source(option.name) is ParameterSource.COMMANDLINE:
            words += [option.opts[0], str(ctx.meta[option.name])]
    for param in ctx.command.params:
        if isinstance(param, SettingOption) and param.name in _HANDED_ON:
            value = ctx.params[param.name]
            if ctx.get_parameter_source(param.name) is ParameterSource.COMMANDLINE:
                words += [param.opts[0], str(value)] if not isinstance(value, bool) else [_switch(param, value)]
    return shlex.join(words)


def _switch(param: SettingOption, value: bool) -> str:
    return param.opts[0] if value else param.secondary_opts[0]


def explained(ctx: click.Context, otherwise: str) -> str:
    """As `explain`, outside an event loop; a signal ends the process."""
    said = run_until_signal(lambda: explain(ctx, otherwise))
    if isinstance(said, signal.Signals):
        sys.exit(128 + said)
    return said
