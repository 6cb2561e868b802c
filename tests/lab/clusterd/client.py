"""A model client: it plays a scenario against the machine in memory, with a clock of its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from taskd_net_lab.clusterd.desk import Desk
from taskd_net_lab.clusterd.messages import (
    Answered,
    Ended,
    Moved,
    Order,
    Queue,
    Ready,
    Report,
    Sent,
    Signal,
    Stream,
    StressOrder,
    SwitchOrder,
)
from taskd_net_lab.clusterd.reader import SCENARIOS, load
from taskd_net_lab.clusterd.scenario import Away, Change, End, Scenario
from taskd_net_lab.clusterd.script import Script, begin, holds
from taskd_net_lab.clusterd.table import Event, State

TURNS: Final = 1_000

Row = tuple[State, Event, State]
Said = Mapping[str, Sequence[Report | None]]
"""Reports by the order that they answer, one for each time; None for none. Without an entry all goes well."""

OFFERED: Final = ("retry", "recover", "downgrade", "dump", "exit")
WELL: Final[Mapping[str, Report]] = {
    "stop_train": Report(Queue.STOPPED),
    "pause_train": Report(Queue.STOPPED),
    "save_and_exit": Report(Queue.STATUS),
    "on_global_rank": Report(Queue.STRATEGIES, strategies=OFFERED),
    "fault_nodes_exit": Report(Queue.STATUS),
    "new pod running": Report(Queue.STRATEGIES, strategies=("migration",)),
    "switch": Report(Queue.SWITCHED),
    "stress": Report(Queue.STRESSED),
    "downgrade": Report(Queue.STATUS, 201, isolate=(2, 3)),
    **{name: Report(Queue.STATUS) for name in ("retry", "recover", "upgrade", "dump", "continue", "migration")},
}


@dataclass
class Played:
    """A played scenario.

    Attributes:
        rows: the transitions, in order.
        orders: orders that the client got, with the names of `WELL`, or their signal types.
        signals: the signals that the client got.
        answers: codes of its reports.
        seconds: the model's time at the end.
    """

    rows: list[Row] = field(default_factory=list)
    orders: list[str] = field(default_factory=list)
    signals: list[Signal] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def states(self) -> list[str]:
        """States entered, in order."""
        return [to for _, _, to in self.rows]


def name_of(order: Order) -> str:
    """The name of an order in `WELL`."""
    if isinstance(order, SwitchOrder):
        return "switch"
    if isinstance(order, StressOrder):
        return "stress"
    return order.change_strategy or (order.actions[0] if order.actions else order.signal_type)


def scenario(name: str) -> Scenario:
    """A scenario that the package has."""
    return load(SCENARIOS / f"{name}.yaml")


def play(given: Scenario, said: Said | None = None, streams: Sequence[Stream] = tuple(Stream)) -> Played:
    """Play a scenario of one job to its end.

    Args:
        given: the scenario.
        said: reports other than those of a job where all goes well.
        streams: that the client reads.
    """
    return _Model(given, said or {}, streams).play()


class _Model:
    def __init__(self, given: Scenario, said: Said, streams: Sequence[Stream]) -> None:
        numbers = map(str, itertools.count())
        self._desk = Desk(given.jobs, lambda: next(numbers), given.waits, given.outcomes)
        self._job = given.jobs[0].job_id
        self._script = Script(given, lambda step: holds(step, self._desk.machine(step.job)), 0.0)
        self._said = {name: list(reports) for name, reports in said.items()}
        self._streams = streams
        self._now = 0.0
        self._calls = itertools.count()
        self._played = Played()

    def play(self) -> Played:
        for _ in range(TURNS):
            self._join()
            self._settle()
            step = self._script.take(self._now)
            if step is None:
                self._pass()
                continue
            if isinstance(step.action, End):
                self._played.seconds = self._now
                return self._played
            if isinstance(step.action, Away):
                self._desk.forget()
                self._now += step.action.seconds
            elif isinstance(step.action, Change):
                for name, value in step.action.settings.items():
                    setattr(self._desk.jobs[step.job], name, value)
            elif machine := self._desk.machine(self._job):
                begin(machine, step.action, self._now)
            self._settle()
            self._script.done(self._now)
        raise AssertionError(f"no end: {self._played.rows[-6:]}, {self._script.next}")

    def _join(self) -> None:
        if self._desk.machine(self._job) is None and self._desk.init(self._job).code == 0:
            assert self._desk.register(self._job).code == 0
            self._script.saw(self._job, "registered", self._now)
            machine = self._desk.machine(self._job)
            assert machine is not None
            for stream in self._streams:
                machine.begin(stream, self._now)

    def _pass(self) -> None:
        """Let time pass until something is due."""
        machine = self._desk.machine(self._job)
        times = [self._script.wake, machine.wake if machine is not None else None]
        self._now = min(at for at in times if at is not None)
        if machine is not None:
            machine.tick(self._now)

    def _settle(self) -> None:
        machine = self._desk.machine(self._job)
        while machine is not None and machine.decisions:
            decisions, machine.decisions = machine.decisions, []
            for decision in decisions:
                if isinstance(decision, Moved):
                    self._played.rows.append((decision.state, decision.event, decision.to))
                    self._script.saw(self._job, decision.to, self._now)
                elif isinstance(decision, Answered):
                    self._played.answers.append(decision.code)
                elif isinstance(decision, Ready):
                    self._script.saw(self._job, "subscribed", self._now)
                elif isinstance(decision, Ended):
                    machine.begin(decision.stream, self._now)  # the client subscribes again at once
            for decision in decisions:
                if isinstance(decision, Sent):
                    self._take(decision.order, lambda report: machine.report(next(self._calls), report, self._now))

    def _take(self, order: Order, report: Callable[[Report], None]) -> None:
        name = name_of(order)
        if name == "keep-alive":
            return
        self._played.orders.append(name)
        if isinstance(order, Signal):
            self._played.signals.append(order)
        if name == "pre exit process":
            machine = self._desk.machine(self._job)
            assert machine is not None and isinstance(order, Signal)
            machine.fault(order.fault_ranks, self._now)
            return
        answer = self._said[name].pop(0) if self._said.get(name) else WELL.get(name)
        if answer is not None:
            report(answer)
