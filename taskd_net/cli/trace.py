"""`taskd-net trace`."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from typing import Any

import click

from taskd_net import Code, Position
from taskd_net.cli.command import command, to_position
from taskd_net.cli.completion import positions
from taskd_net.cli.lines import say_json
from taskd_net.cli.probing import as_object, ask, failure, milliseconds
from taskd_net.cli.screen import Screen
from taskd_net.net.links import registry
from taskd_net.observe.client import AskFailed, NodeClient
from taskd_net.observe.document import Document, by_position, document
from taskd_net.observe.probe_codec import About, Echo
from taskd_net.observe.prober import one_node


@command(
    "trace",
    short_help="Show the way to a position, hop by hop.",
)
@click.argument("dest", callback=to_position(one_node), shell_complete=positions(several=False))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
@click.pass_context
def trace(ctx: click.Context, /, dest: Position, as_json: bool, **settings: Any) -> None:
    """Show each node on the way to DEST from the node at --at, with its round trip and the kind of link.

    direct is the fastest link, a socket between two nodes of taskd_net; batched is theirs over gRPC; tasknet are the
    four calls that every peer knows. A line says why a link is of no better kind, as far as the node at --at knows. If
    the way ends before DEST, the last line has the code and its reporter.

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
    reasons: list[str] = []
    start: list[About] = []

    async def work(client: NodeClient) -> None:
        start.append(await client.about())
        if not as_json:
            screen.say(f"TRACE {dest} from {start[0].position} at {settings['at']}")
        known: Mapping[str, Document] | None = None
        async for echo in client.trace(dest, settings["timeout"]):
            if known is None and echo.ok and echo.link != registry.best():
                known = {}
                # The way is the answer; without a state of the mesh its links have no reasons.
                with contextlib.suppress(AskFailed):
                    known = by_position(document(await client.mesh()))
            before = hops[-1].src if hops else start[0].position
            hops.append(echo)
            reasons.append(_reason(known or {}, str(before.identity), str(echo.src.identity)) if echo.ok else "")
            if not as_json:
                text = _line(len(hops), echo, reasons[-1])
                screen.say(text, style="green" if echo.ok else "red")

    stopped = ask(ctx, work)
    reached = bool(hops) and hops[-1].ok
    if as_json:
        fields = {"to": str(dest), "from": str(start[0].position) if start else None, "reached": reached}
        told = [as_object(echo) | {"link_reason": reason or None} for echo, reason in zip(hops, reasons, strict=True)]
        say_json(fields | {"hops": told})
    elif reached:
        screen.say(f"reached {dest}: {len(hops)} {'hop' if len(hops) == 1 else 'hops'}")
    elif stopped is None:
        last = hops[-2].src if len(hops) > 1 else start[0].position
        screen.say(f"ends after {last}")
    sys.exit(128 + stopped if stopped is not None else 0 if reached else 1)


def _reason(known: Mapping[str, Document], one: str, other: str) -> str:
    """The reason for the kind of link between two nodes, as the child has reported it; empty where nobody has."""
    for child, parent in ((one, other), (other, one)):
        node = known.get(child)
        if node is not None and node["parent"] == parent:
            return str(node["link_reason"] or "")
    return ""


def _line(number: int, echo: Echo, reason: str) -> str:
    time = f"{milliseconds(echo.seconds)} ms"
    if echo.code != Code.OK:
        return f"{number:2}  {echo.link or '-':7}  {failure(echo)}  {time}"
    text = f"{number:2}  {echo.link or '-':7}  {echo.src}  {time}"
    return f"{text}  {echo.link}: {reason}" if reason else text
