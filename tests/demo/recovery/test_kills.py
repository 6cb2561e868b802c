"""The stages at which processes are killed: those of the stand-in's machine and of the client, none left out."""

from __future__ import annotations

from typing import Final

import pytest

from taskd_net.demo.recovery.flows import BEFORE, CALLS, FURTHER, RECOVER, RETRY, Flow
from taskd_net.demo.recovery.kills import GIVEN_UP
from taskd_net.recover import rpcs
from taskd_net.recover.life import Life, Step
from taskd_net.sim.clusterd.course import DUE, STEPS, Pass, Read, Write
from taskd_net.sim.clusterd.messages import Queue, Report
from taskd_net.sim.clusterd.round import Job, Round
from taskd_net.sim.clusterd.table import State
from tests.sim.clusterd.client import SCENARIOS, play, scenario

ALL: Final = (RETRY, RECOVER, *FURTHER)
FLOWS = pytest.mark.parametrize("flow", ALL, ids=lambda flow: flow.name)
OUTSIDE: Final = ("pre-exit", "pause-start-agent", "switched-on-later")
"""Flows with a stage that is no state of ClusterD."""


def rests(name: str) -> bool:
    """True for a state that waits for the client, for a time, or for a fault."""
    state = State(name)
    if state is State.INIT:
        return True
    match STEPS[state]:
        case Read():
            return True
        case Write(after=after):
            return after is not None
        case Pass(event=event):
            return event(Round(Job("demo"))) in DUE


def stages(flow: Flow) -> list[str]:
    """The stages of a flow that are states of ClusterD."""
    return [stop.at for stop in flow.stops if not stop.is_before and stop.at in list(State)]


@FLOWS
def test_the_stages_of_a_flow_are_the_states_in_which_it_rests(flow: Flow) -> None:
    said = {"stress": [Report(Queue.STRESSED, faulty=(3,))]} if flow.name == "stress-test" else None
    walked = [state for state in play(scenario(flow.file), said).states if rests(state)]
    if flow.name != "switched-on-later":
        assert list(dict.fromkeys([*stages(flow), *walked[-1:]])) == list(dict.fromkeys(walked))
    assert (flow.name in OUTSIDE) == (len(stages(flow)) < len(flow.stops) and flow not in (RETRY, RECOVER))


def test_each_scenario_of_the_package_has_its_kills() -> None:
    assert {flow.name for flow in ALL} == {path.stem for path in SCENARIOS.glob("*.yaml")} - {"killed-at-each-stage"}


@FLOWS
def test_a_stage_has_what_came_until_then(flow: Flow) -> None:
    for stop in flow.stops:
        assert stop.calls <= len(flow.calls)
        assert stop.reports <= len(flow.reports)
        if stop.held in flow.calls:
            assert flow.calls[stop.calls - 1] == stop.held, "the held call is the last one"
            assert stop.held.partition(" ")[0] in GIVEN_UP


def test_the_stages_before_the_fault_are_the_calls_of_the_client() -> None:
    names = {Step.INIT: rpcs.INIT.name, Step.REGISTER: rpcs.REGISTER.name, Step.SUBSCRIBE: rpcs.SIGNALS.name}
    life, made = Life(), []
    while not life.is_reading:
        step = life.next.step
        made.append(names[step])
        if step is Step.SUBSCRIBE:
            life.opened(0.0)
        else:
            life.answered(0.0, step, 0)
    assert tuple(made) == CALLS
    assert [stop.at for stop in BEFORE] == [*made, State.INIT]
