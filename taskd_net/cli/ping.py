"""`taskd-net ping`."""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Sequence
from typing import Any

import click

from taskd_net import Position
from taskd_net.cli.command import command, to_position
from taskd_net.cli.completion import positions
from taskd_net.cli.lines import say_json
from taskd_net.cli.probing import as_object, ask, counted, counted_object, failure, milliseconds
from taskd_net.cli.screen import Screen
from taskd_net.observe.client import NodeClient
from taskd_net.observe.probe_codec import Echo, ProbeSeries


class Summary:
    """Counts and times of the probes so far.

    Attributes:
        sent: probes with an answer, or without one in time.
        not_asked: the reason why the destination, or a part of it, was not probed; empty where all of it was.
    """

    def __init__(self) -> None:
        self.sent = 0
        self.not_asked = ""
        self._times: list[float] = []

    def add(self, echo: Echo) -> None:
        """Count an answer. A node that knows no probes is no loss."""
        self.sent += 1
        if not echo.asked:
            self.not_asked = failure(echo)
        if echo.ok or not echo.asked:
            self._times.append(echo.seconds)

    @property
    def complete(self) -> bool:
        """True if there were probes, and all of them were answered, by the whole destination."""
        return 0 < self.sent == len(self._times) and not self.not_asked

    def as_object(self, to: str) -> dict[str, object]:
        """The summary for `--json`; times are None without an answer."""
        loss = 1.0 - len(self._times) / self.sent if self.sent else None
        reason = {"not_asked": self.not_asked} if self.not_asked else {}
        return {"to": to, "sent": self.sent, "answered": len(self._times), "loss": loss, **reason, **self._figures()}

    def as_text(self, to: str) -> str:
        """The summary in the words of ping(8)."""
        if self.not_asked and not self.sent:
            return f"{to}: {self.not_asked}"
        loss = f"{100.0 * (1.0 - len(self._times) / self.sent):.3g} % lost" if self.sent else "nothing lost"
        figures = ", ".join(f"{key.removesuffix('_ms')} {value}" for key, value in self._figures().items())
        return f"{to}: {self.sent} sent, {len(self._times)} answered, {loss}" + (
            (f"; {figures} ms" if self._times else "") + (f"; {self.not_asked}" if self.not_asked else "")
        )

    def _figures(self) -> dict[str, float | None]:
        times = sorted(self._times)
        if not times:
            return dict.fromkeys(("min_ms", "avg_ms", "median_ms", "p99_ms", "max_ms"))
        figures = {
            "min_ms": times[0],
            "avg_ms": statistics.fmean(times),
            "median_ms": statistics.median(times),
            "p99_ms": percentile(times, 0.99),
            "max_ms": times[-1],
        }
        return {key: milliseconds(value) for key, value in figures.items()}


def percentile(times: Sequence[float], share: float) -> float:
    """The smallest of sorted times that at least this share of them does not exceed."""
    return times[math.ceil(share * len(times)) - 1]


@command(
    "ping",
    short_help="Measure round trips to positions.",
)
@click.argument("dest", callback=to_position(), shell_complete=positions(several=True))
@click.option(
    "--count",
    type=click.IntRange(0),
    default=4,
    metavar="N",
    show_default=True,
    help="Number of probes; 0: until a signal.",
)
@click.option(
    "--interval",
    type=click.FloatRange(0.01, 3600.0),
    default=1.0,
    metavar="SECONDS",
    show_default=True,
    help="Seconds between two probes.",
)
@click.option("--json", "as_json", is_flag=True, help="Print each answer, then the summary, as a JSON object a line.")
@click.pass_context
def ping(ctx: click.Context, /, dest: Position, count: int, interval: float, as_json: bool, **settings: Any) -> None:
    """Measure round trips through the mesh to DEST, from the node at --at.

    DEST is Role/serverRank[/processRank]; ranks may be comma lists or All. Then the answer counts the nodes that
    answered, and names the first that did not. A probe takes the way of a message. Nodes answer it themselves;
    applications see nothing.

    \b
    Examples:
      taskd-net ping Worker/0/3
      taskd-net ping Worker/All/All --count 1 --at 10.0.0.7:9601
      taskd-net ping Agent/2 --count 0 --interval 0.2
      taskd-net ping Worker/0/0,3 --json | jq .ms

    \b
    Exit codes:
      0      every probe was answered
      1      at least one was not, or not by all of DEST: the code of its answer says why
      2      a flag, a variable, the file or DEST is wrong
      3      nobody at --at who can be asked

    A signal ends it as --count does: with the summary.
    """
    series = ProbeSeries(dest, settings["timeout"], count, interval)
    screen = Screen()
    summary = Summary()

    async def work(client: NodeClient) -> None:
        about = await client.about()
        if not as_json:
            screen.say(f"PING {dest} from {about.position} at {settings['at']}")
        async for echo in client.ping(series):
            if not echo.asked and not echo.receivers:
                # Its loss would be a figure about nothing.
                summary.not_asked = failure(echo)
                return
            summary.add(echo)
            if as_json:
                answer = {"seq": summary.sent, **as_object(echo), **counted_object(echo)}
                say_json(answer)
            else:
                came = str(echo.src) if echo.ok else failure(echo)
                text = f"{summary.sent}  {came}  {milliseconds(echo.seconds)} ms{counted(echo, dest, 'answered')}"
                screen.say(text, style="green" if echo.ok else "red")

    ask(ctx, work)
    if as_json:
        say_json(summary.as_object(str(dest)))
    else:
        screen.say(summary.as_text(str(dest)))
    sys.exit(0 if summary.complete else 1)
