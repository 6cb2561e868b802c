"""`taskd-net faults simulate`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TextIO

import click

from taskd_net.base.codes import ArgumentError
from taskd_net.base.untrusted import json_value, shown
from taskd_net.cli.command import JSON
from taskd_net.cli.faults.options import config, options, rules_of
from taskd_net.cli.lines import say, say_json
from taskd_net.job.faults.decisions import Decision
from taskd_net.job.faults.events import FaultEvent, read_event
from taskd_net.job.faults.policy import FaultPolicy
from taskd_net.job.faults.simulation import Simulation

SKIPPED: Final = 1
"""Exit code: a line is no event."""

LINE_CHARS: Final = 65_536
"""Characters of a line at most; an event has some hundred."""

ENDS, HANGS = "ends", "hangs"


@click.command(
    params=[
        *options("fault_config", "fault_edition", "fault_mode", "fault_job", "sub_health", "linkdown_timeout"),
        click.Option(
            ["--steps"],
            type=click.Choice((ENDS, HANGS)),
            default=ENDS,
            show_default=True,
            help="Whether each step of the grace mode ends at once, or never.",
        ),
        click.Option(
            ["--plot"],
            type=click.Path(path_type=Path, dir_okay=False),
            metavar="FILE",
            help="Draw the devices over time into an SVG or PNG file. Needs the extra `plot`.",
        ),
        JSON,
    ],
    short_help="Show what would have been decided on events.",
)
@click.argument("events", metavar="EVENTS.jsonl", type=click.File("r", encoding="utf-8", errors="replace"))
@click.pass_context
def simulate(ctx: click.Context, /, events: TextIO, steps: str, plot: Path | None, as_json: bool, **_: object) -> None:
    """Show what would have been decided on events; `-` reads the standard input.

    Each line is a JSON object with `code`, `device`, `at` (seconds since the epoch), and `kind` (occurred, recovered,
    once), `severity` (notice, minor, major, critical) and `network` (true) if they differ from `occurred`, none and
    false. A line that is no event is named, and the rest goes on. With --json each decision is one JSON object.

    \b
    Examples:
      taskd-net faults simulate events.jsonl --fault-config /etc/mindx-dl/fault-config
      taskd-net faults simulate events.jsonl --fault-mode grace --plot events.svg

    \b
    Exit codes:
      0      shown
      1      a line is no event, the files cannot be used, or the plot cannot be written
      2      a flag, or EVENTS.jsonl, is wrong
    """
    settings = config(ctx)
    policy = FaultPolicy(rules_of(settings), settings.mode, settings.job_kind, settings.answer_to_sub_health)
    draw = None
    if plot is not None:
        from taskd_net.cli.faults.plot import drawer

        draw = drawer(plot)
    reading = _Reading(events)
    simulation = Simulation(policy, ends=steps == ENDS)
    if not as_json:
        say(_HEAD)
    kept: list[Decision] = []
    for decision in simulation.run(reading.events()):
        if as_json:
            say_json(as_document(decision))
        else:
            say(_row(decision))
        if draw is not None:
            kept.append(decision)
    for isolated in sorted(policy.isolated()) if not as_json else ():
        say(f"at the end: {isolated.device} {isolated.action.value} since {moment(isolated.since)}: {isolated.reason}")
    if draw is not None:
        draw(kept, simulation.now)
    sys.exit(SKIPPED if reading.skipped else 0)


class _Reading:
    """The events of a file. A line that is none is named on stderr."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self.skipped = 0

    def events(self) -> Iterator[FaultEvent]:
        number = 0
        while line := self._file.readline(LINE_CHARS):
            number += 1
            if len(line) == LINE_CHARS and not line.endswith("\n"):
                self._skip(number, f"it has more than {LINE_CHARS} characters")
                while (rest := self._file.readline(LINE_CHARS)) and not rest.endswith("\n"):
                    """The rest of the line."""
                continue
            if not line.strip():
                continue
            try:
                value = json_value(line)
            except ValueError:
                self._skip(number, f"it is {shown(line.strip())}; expected a JSON object")
                continue
            try:
                yield read_event(value)
            except ArgumentError as error:
                self._skip(number, str(error))

    def _skip(self, number: int, reason: str) -> None:
        self.skipped += 1
        say(f"line {number}: {reason}", err=True)


_HEAD: Final = f"{'time':20} {'device':20} {'code':9} {'level':5} {'type':19} {'on device':19} steps, and why"


def moment(at: float) -> str:
    """A time for people: UTC, or bare seconds for a small number."""
    if at < 1e9:
        return f"{at:g} s"
    return datetime.fromtimestamp(round(at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _row(decision: Decision) -> str:
    done = ", ".join(map(str, decision.steps)) or ("over" if decision.cleared else "nothing")
    kind, standing = decision.fault_type, decision.standing
    text = f"{moment(decision.at):20} {decision.device:20} {decision.code:9} {kind.level:5} {kind.word:19}"
    return f"{text} {standing.word:19} {done}: {decision.reason}"


def as_document(decision: Decision) -> dict[str, object]:
    """A decision as a JSON object."""
    return {
        "at": decision.at,
        "device": decision.device,
        "code": decision.code,
        "level": decision.fault_type.level,
        "type": decision.fault_type.word,
        "standing": decision.standing.word,
        "steps": [{"action": step.action.value, "limit": step.limit} for step in decision.steps],
        "cleared": decision.cleared,
        "reason": decision.reason,
    }
