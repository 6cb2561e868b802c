"""The appearance of a demo: progress on stderr, the tree and the table on stdout.

A terminal gets colours and a spinner, a file plain lines, and an encoding without arrows other characters.
"""

from __future__ import annotations

import codecs
import io
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.status import Status
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from taskd_net import Position, Role
from taskd_net.demo.report import DemoReport

PIPED_COLUMNS: Final = 100
"""Width of the output without a terminal. On a terminal, 80 suffice for all but very long lists."""

LEAVES: Final = 8
"""Children of one node that are drawn; of more, the first ones."""

_LOOKALIKES: Final = {"→": "->", "✓": "+", "✗": "x", "…": "...", "·": "-", "µ": "u"}


def console(*, stderr: bool = False) -> Console:
    """A console on stdout or stderr that prints everything here in any encoding."""
    stream = sys.stderr if stderr else sys.stdout
    if isinstance(stream, io.TextIOWrapper):
        codecs.register_error("taskd_net.lookalike", _lookalike)
        stream.reconfigure(errors="taskd_net.lookalike")
    made = Console(stderr=stderr, highlight=False)
    if not made.is_terminal:
        made.width = PIPED_COLUMNS
    return made


def _lookalike(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return "".join(_LOOKALIKES.get(char, "?") for char in error.object[error.start : error.end]), error.end


class Step:
    """One step under way: `doing` shows its activity, `done` its result."""

    def __init__(self, status: Status, text: str) -> None:
        self._status = status
        self.text = text

    def doing(self, text: str) -> None:
        """Show the present activity; only on a terminal."""
        self._status.update(f"{text} …")

    def done(self, text: str) -> None:
        """Set the line that stays."""
        self.text = text


class ProgressLines:
    """The steps of a demo, one line each when they are over."""

    def __init__(self, console: Console, report: DemoReport) -> None:
        self._console = console
        self._report = report

    @contextmanager
    def step(self, doing: str) -> Iterator[Step]:
        """One step. It has failed when it raises or adds to the report's problems."""
        began, problems = time.monotonic(), len(self._report.problems)
        mark = Text(" ✗ ", "bold red")
        step = Step(self._console.status(f"{doing} …", spinner_style="cyan"), doing)
        try:
            with step._status:
                yield step
            if len(self._report.problems) == problems:
                mark = Text(" ✓ ", "bold green")
        finally:
            took = Text(f"  {time.monotonic() - began:.1f} s", "bright_black")
            self._console.print(mark + Text(step.text) + took, soft_wrap=True)


def heading(nodes: int, workers: int) -> Text:
    """The processes to start, in a line."""
    many = f"1 Mgr, {counted(nodes, 'Proxy', 'Proxies')}, {counted(nodes, 'Agent')}, {counted(workers, 'Worker')}"
    return Text.assemble(("taskd-net demo", "bold"), f"  {many}, on the loopback interface")


def counted(number: int, one: str, many: str | None = None) -> str:
    """`1 Worker`, `2 Workers`."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def tree(report: DemoReport) -> RenderableType:
    """The routing tree, as the nodes know it."""
    root = Position.mgr()
    drawn = Tree(_node(report, root), guide_style="bright_black")
    _grow(drawn, report, root)
    return Padding(drawn, (0, 0, 0, 1), expand=False)


def _grow(drawn: Tree, report: DemoReport, position: Position) -> None:
    children = sorted(report.tree.get(position, ()), key=_order)
    shown = children if len(children) <= LEAVES or position.role == Role.MGR else children[: LEAVES - 1]
    for child in shown:
        _grow(drawn.add(_node(report, child)), report, child)
    if len(shown) < len(children):
        drawn.add(Text(f"… and {len(children) - len(shown)} more, up to {children[-1]}", "bright_black"))


def _node(report: DemoReport, position: Position) -> Text:
    text = Text(str(position), "" if Role(position.role).is_leaf else "bold")
    if position in report.addresses:
        text.append(f"  {report.addresses[position]}", "not bold bright_black")
    if position == report.replaced:
        text.append("  was killed and started again", "not bold yellow")
    return text


def _order(position: Position) -> tuple[str, int, int]:
    return position.role, int(position.server_rank), int(position.process_rank)


def table(report: DemoReport) -> RenderableType:
    """Each kind of send with its code, the expected code, and its round trips."""
    drawn = Table(box=box.SIMPLE_HEAD, header_style="bold", padding=(0, 1, 0, 0), pad_edge=False)
    drawn.add_column("")
    drawn.add_column("send")
    for number in ("times", "code", "expected", "p50", "p99"):
        drawn.add_column(number, justify="right")
    for sends in report.sends:
        drawn.add_row(
            Text("✓", "green") if sends.ok else Text("✗", "bold red"),
            Text(sends.title),
            str(sends.count),
            Text(str(sends.code), "" if sends.ok else "bold red"),
            str(sends.expected_code),
            _duration(sends.p50_us),
            _duration(sends.p99_us),
        )
    return Padding(drawn, (0, 0, 0, 1), expand=False)


def _duration(us: float) -> str:
    if us < 1000:
        return f"{us:.0f} µs"
    return f"{us / 1000:.1f} ms" if us < 100_000 else f"{us / 1_000_000:.2f} s"
