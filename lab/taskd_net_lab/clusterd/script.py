"""The script of a scenario at work: the answers and the steps whose time has come."""

from __future__ import annotations

from collections.abc import Callable

from taskd_net_lab.clusterd.machine import Device, Machine
from taskd_net_lab.clusterd.messages import Stream
from taskd_net_lab.clusterd.scenario import (
    Action,
    Fault,
    HotSwitch,
    Orders,
    Scenario,
    Scripted,
    Step,
    StressTest,
    SwitchCards,
)
from taskd_net_lab.clusterd.table import State


class Script:
    """The steps and answers of a scenario, with time as an argument.

    A step's condition is looked for from the action before it on.

    Args:
        scenario: the scenario.
        holds: tells that the condition of a step holds now.
        now: the time of the start.
    """

    def __init__(self, scenario: Scenario, holds: Callable[[Step], bool], now: float) -> None:
        self._began = now
        self._holds = holds
        self._steps = list(reversed(scenario.steps))
        self._left = {answer: answer.times for answer in scenario.answers}
        self._due: float | None = None
        self._look(now)

    @property
    def wake(self) -> float | None:
        """The time of the next step, if it is known."""
        return self._due

    @property
    def next(self) -> Step | None:
        """The next step; None after the last."""
        return self._steps[-1] if self._steps else None

    def answer(self, call: str, now: float) -> Scripted | None:
        """The scripted answer to a call; None for the right one."""
        for answer, left in self._left.items():
            if answer.call == call and left > 0 and answer.since <= now - self._began < answer.until:
                self._left[answer] = left - 1
                return answer
        return None

    def saw(self, job_id: str, mark: str, now: float) -> None:
        """A job has entered a state, has registered, has subscribed, or its client has gone."""
        step = self.next
        if step is not None and self._due is None and (step.job, step.when) == (job_id, mark):
            self._due = now + step.wait

    def take(self, now: float) -> Step | None:
        """Take the next step, if its time has come. The caller carries it out, and then calls `done`."""
        if self._due is None or now < self._due:
            return None
        self._due = None
        return self._steps.pop()

    def done(self, now: float) -> None:
        """The action of a step is complete; a condition that it has brought about counts for the next one."""
        self._look(now)

    def _look(self, now: float) -> None:
        step = self.next
        if step is not None and self._due is None and (not step.when or self._holds(step)):
            self._due = now + step.wait


def begin(machine: Machine, action: Action, now: float) -> bool:
    """Carry out an action on a job's machine. Returns False where the job is busy.

    Args:
        machine: of the job.
        action: any but those of the platform and of the process, which change nothing here.
        now: the time.
    """
    match action:
        case Fault(ranks, _, pre_exit) if pre_exit:
            for node in {machine.job.node_of(rank) for rank in ranks}:
                devices = {rank: Device.OTHER for rank in ranks if machine.job.node_of(rank) == node}
                machine.devices(node, {}, now)  # a fault is given once: that of an earlier step is over
                machine.devices(node, devices, now)
        case Fault(ranks, in_place):
            machine.fault(ranks, now, in_place=in_place)
        case HotSwitch(ranks):
            return machine.hot_switch(ranks, now)
        case SwitchCards(chosen, ops):
            return machine.switch_cards(chosen, ops, now)
        case StressTest(tests):
            return machine.stress_test(tests, now)
        case Orders(signal, count):
            for _ in range(count):
                machine.order(signal)
    return True


def holds(step: Step, machine: Machine | None) -> bool:
    """Return True where the condition of a step holds now.

    Args:
        step: the step.
        machine: of its job; None before it has registered.
    """
    if machine is None:
        return False
    if step.when in ("subscribed", "unsubscribed"):
        return machine.subscribed if step.when == "subscribed" else not machine.has(Stream.SIGNALS)
    if step.when == State.INIT:
        return machine.rests
    return step.when in ("registered", machine.state)
