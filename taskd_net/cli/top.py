"""`taskd-net top`: the command, and its screen with rows, columns by importance, sort order, filter and scrolling."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Final, NamedTuple

import click

from taskd_net import Role
from taskd_net.cli.command import command
from taskd_net.cli.lines import say_json
from taskd_net.cli.mesh_lines import Line
from taskd_net.cli.phrases import milliseconds
from taskd_net.cli.screen import Screen, cut
from taskd_net.cli.watching import look
from taskd_net.observe.document import TROUBLE, Document, in_trouble
from taskd_net.observe.rates import Rate, Rates


class Row(NamedTuple):
    """A node and its rates."""

    node: Document
    rate: Rate


class _Column(NamedTuple):
    """A column: its heading, its least width, its place by importance (0: the first), its text."""

    name: str
    width: int
    importance: int
    text: Callable[[Row], str]


ORDERS: Final[Mapping[str, Callable[[Row], float]]] = {
    "rate": lambda row: -row.rate.messages,
    "bytes": lambda row: -(row.rate.down_bytes + row.rate.up_bytes),
    "latency": lambda row: -max(row.node["down"]["ack_p99"] or 0.0, row.node["up"]["ack_p99"] or 0.0),
    "flight": lambda row: -(row.node["down"]["in_flight"] + row.node["up"]["in_flight"]),
    "inbox": lambda row: -row.node["inbox"]["held"] if row.node["inbox"] else 0.0,
    "node": lambda row: 0.0,
}
"""Sort keys of the rows, by name; a terminal's key is the first letter."""


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


_TEXTS: Final = 2
"""Columns of text; numbers stand to the right."""


def _inbox(row: Row) -> str:
    inbox = row.node["inbox"]
    return f"{inbox['held'] + inbox['line']}/{inbox['room']}" if inbox else "-"


def _time(way: str, share: str) -> Callable[[Row], str]:
    return lambda row: milliseconds(row.node[way][share])


def _sum(name: str) -> Callable[[Row], str]:
    return lambda row: str(row.node["down"][name] + row.node["up"][name])


_COLUMNS: Final = (
    _Column("NODE", 14, 0, lambda row: str(row.node["position"])),
    _Column("STATE", 13, 1, lambda row: str(row.node["state"])),
    _Column("OUT/s", 8, 2, lambda row: f"{row.rate.down_messages:.0f}"),
    _Column("IN/s", 8, 3, lambda row: f"{row.rate.up_messages:.0f}"),
    _Column("KB/s", 8, 9, lambda row: f"{(row.rate.down_bytes + row.rate.up_bytes) / 1000:.1f}"),
    _Column("FAIL/s", 7, 4, lambda row: f"{row.rate.down_failed + row.rate.up_failed:.1f}"),
    _Column("FLIGHT", 7, 7, _sum("in_flight")),
    _Column("QUEUE", 6, 8, _sum("queued")),
    _Column("INBOX", 9, 5, _inbox),
    _Column("p50", 8, 11, _time("down", "ack_p50")),
    _Column("p99", 8, 6, _time("down", "ack_p99")),
    _Column("own p50", 8, 12, _time("up", "ack_p50")),
    _Column("own p99", 8, 10, _time("up", "ack_p99")),
    _Column("REJOIN", 7, 13, lambda row: str(row.node["reconnects"])),
)

HELP: Final = (
    "r b l f i n     sort by rate, bytes, latency, flight, inbox, node",
    "/ text Enter    show only the nodes with this in their position, state or address",
    "Esc             show every node again",
    "arrows, j k     scroll by a line; space, PgDn and PgUp by a screen; g G to the ends",
    "?               these keys, and back",
    "q               end",
    "OUT/s, IN/s     messages a second to the node, and from it",
    "p50, p99        milliseconds of its answers; own: of the answers to its messages",
)

_BY_LINE: Final = {"j": 1, "\x1b[B": 1, "\x1bOB": 1, "k": -1, "\x1b[A": -1, "\x1bOA": -1}
_BY_SCREEN: Final = {" ": 1, "\x1b[6~": 1, "\x1b[5~": -1}
_TO_THE_ENDS: Final = {"g": 0, "\x1b[H": 0, "\x1b[1~": 0, "G": 10**9, "\x1b[F": 10**9, "\x1b[4~": 10**9}
_ABOVE_AND_BELOW: Final = 3
"""Lines of a screen that are no rows: the summary, the headings, the footer."""


