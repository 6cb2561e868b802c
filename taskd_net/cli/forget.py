"""`taskd-net forget`."""

from __future__ import annotations

import asyncio
import json
import sys

import click

from taskd_net import ConfigError, Position
from taskd_net.cli.mesh import NOT_ASKED, address_of
from taskd_net.cli.settings import COMMANDS, CONFIG, tls_of, wrong
from taskd_net.codes import Refusal
from taskd_net.observe.client import AskFailed, NodeClient, NotForgotten
from taskd_net.position import require_node
from taskd_net.states import State


@click.command(
    params=[CONFIG, *COMMANDS["forget"]],
    short_help="Take a node that has left out of the routes and of what tree shows.",
    epilog="""\b
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
""",
)
@click.argument("position")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def forget(ctx: click.Context, /, position: str, as_json: bool, at: str, timeout: float, **_: object) -> None:
    """Have the node at --at, on this machine, forget POSITION: its place, its routes, and what is shown of it.

    That happens by itself in time. A node that is connected stays, and one that comes back is known again. With a Proxy
    all go that are known only through it.
    """
    node = _one_node(position)
    address, tls = address_of(ctx, at, "at"), tls_of(ctx)

    async def asked() -> State | None:
        async with NodeClient(address, timeout, tls) as asker:
            return await asker.forget(node)

    try:
        state = asyncio.run(asked())
    except ConfigError as error:
        raise wrong(ctx, error) from None
    except (NotForgotten, AskFailed) as error:
        if as_json:
            click.echo(_json(node, False, None, str(error)))
        click.echo(f"Error: {error}", err=True)
        sys.exit(1 if isinstance(error, NotForgotten) else NOT_ASKED)
    was = "a route alone" if state is None else state.value.replace("_", " ")
    click.echo(_json(node, True, state, "") if as_json else f"{node} is forgotten; it was {was}")


def _one_node(text: str) -> Position:
    try:
        position = Position.parse(text)
        require_node(position)
    except (ValueError, Refusal) as error:
        raise click.UsageError(f"POSITION: {error}") from None
    return position.identity


def _json(position: Position, forgotten: bool, state: State | None, detail: str) -> str:
    fields = {"position": str(position), "forgotten": forgotten, "state": state and state.value, "detail": detail}
    return json.dumps(fields, ensure_ascii=False)
