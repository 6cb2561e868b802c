"""The parts that commands share which join the mesh for a while."""

from __future__ import annotations

import contextlib
import signal
import sys
from typing import Final

import click

from taskd_net import Code, ConfigError, Position, Role
from taskd_net.base import logs, upstreams
from taskd_net.base.codes import Refusal, describe
from taskd_net.base.position import require_node
from taskd_net.base.schema import Kind
from taskd_net.cli import telemetry
from taskd_net.cli.command import read_position
from taskd_net.cli.options import FORMS
from taskd_net.cli.rendering import STRUCTLOG
from taskd_net.cli.settings import tls_of
from taskd_net.cli.signals import run_until_signal
from taskd_net.observe.client import AskFailed, NodeClient
from taskd_net.observe.probe_codec import Echo, ProbeSeries

NOT_JOINED: Final = 3
"""Exit code: this node has not joined in time."""

PRINT_REST_S: Final = 1.0
"""Seconds at the end for a slow reader of the standard output to take acknowledged messages."""

ANSWER_S: Final = 2.0
"""Seconds for the answer of whoever has a position, longer than a busy node takes."""

_FREE: Final = (Code.NO_ROUTE, Code.NET_STREAM_NOT_INITED)
"""Answers that say that nobody has a position, or that its node is gone."""

TAKE_OVER: Final = "Take the position of --as also from a node that has it, which is cut off."
"""Help of the flag."""

WITHDRAW_S: Final = 1.0
"""Seconds for the parent's confirmation that it has forgotten this node."""


def leaf(ctx: click.Context) -> Position | None:
    """The position in `--as`; None without one.

    Raises:
        ConfigError: not the position of a leaf.
    """
    text = ctx.params["as"]
    if text is None:
        return None
    try:
        position = read_position(text)
        require_node(position)
        if Role(position.role).is_leaf:
            return position
    except (ValueError, Refusal):
        pass
    raise ConfigError(f"as is {text!r}; expected {FORMS[Kind.POSITION].expected}")


def require_free(ctx: click.Context, position: Position) -> None:
    """Refuse a position that a node has, which this one would cut off. A parent that cannot be asked says nothing.

    Args:
        ctx: of the command, with its upstream.
        position: of the tool.

    Raises:
        ConfigError: a node has it.
    """
    if ctx.params["take_over"]:
        return
    addresses, tls = upstreams.parse(ctx.params["upstream"], "upstream"), tls_of(ctx)
    timeout = min(ctx.params["timeout"] or ANSWER_S, ANSWER_S)

    async def found() -> Echo | None:
        async with NodeClient(addresses, timeout, tls) as client:
            with contextlib.suppress(AskFailed):
                await client.about()
                async for echo in client.ping(ProbeSeries(position, timeout)):
                    return echo
        return None

    echo = run_until_signal(found)
    if isinstance(echo, signal.Signals):
        ctx.exit(128 + echo)
    if echo is not None and echo.code not in _FREE:
        does = "answers" if echo.ok else f"does not answer ({describe(echo.code)})"
        text = f"as is '{position}', which a node has that {does}; --take-over takes its messages, and cuts it off"
        raise ConfigError(text)


def start_output(ctx: click.Context) -> None:
    """Show log lines on stderr, as a tool writes no log file, and export spans if it traces.

    Raises:
        ConfigError: a package for tracing is not installed.
    """
    with contextlib.redirect_stdout(sys.stderr):
        logs.start(None, std_level=ctx.params["log_std_level"], stdout=True, rendering=STRUCTLOG)
    if ctx.params["tracing"]:
        telemetry.start()
