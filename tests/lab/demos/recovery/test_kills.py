"""The stages at which processes are killed: those of the stand-in's machine and of the client, none left out."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

import pytest

from taskd_net.job.clusterd import rpcs
from taskd_net.job.clusterd.life import Life, LifeStep
from taskd_net_lab.clusterd.course import STEPS, Pass, Watch, Write
from taskd_net_lab.clusterd.messages import Queue, Report
from taskd_net_lab.clusterd.reader import SCENARIOS
from taskd_net_lab.clusterd.round import Round
from taskd_net_lab.clusterd.scenario import Fault
from taskd_net_lab.clusterd.table import State
from taskd_net_lab.demos.job.evidence import Evidence, Seen
from taskd_net_lab.demos.job.stage import Missed
from taskd_net_lab.demos.job.terms import BEGAN, COMMAND, ENDED, REGISTERED
from taskd_net_lab.demos.recovery.flows import BEFORE, CALLS, FURTHER, RECOVER, REPLACED, RETRY, Flow, Stop
from taskd_net_lab.demos.recovery.kills import GIVEN_UP, Since, rest
from taskd_net_lab.demos.recovery.stage import CLUSTERD, ENTERED, HEALTH, RecoveryStage
from tests.lab.clusterd.client import play, scenario

ALL: Final = (RETRY, RECOVER, *FURTHER)
FLOWS = pytest.mark.parametrize("flow", ALL, ids=lambda flow: flow.name)
OUTSIDE: Final = ("pause-start-agent", "switched-on-later")
"""Flows with a stage that is no state of ClusterD."""


def rests(name: str, flow: Flow) -> bool:
    """True for a state that waits for the client, for a time, or for a fault.

    The end of a round is none: a ClusterD that is killed there leaves the job paused, for a person to change.
    """
    state, given = State(name), scenario(flow.file)
    action = given.steps[0].action
    round_ = Round(given.jobs[0], faults=dict(action.ranks) if isinstance(action, Fault) else {})
    match STEPS.get(state):
        case Write(after=after) | Pass(after=after):
            return bool(after(round_))
        case Watch():
            return state is not State.FAULT_RETRY
    return True


def stages(flow: Flow) -> list[str]:
    """The stages of a flow that are states of ClusterD."""
    return [stop.at for stop in flow.stops if not stop.is_before and stop.at in list(State)]


@FLOWS
def test_the_stages_of_a_flow_are_the_states_in_which_it_rests(flow: Flow) -> None:
    said = {"stress": [Report(Queue.STRESSED, tested={3: ("2",)})]} if flow.name == "stress-test" else None
    walked = [state for state in play(scenario(flow.file), said).states if rests(state, flow)]
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
    names = {
        LifeStep.INIT: rpcs.INIT.name,
        LifeStep.REGISTER: rpcs.REGISTER.name,
        LifeStep.SUBSCRIBE: rpcs.SIGNALS.name,
    }
    life, made = Life(), []
    while not life.is_reading:
        step = life.next.step
        made.append(names[step])
        if step is LifeStep.SUBSCRIBE:
            life.opened(0.0)
        else:
            life.answered(0.0, step, 0)
    assert tuple(made) == CALLS
    assert [stop.at for stop in BEFORE] == [*made, State.INIT]


AT: Final = Stop("wait report process recover status", course=REPLACED)
COME: Final = (
    Seen(CLUSTERD, ENTERED, 1, text=AT.at),
    Seen("Agent/1", ENDED, 2, 1),
    Seen("Agent/1", COMMAND, 3, 210, "3"),
    Seen("Worker/2", BEGAN, 4),
    Seen("Worker/3", BEGAN, 5),
    Seen("Worker/2", REGISTERED, 4),
    Seen("Worker/3", REGISTERED, 5),
    Seen(CLUSTERD, HEALTH, 1),
    Seen(CLUSTERD, HEALTH, 1),
)
"""All that a flow waits for before a kill at this stage."""


class Watched(RecoveryStage):
    """A stage without processes, which is told what is seen."""

    def __init__(self, without: Seen | None = None) -> None:
        super().__init__()
        self.evidence = Evidence([Seen("Agent/1", BEGAN, 2)])
        self._left = deque(each for each in COME if each != without)

    async def launch(self, node: int, restarts: int | None = None) -> None:
        """The platform starts the launcher of a node."""

    async def until(self, holds: Callable[[Evidence], bool], what: str) -> None:
        """See one event after another, until this holds, or none is left."""
        while not holds(self.evidence):
            if not self._left:
                raise Missed(what)
            self.evidence.seen.append(self._left.popleft())


async def test_a_flow_rests_at_a_stage_when_all_before_it_has_come() -> None:
    async with Watched() as stage:
        await rest(stage, AT, Since(stage))
        assert stage.evidence.seen[1:] == list(COME)


@pytest.mark.parametrize("rank", [2, 3])
async def test_no_kill_before_the_new_training_processes_are_registered(rank: int) -> None:
    """The next Manager would order a stress test of the processes before, and report that it has failed."""
    async with Watched(without=Seen(f"Worker/{rank}", REGISTERED, rank + 2)) as stage:
        with pytest.raises(Missed, match=f"Worker/{rank} starts again, and is registered"):
            await rest(stage, AT, Since(stage))


async def test_a_late_registration_is_that_of_the_process_before() -> None:
    async with Watched() as stage:
        seen = stage.evidence.seen
        seen.append(Seen("Worker/3", BEGAN, 5))
        registered = Since(stage).registered("Worker/3")
        seen += [Seen("Worker/3", REGISTERED, 5), Seen("Worker/3", BEGAN, 6)]
        assert not registered(stage.evidence)
        seen.append(Seen("Worker/3", REGISTERED, 6))
        assert registered(stage.evidence)
