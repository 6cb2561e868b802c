"""The time of ours in each flow of recovery: the measure `rounds`, of the processes of `taskd-net demo recovery`."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from benchmarks.measures import Bench
from benchmarks.processes import TurnFailed
from benchmarks.systems import OURS
from taskd_net.base.vocabulary import START
from taskd_net_lab.demos.job.evidence import Seen
from taskd_net_lab.demos.job.run import Result, play
from taskd_net_lab.demos.job.scenarios import Scenario
from taskd_net_lab.demos.job.terms import ASKS, BEGAN, COMMAND, ENDED
from taskd_net_lab.demos.recovery.scenarios import FLOWS
from taskd_net_lab.demos.recovery.stage import CLUSTERD, FRAMEWORK, RecoveryStage

SIGNAL: Final = "signal"
CONTINUE: Final = "continueStartAgent"
CALL: Final = "call"
STREAM_ENDED: Final = "stream_ended"
STREAM_BEGAN: Final = "stream_began"
SIGNAL_STREAM: Final = "SubscribeProcessManageSignal"


@dataclass(frozen=True, slots=True)
class Moment:
    """An event of a flow, and when it was seen.

    Args:
        at: seconds (`time.monotonic`).
        who: the process.
        what: as in `Seen`; of ClusterD a signal, the call of a client, or the begin or end of the stream of signals.
        code: of a command.
        text: the call, the signal, or as in `Seen`.
    """

    at: float
    who: str
    what: str
    code: int = 0
    text: str = ""


class _Stage(RecoveryStage):
    """The stage, with a time for each event."""

    moments: ClassVar[list[Moment]]

    def _see(self, event: Seen) -> None:
        self.moments.append(Moment(time.monotonic(), event.who, event.what, event.code, event.text))
        super()._see(event)

    def read(self, line: bytes, pid: int) -> Seen | None:
        at = time.monotonic()
        match json.loads(line):
            case {"event": "sent", "signal_type": "keep-alive"}:
                pass
            case {"event": "sent", **fields}:
                self.moments.append(Moment(at, CLUSTERD, SIGNAL, text=str(fields.get("signal_type", ""))))
            case {"event": "called", "call": str(call)} if call.startswith(("Report", "Reply")):
                self.moments.append(Moment(at, CLUSTERD, CALL, text=call))
            case {"event": ("stream_ended" | "stream_began") as what, "call": str(call)} if call == SIGNAL_STREAM:
                self.moments.append(Moment(at, CLUSTERD, what))
        return super().read(line, pid)


def _is_signal(each: Moment) -> bool:
    return each.what == SIGNAL


def _is_end(each: Moment) -> bool:
    return each.what == ENDED


def _is_end_of_stream(each: Moment) -> bool:
    return each.what == STREAM_ENDED


def _cause_of(effect: Moment) -> Callable[[Moment], bool] | None:
    """The events that an event follows from; None for one that is no act of ours."""
    match effect:
        case Moment(who=who, what="command") if who == FRAMEWORK:
            # `recover` waits for the end of those that were told to leave.
            return lambda each: _is_signal(each) or _is_end(each)
        case Moment(who=who, what="command", code=code) if code == START:
            # A process has started before its first one; afterwards ClusterD may have held it back.
            return lambda each: (each.who, each.what) == (who, BEGAN) or each.text == CONTINUE
        case Moment(what="command", who=who) if who != CLUSTERD:
            return _is_signal
        case Moment(what=what) if what == CALL:
            return lambda each: each.what in (ASKS, ENDED) or (each.what == COMMAND and each.who.startswith("Worker/"))
        case Moment(who=who, what=what, text="died") if (who, what) == (FRAMEWORK, ASKS):
            return _is_end
        case Moment(what=what) if what == STREAM_BEGAN:
            return _is_end_of_stream
    return None


def waits(moments: Sequence[Moment]) -> Iterator[tuple[float, Moment, Moment]]:
    """The waits of ours: seconds, the act, and the last event before it that it can follow from.

    An act without one before it, such as the first subscription, is none. Nor is the go of an Agent that has just
    started.
    """
    for number, effect in enumerate(moments):
        if (is_cause := _cause_of(effect)) is None:
            continue
        cause = next((each for each in reversed(moments[:number]) if is_cause(each)), None)
        if cause is not None and cause.what != BEGAN:
            yield effect.at - cause.at, cause, effect


async def _play(scenario: Scenario) -> tuple[Result, list[Moment]]:
    found: list[Moment] = []

    class Stage(_Stage):
        moments = found

    result = await play(replace(scenario, stage=Stage))
    return result, found


def rounds(bench: Bench) -> None:
    """The longest wait of ours in each flow of recovery."""
    for scenario in FLOWS:
        bench._progress(scenario.name)
        with bench._turn(scenario.name, OURS):
            result, moments = asyncio.run(_play(scenario))
            if not result.ok:
                raise TurnFailed(f"{scenario.name}: {'; '.join(result.problems)}")
            seconds, cause, effect = max(waits(moments), key=lambda each: each[0])
            bench._progress(f"  {seconds * 1e3:.0f} ms: {_name(cause)} until {_name(effect)}")
            bench.results.add("rounds", scenario.name, "ms", OURS, seconds * 1e3)


def _name(moment: Moment) -> str:
    return " ".join(filter(None, (moment.who, moment.what, str(moment.code or ""), moment.text)))
