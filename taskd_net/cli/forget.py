"""`taskd-net forget`."""

from __future__ import annotations

import asyncio
import sys

import click

from taskd_net import Position
from taskd_net.base import upstreams
from taskd_net.base.position import require_node
from taskd_net.base.states import State
from taskd_net.cli.command import command, to_position
from taskd_net.cli.completion import positions
from taskd_net.cli.lines import say, say_json
from taskd_net.cli.settings import tls_of
from taskd_net.observe.client import AskFailed, NodeClient, NotForgotten


def _one_node(position: Position) -> Position:
    require_node(position)
    return position.identity


@command(
    "forget",
    short_help="Remove a node that has left from the routes and from tree.",
)
@click.argument("position", callback=to_position(_one_node), shell_complete=positions(several=False))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def forget(ctx: click.Context, /, position: Position, as_json: bool, at: str, timeout: float, **_: object) -> None:
    """Have the node at --at, on this machine, forget POSITION: its place, its routes, and what is shown of it.

    Nodes that left are forgotten by themselves in time. A connected node stays, and one that comes back is known again.
    With a Proxy go all nodes that are known only through it.

    \b
    Examples:
      taskd-net forget Worker/0/3
      taskd-net forget Agent/1000 --at 127.0.0.1:9602

    \b
    Exit codes:
      0      forgotten
      1      not forgotten: it is connected, it is not known there, or --at is the
             address of another machine
      2      a flag, a variable, the file or POSITION is wrong
      3      nobody at --at who can be asked
    """
    addresses, tls = upstreams.parse(at, "at"), tls_of(ctx)

    async def asked() -> State | None:
        async with NodeClient(addresses, timeout, tls) as client:
            return await client.forget(position)

    try:
        state = asyncio.run(asked())
    except (NotForgotten, AskFailed) as error:
        if as_json:
            _print_json(position, False, None, str(error))
        if isinstance(error, AskFailed):
            raise
        say(f"Error: {error}", err=True)
        sys.exit(1)
    was = "a route alone" if state is None else state.value.replace("_", " ")
    if as_json:
        _print_json(position, True, state, "")
    else:
        say(f"{position} is forgotten; it was {was}")


def _print_json(position: Position, forgotten: bool, state: State | None, detail: str) -> None:
    say_json({"position": str(position), "forgotten": forgotten, "state": state and state.value, "detail": detail})
