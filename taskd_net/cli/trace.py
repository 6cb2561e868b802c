"""`taskd-net trace`."""

from __future__ import annotations

import sys
from typing import Any

import click

from taskd_net import Code, Position
from taskd_net.cli.command import command, to_position
from taskd_net.cli.lines import Screen, say_json
from taskd_net.cli.probing import as_object, ask, failure, milliseconds
from taskd_net.observe.client import NodeClient
from taskd_net.observe.probe_codec import About, Echo
from taskd_net.observe.prober import one_node


@command(
    "trace",
    short_help="Show the way to a position, hop by hop.",
)
@click.argument("dest", callback=to_position(one_node))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
@click.pass_context
def trace(ctx: click.Context, /, dest: Position, as_json: bool, **settings: Any) -> None:
    """Show each node on the way to DEST from the node at --at, with its round trip and the kind of link.

    batched is the fast link between two nodes of taskd_net, tasknet are the four calls that every peer knows. If the
    way ends before DEST, the last line has the code and its reporter.

    \b
    Examples:
      taskd-net trace Worker/0/3
      taskd-net trace Mgr --at 127.0.0.1:9602
      taskd-net trace Worker/0/3 --json | jq .hops[].src

    \b
    Exit codes:
      0      the way leads to DEST
      1      it does not: where it ends, and why, is said
      2      a flag, a variable, the file or DEST is wrong
      3      nobody at --at who can be asked

    128+N: ended by signal N.
    """
    screen = Screen()
    hops: list[Echo] = []
    start: list[About] = []

    async def work(client: NodeClient) -> None:
        start.append(await client.about())
        if not as_json:
            screen.say(f"TRACE {dest} from {start[0].position} at {settings['at']}")
        async for echo in client.trace(dest, settings["timeout"]):
            hops.append(echo)
            if not as_json:
                text = _line(len(hops), echo)
                screen.say(text, style="green" if echo.ok else "red")

    stopped = ask(ctx, work)
    reached = bool(hops) and hops[-1].ok
    if as_json:
        fields = {"to": str(dest), "from": str(start[0].position) if start else None, "reached": reached}
        say_json(fields | {"hops": [as_object(echo) for echo in hops]})
    elif reached:
        screen.say(f"reached {dest}: {len(hops)} {'hop' if len(hops) == 1 else 'hops'}")
    elif stopped is None:
        last = hops[-2].src if len(hops) > 1 else start[0].position
        screen.say(f"ends after {last}")
    sys.exit(128 + stopped if stopped is not None else 0 if reached else 1)


def _line(number: int, echo: Echo) -> str:
    time = f"{milliseconds(echo.seconds)} ms"
    if echo.code != Code.OK:
        return f"{number:2}  {echo.link or '-':7}  {failure(echo)}  {time}"
    return f"{number:2}  {echo.link or '-':7}  {echo.src}  {time}"
