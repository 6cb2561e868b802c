"""PodReschedulingPlugin: rounds, RetryTime, and reports around a restart."""

from __future__ import annotations

import pytest

from taskd_net.job.decide.events import Acknowledged, Resumed, RetryTime
from taskd_net.job.decide.outbox import COMMAND_RETRY_S
from taskd_net.job.decide.plugins.actions import ASSUMED_RESTARTS
from taskd_net.job.decide.snapshot import MASTER_FAULT_S
from tests.jobs.scene import CLUSTERD, Scene, commands, owner, started


def test_a_round_without_a_known_count_leaves_no_agent_below_0() -> None:
    scene = started(0, 1)
    scene.job.state.records.restarts = None
    scene.fault(1, 3)
    assert [command.message for command in scene.tick().commands] == ["", str(ASSUMED_RESTARTS - 1)]


def test_an_agent_that_waits_for_its_go_gets_no_208() -> None:
    scene = started(0, 1)
    scene.away.add("Agent/2")
    scene.register(2)
    scene.settle()
    scene.signal("pauseStartAgent")
    scene.register(3)
    scene.fault(1, 3)
    assert commands(scene.tick()) == [("Agent/1", 203), ("Agent/0", 208)]


def test_a_fault_of_another_agent_waits_while_agent_0_is_out() -> None:
    scene = started(0, 1)
    scene.fault(0, 1)
    scene.fault(1, 3)
    assert commands(scene.tick()) == [("Agent/0", 203)]
    scene.take(RetryTime(1))
    scene.settle()
    scene.take(RetryTime(2))
    assert commands(scene.tick()) == [("Agent/1", 208)]


def test_an_older_report_is_settled_by_the_208_and_a_later_one_is_answered() -> None:
    scene = started(0, 1)
    scene.take(RetryTime(1))
    scene.settle()
    scene.away.add("Agent/1")
    scene.take(RetryTime(2))
    scene.settle()
    scene.fault(1, 3)
    assert scene.tick().commands == [], "its 208 is on the way"
    scene.away.clear()
    scene.tick(3.0)
    assert not scene.job.state.records.faulty
    scene.fault(1, 4)
    assert commands(scene.tick()) == [("Agent/1", 203), ("Agent/0", 208)]


def restarting(process: str) -> tuple[Scene, str]:
    """A job whose Agent 1 has a 208 on its way, and the uuid of that."""
    scene = started(0, 1, process=process)
    scene.take(RetryTime(1))
    scene.settle()
    scene.take(RetryTime(2))
    scene.away.add("Agent/1")
    return scene, scene.tick().commands[1].uuid


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize(
    ("process", "after", "at", "newer"),
    [
        ("p", True, "1000", True),
        ("p", False, "1007", False),  # it was sent before the 208 was taken: its process would name that
        ("", False, "1000", False),
        ("", False, "1001", True),
        ("", False, "", True),
    ],
)
def test_late_acknowledgement_of_a_208_settles_no_newer_fault(
    process: str, after: bool, at: str, newer: bool, killed: bool
) -> None:
    """The Agent took the 208 long ago, or only now: the report, or its time, tells."""
    scene, uuid = restarting(process)
    if killed:
        scene.job.step(scene.now, Resumed("v"))
    scene.fault(1, 3, at=at, after=uuid if after else "")
    assert [code for _, code in commands(scene.tick())] == ([208] if killed else []), "the fault waits"
    scene.take(Acknowledged(uuid, late=not killed))
    assert commands(scene.tick()) == ([("Agent/1", 203), ("Agent/0", 208)] if newer else [])


def test_prompt_acknowledgement_of_a_208_settles_the_fault_of_any_time() -> None:
    """The clock of a node may be ahead. What came before the acknowledgement is older than the restart."""
    scene, uuid = restarting("")
    scene.fault(1, 3, at="9000")
    scene.tick()
    scene.take(Acknowledged(uuid))
    assert commands(scene.tick()) == [] and not scene.job.state.records.faulty


@pytest.mark.parametrize("value", [2, 0])
def test_retry_time_acts_on_each_change_and_on_no_value_that_was_there(value: int) -> None:
    scene = started(0)
    scene.take(RetryTime(1))
    assert commands(scene.tick()) == []
    scene.take(RetryTime(value))
    assert commands(scene.tick()) == [("Agent/0", 208)]
    scene.take(RetryTime(value))
    assert commands(scene.tick()) == []


def test_an_agent_that_fails_in_clusterds_round_is_answered_but_agent_0_is_clusterds() -> None:
    scene = started(0, 1, 2, config=CLUSTERD)
    scene.signal("changeStrategy", strategy="exit", nodes=(1,))
    scene.settle()
    scene.fault(2, 5, at="1000")
    scene.fault(0, 5, at="1000")
    assert commands(scene.tick()) == [("Agent/2", 203)]
    scene.tick(MASTER_FAULT_S)
    assert scene.job.state.records.exited == {0, 1, 2} and owner(scene) == ""


def test_a_newer_signal_ends_clusterds_round() -> None:
    scene = started(0, 1, config=CLUSTERD)
    scene.signal("changeStrategy", strategy="exit", nodes=(1,))
    scene.settle()
    scene.signal("stopTrain", "stop_train")
    assert [call.name for call in scene.tick().calls] == ["stop_train"]


def test_an_agent_whose_acknowledgement_of_the_go_is_lost_is_restarted_with_the_others() -> None:
    scene = started(0, 1)
    scene.away.add("Agent/2")
    scene.register(2)
    scene.settle()
    scene.tick(COMMAND_RETRY_S)
    scene.fault(1, 3)
    assert commands(scene.tick()) == [("Agent/1", 203), ("Agent/0", 208), ("Agent/2", 208)]
    # It may also be waiting still: 208 means nothing to it then, and the 210 goes on.
    scene.away.clear()
    assert sorted(commands(scene.tick(COMMAND_RETRY_S))) == [("Agent/2", 208), ("Agent/2", 210)]


def test_a_node_that_the_round_has_replaced_restarts_like_the_others() -> None:
    """A last checkpoint may take longer than the return of the pod."""
    scene = started(0, 1, 2, config=CLUSTERD)
    scene.signal("globalFault", "fault_nodes_exit", uuid="a", nodes=(1, 2))
    scene.settle()
    scene.register(1)
    scene.settle()
    scene.signal("changeStrategy", uuid="a", strategy="exit", nodes=(1, 2))
    assert commands(scene.tick()) == [("Agent/0", 208), ("Agent/1", 208)]
    assert owner(scene) == "PodReschedulingPlugin", "Agent 2 is missing"
    scene.register(2)
    scene.settle()
    assert owner(scene) == ""
