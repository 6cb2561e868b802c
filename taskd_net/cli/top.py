"""`taskd-net top`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Final, NamedTuple

import click

from taskd_net import Role
from taskd_net.cli.branches import milliseconds
from taskd_net.cli.command import command
from taskd_net.cli.lines import Screen, say_json
from taskd_net.cli.mesh import look
from taskd_net.observe.document import TROUBLE, Document, in_trouble
from taskd_net.observe.rates import Rate, Rates

_HOME: Final = "\x1b[H\x1b[2J"


class _Row(NamedTuple):
    node: Document
    rate: Rate


_ORDERS: Final[Mapping[str, Callable[[_Row], float]]] = {
    "rate": lambda row: -row.rate.messages,
    "bytes": lambda row: -(row.rate.down_bytes + row.rate.up_bytes),
    "latency": lambda row: -max(row.node["down"]["ack_p99"] or 0.0, row.node["up"]["ack_p99"] or 0.0),
    "flight": lambda row: -(row.node["down"]["in_flight"] + row.node["up"]["in_flight"]),
    "inbox": lambda row: -row.node["inbox"]["held"] if row.node["inbox"] else 0.0,
    "node": lambda row: 0.0,
}
"""Sort keys of the rows, by name; a terminal's key is the first letter."""

_COLUMNS: Final = (
    *(("NODE", 14), ("STATE", 13), ("OUT/s", 8), ("IN/s", 8), ("KB/s", 8), ("FAIL/s", 7), ("FLIGHT", 7)),
    *(("QUEUE", 6), ("INBOX", 9), ("p50", 8), ("p99", 8), ("own p50", 8), ("own p99", 8), ("REJOIN", 7)),
)


@command(
    "top",
    short_help="Show live rates, times and queues of every node.",
)
@click.option("--by", type=click.Choice(list(_ORDERS)), default="rate", show_default=True, help="Sort order.")
@click.option(
    "--role", type=click.Choice([str(role) for role in Role], case_sensitive=False), help="Only nodes of this role."
)
@click.option(
    "--interval", type=click.FloatRange(0.1, 3600), default=2.0, show_default=True, help="Seconds between two looks."
)
@click.option("--count", type=click.IntRange(0), default=0, show_default="until a signal", help="Number of looks.")
@click.option("--json", "as_json", is_flag=True, help="Print the document of tree --json with rates, one a line.")
@click.pass_context
def top(
    ctx: click.Context, /, by: str, role: str | None, interval: float, count: int, as_json: bool, **_: object
) -> None:
    """Show each node with its messages a second, times and queues, repeatedly.

    OUT/s and IN/s are messages a second to the node and from it. p50 and p99 are the milliseconds of its answers, own
    p50 and own p99 those of the answers to its own messages. On a terminal the first letter of an order sorts by it (r,
    b, l, f, i, n), and q ends it.

    \b
    Examples:
      taskd-net top
      taskd-net top --by latency --role Worker
      taskd-net top --at 10.0.0.7:9601 --count 2 --json | tail -1 | jq .rates

    \b
    Exit codes:
      0      shown as often as was asked for
      2      a flag, a variable or the file is wrong
      3      nobody at --at who can be asked

    128+N: ended by signal N.
    """
    screen = Screen()
    rates = Rates()
    order = by
    last: tuple[Document, Mapping[str, Rate]] | None = None

    def show(mesh: Document) -> None:
        nonlocal last
        now = rates.take(mesh)
        if as_json:
            said = {
                name: {field: round(value, 3) for field, value in asdict(rate).items()} for name, rate in now.items()
            }
            say_json(mesh | {"rates": said})
            return
        last = mesh, now
        draw()

    def draw() -> None:
        assert last is not None
        lines = table(*last, order, role)
        if screen.is_terminal:
            screen.file.write(_HOME)
            lines = lines[: max(2, screen.height - 1)]
        for text, style in lines:
            screen.say(text[: screen.width] if screen.is_terminal else text, style=style)
        if not screen.is_terminal:
            screen.say("")

    def pressed(key: str) -> None:
        nonlocal order
        chosen = next((name for name in _ORDERS if name[0] == key), None)
        if chosen is not None:
            order = chosen
            if last is not None:
                draw()

    on_key = pressed if screen.is_terminal and not as_json else None
    look(ctx, show, interval=interval, count=count, pressed=on_key)


def table(mesh: Document, rates: Mapping[str, Rate], by: str, role: str | None) -> list[tuple[str, str]]:
    """The lines with their styles: a summary, the headings, one line a node."""
    summary = mesh["summary"]
    wanted = [node for node in mesh["nodes"] if role is None or node["role"] == role]
    rows = [_Row(node, rates.get(node["position"], Rate())) for node in wanted]
    rows.sort(key=_ORDERS[by])  # stable, and the document is ordered by role and rank
    trouble = in_trouble(mesh)
    text = f"{mesh['node']}: {summary['nodes']} nodes, {trouble} in trouble, {summary['missing']} missing, "
    text += f"{summary['in_flight']} in flight; by {by}"
    lines = [(text, "bold"), (_line([name for name, _ in _COLUMNS]), "bold")]
    return lines + [(_line(_cells(row)), "red" if row.node["state"] in TROUBLE else "") for row in rows]


def _cells(row: _Row) -> list[str]:
    node, rate = row
    down, up, inbox = node["down"], node["up"], node["inbox"]
    return [
        node["position"],
        node["state"],
        f"{rate.down_messages:.0f}",
        f"{rate.up_messages:.0f}",
        f"{(rate.down_bytes + rate.up_bytes) / 1000:.1f}",
        f"{rate.down_failed + rate.up_failed:.1f}",
        str(down["in_flight"] + up["in_flight"]),
        str(down["queued"] + up["queued"]),
        f"{inbox['held'] + inbox['line']}/{inbox['room']}" if inbox else "-",
        *(milliseconds(way[name]) for way in (down, up) for name in ("ack_p50", "ack_p99")),
        str(node["reconnects"]),
    ]


def _line(cells: list[str]) -> str:
    first, *rest = (f"{cell:<{width}}" for cell, (_, width) in zip(cells[:2], _COLUMNS[:2], strict=True))
    numbers = (f"{cell:>{width}}" for cell, (_, width) in zip(cells[2:], _COLUMNS[2:], strict=True))
    return " ".join([first, *rest, *numbers]).rstrip()
