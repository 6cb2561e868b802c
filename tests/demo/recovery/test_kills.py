"""The stages at which processes are killed: those of the stand-in's machine and of the client, none left out."""

from __future__ import annotations

import pytest

from taskd_net.demo.recovery.kills import BEFORE, CALLS, RECOVER, RETRY, Flow
from taskd_net.recover import rpcs
from taskd_net.recover.life import Life, Step
from taskd_net.sim.clusterd.course import DUE, STEPS, Read
from taskd_net.sim.clusterd.scenario import Fault
from taskd_net.sim.clusterd.table import TABLE, State
from tests.sim.clusterd.client import play, scenario

FLOWS = pytest.mark.parametrize("flow", [RETRY, RECOVER], ids=lambda flow: flow.name)


def rests(state: str) -> bool:
    """True for a state that waits for the client, for a time, or for a fault."""
    if state == State.INIT:
        return True
    return isinstance(STEPS[State(state)], Read) or not DUE.keys().isdisjoint(TABLE[State(state)])


@FLOWS
def test_the_stages_of_a_flow_are_the_states_in_which_it_rests(flow: Flow) -> None:
    walked = [state for state in play(scenario(flow.name)).states if rests(state)]
    assert [*(stop.at for stop in flow.stops), State.INIT] == walked


@FLOWS
def test_the_kills_interrupt_the_fault_that_the_package_has(flow: Flow) -> None:
    given = scenario(flow.name)
    assert given.jobs[0].strategies == flow.strategies
    assert given.steps[0].action == Fault({3: flow.fault})


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