class TopView:
    """The choices of the user: order, filter, scrolling.

    Args:
        by: key of `ORDERS`.
        role: show this role alone; None for every one.
    """

    def __init__(self, by: str, role: str | None) -> None:
        self.by = by
        self._role = role
        self._needle = ""
        self._typing = False
        self._helping = False
        self._first = 0
        self._page = 1

    def press(self, key: str) -> bool:
        """Take a key. Returns whether it ends the command."""
        if self._typing:
            self._type(key)
        elif key == "q":
            return True
        elif key == "?":
            self._helping = not self._helping
        elif key == "/":
            self._typing, self._needle = True, ""
        elif key == "\x1b":
            self._needle, self._helping = "", False
        elif key in _BY_LINE:
            self._first += _BY_LINE[key]
        elif key in _BY_SCREEN:
            self._first += _BY_SCREEN[key] * self._page
        elif key in _TO_THE_ENDS:
            self._first = _TO_THE_ENDS[key]
        else:
            self.by = next((name for name in ORDERS if name[0] == key), self.by)
        return False

    def _type(self, key: str) -> None:
        if key in ("\r", "\n"):
            self._typing = False
        elif key == "\x1b":
            self._typing, self._needle = False, ""
        elif key in ("\x7f", "\b"):
            self._needle = self._needle[:-1]
        elif len(key) == 1 and key.isprintable():
            self._needle += key
        self._first = 0

    def table(self, mesh: Document, rates: Mapping[str, Rate]) -> list[Line]:
        """The whole table, for a file: a summary, the headings, one line a node."""
        rows = self._rows(mesh, rates)
        return [(self._summary(mesh), "bold"), *_drawn(rows, _COLUMNS, rows)]

    def screen(self, mesh: Document, rates: Mapping[str, Rate], width: int, height: int) -> list[Line]:
        """One screen of the table: the summary, the columns that fit, the rows from the chosen one on, and a footer."""
        self._page = max(1, height - 1 - _ABOVE_AND_BELOW)
        rows = self._rows(mesh, rates)
        self._first = max(0, min(self._first, len(rows) - self._page))
        shown = rows[self._first : self._first + self._page]
        columns = _that_fit(rows, width)
        table: Sequence[Line] = [(text, "") for text in HELP] if self._helping else _drawn(shown, columns, rows)
        lines = [(self._summary(mesh), "bold"), *table[: self._page + 1], (self._footer(len(rows), columns), "dim")]
        return [(cut(text, width), style) for text, style in lines]

    def _rows(self, mesh: Document, rates: Mapping[str, Rate]) -> list[Row]:
        wanted = [node for node in mesh["nodes"] if self._role is None or node["role"] == self._role]
        needle = self._needle.casefold()
        rows = [Row(node, rates.get(node["position"], Rate())) for node in wanted if needle in _words(node)]
        rows.sort(key=ORDERS[self.by])  # stable, and the document is ordered by role and rank
        return rows

    def _summary(self, mesh: Document) -> str:
        summary = mesh["summary"]
        text = (
            f"{mesh['node']}: {summary['nodes']} nodes, {in_trouble(mesh)} in trouble, {summary['missing']} missing, "
        )
        return text + f"{summary['in_flight']} in flight; by {self.by}"

    def _footer(self, rows: int, columns: Sequence[_Column]) -> str:
        if self._typing:
            return f"/{self._needle}"
        last = min(rows, self._first + self._page)
        parts = [f"{self._first + 1 if rows else 0}-{last} of {rows}"]
        if self._needle:
            parts.append(f"with {self._needle!r}")
        parts.append("? keys")
        if hidden := [column.name for column in _COLUMNS if column not in columns]:
            parts.append(f"no room: {', '.join(hidden)}")
        return "; ".join(parts)


def _words(node: Document) -> str:
    return f"{node['position']} {node['state']} {node['address'] or ''}".casefold()


def _widths(rows: Sequence[Row], columns: Sequence[_Column]) -> list[int]:
    # The names of nodes alone have any length; of all rows, so that columns stand still while rows are scrolled.
    longest = max((len(columns[0].text(row)) for row in rows), default=0)
    return [max(columns[0].width, longest), *(column.width for column in columns[1:])]


def _that_fit(rows: Sequence[Row], width: int) -> Sequence[_Column]:
    """The most important columns that fit, in the order of the table; the first one in any case."""
    chosen: list[_Column] = []
    for column in sorted(_COLUMNS, key=lambda column: column.importance):
        more = sorted([*chosen, column], key=_COLUMNS.index)
        if chosen and sum(_widths(rows, more)) + len(more) - 1 > width:
            break
        chosen = more
    return chosen


def _drawn(rows: Sequence[Row], columns: Sequence[_Column], all_rows: Sequence[Row]) -> list[Line]:
    widths = _widths(all_rows, columns)

    def line(cells: Sequence[str]) -> str:
        aligned = [
            f"{cell:<{width}}" if number < _TEXTS else f"{cell:>{width}}"
            for number, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return " ".join(aligned).rstrip()

    headings = (line([column.name for column in columns]), "bold")
    return [
        headings,
        *((line([column.text(row) for column in columns]), _style(row)) for row in rows),
    ]


def _style(row: Row) -> str:
    return "red" if row.node["state"] in TROUBLE else ""
