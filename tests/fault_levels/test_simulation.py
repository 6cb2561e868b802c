"""taskd_net.job.faults.simulation: the past, decided again."""

from __future__ import annotations

import pytest

from taskd_net.job.faults.events import FaultEvent, FaultKind
from taskd_net.job.faults.levels import Action, Mode
from taskd_net.job.faults.policy import FaultPolicy
from taskd_net.job.faults.simulation import Simulation
from tests.fault_levels.scene import L3, L5, LINK, read


def event(code: str, at: float, kind: str = "occurred") -> FaultEvent:
    """An event."""
    return FaultEvent(code, "npu-0", FaultKind(kind), None, at)


def test_time_passes_between_the_events_and_after_the_last_one() -> None:
    policy = FaultPolicy(read()[0])
    found = list(Simulation(policy).run([event(LINK, 0.0), event(L3, 100.0), event(LINK, 101.0, "recovered")]))
    assert [(decision.code, round(decision.at)) for decision in found] == [
        (LINK, 0),
        (LINK, 30),
        (L3, 100),
        (LINK, 161),
    ]


@pytest.mark.parametrize("ends", [True, False])
def test_steps_end_at_once_or_never(ends: bool) -> None:
    simulation = Simulation(FaultPolicy(read()[0], Mode.GRACE), ends=ends)
    first, second = simulation.run([event(L5, 10.0)])
    assert first.steps[0].action is Action.STOP_PROCESSES
    if ends:
        assert second.cleared and second.reason == "the device was reset" and second.at == 10.0
    else:
        assert second.reason == "stop_processes has not ended within 90 s" and round(second.at) == 100


def test_an_event_out_of_order_arrives_at_the_time_of_the_one_before() -> None:
    simulation = Simulation(FaultPolicy(read()[0]))
    found = list(simulation.run([event(L5, 10.0), event(L3, 5.0)]))
    assert [decision.at for decision in found] == [10.0, 10.0] and simulation.now == 10.0
