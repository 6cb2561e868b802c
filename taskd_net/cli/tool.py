"""The parts that commands share which join the mesh for a while."""

from __future__ import annotations

import contextlib
import sys
from typing import Final

import click

from taskd_net import ConfigError, Position, Role
from taskd_net.base import logs
from taskd_net.base.codes import Refusal
from taskd_net.base.position import require_node
from taskd_net.base.schema import Kind
from taskd_net.cli import telemetry
from taskd_net.cli.command import read_position
from taskd_net.cli.options import FORMS
from taskd_net.cli.rendering import STRUCTLOG

NOT_JOINED: Final = 3
"""Exit code: this node has not joined in time."""

PRINT_REST_S: Final = 1.0
"""Seconds at the end for a slow reader of the standard output to take acknowledged messages."""

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


def start_output(ctx: click.Context) -> None:
    """Show log lines on stderr, as a tool writes no log file, and export spans if it traces.

    Raises:
        ConfigError: a package for tracing is not installed.
    """
    with contextlib.redirect_stdout(sys.stderr):
        logs.start(None, std_level=ctx.params["log_std_level"], stdout=True, rendering=STRUCTLOG)
    if ctx.params["tracing"]:
        telemetry.start()
