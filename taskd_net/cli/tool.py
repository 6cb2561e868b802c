"""What the commands that join the mesh for a while have in common."""

from __future__ import annotations

import contextlib
import random
import sys
from typing import Final

import click

from taskd_net import ConfigError, Position, Role, logs
from taskd_net.cli import telemetry
from taskd_net.cli.options import FORMS
from taskd_net.cli.settings import wrong
from taskd_net.codes import Refusal
from taskd_net.position import require_node
from taskd_net.schema import Kind

NOT_JOINED: Final = 3
"""Exit code: the Mgr did not come to know this node in time."""

PRINT_REST_S: Final = 1.0
"""Seconds that a slow reader of the standard output has, at the end, for what was acknowledged before."""

WITHDRAW_S: Final = 1.0
"""Seconds for the parent to confirm that it has forgotten this node."""

_FREE_RANKS: Final = range(1_000_000_000, 2_000_000_000)


def free_position() -> Position:
    """An Agent of a node that no job has.

    Of the four roles only Agents and Workers are leaves. To take the position of one that exists would cut that one off
    (contract, section 3: the newcomer wins). The rank is random, so that tools do not cut each other off, and fits the
    32 bits that somebody's code may keep ranks in.
    """
    return Position.agent(random.choice(_FREE_RANKS))


def leaf(ctx: click.Context) -> Position | None:
    """The position that `--as` gives; None when nothing does.

    Raises:
        click.UsageError: it is not the position of a leaf.
    """
    text = ctx.params["as"]
    if text is None:
        return None
    try:
        position = Position.parse(text)
        require_node(position)
        if Role(position.role).is_leaf:
            return position
    except (ValueError, Refusal):
        pass
    raise wrong(ctx, ConfigError(f"as is {text!r}; expected {FORMS[Kind.POSITION].expected}"))


def log_to_stderr(level: str) -> None:
    """Show log lines from this level on; a tool writes no log file."""
    with contextlib.redirect_stdout(sys.stderr):
        logs.start(None, std_level=level, stdout=True)


def start_telemetry(ctx: click.Context) -> None:
    """Set up where the spans go, for a tool that traces.

    Raises:
        click.UsageError: what it needs is not installed.
    """
    if ctx.params["tracing"]:
        try:
            telemetry.start()
        except ConfigError as error:
            raise wrong(ctx, error) from None
