"""`taskd-net top`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

import click

from taskd_net import Role
from taskd_net.cli.command import command
from taskd_net.cli.lines import say_json
from taskd_net.cli.mesh import look
from taskd_net.cli.screen import Screen
from taskd_net.cli.top_view import ORDERS, TopView
from taskd_net.observe.document import Document
from taskd_net.observe.rates import Rate, Rates


@command(
    "top",
    short_help="Show live rates, times and queues of every node.",
)
@click.option("--by", type=click.Choice(list(ORDERS)), default="rate", show_default=True, help="Sort order.")
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
    view = TopView(by, role)
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
        if screen.live:
            screen.draw(view.screen(*last, screen.width, screen.height))
        else:
            screen.say_all(view.table(*last), again=True)

    def pressed(key: str) -> bool:
        ends = view.press(key)
        if last is not None and not ends:
            draw()
        return ends

    on_key = pressed if screen.live and not as_json else None
    look(ctx, show, interval=interval, count=count, pressed=on_key)
