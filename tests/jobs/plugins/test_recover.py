"""recoverPlugin, beyond the transcripts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taskd_net.job.decide.events import MachineReset, ReceiverGone
from tests.jobs.scene import CLUSTERD, commands, owner, started


def test_the_controller_recovers_without_a_node_that_cannot_be_reached() -> None:
    scene = started(0, 1, config=CLUSTERD)
    scene.away.add("Agent/1")
    scene.signal("changeStrategy", strategy="recover", nodes=(1,))
    scene.settle()
    calls = [call.name for _ in range(5) for call in scene.tick(3.0).calls]
    assert calls == ["change_strategy"] and owner(scene) == ""


@pytest.mark.parametrize(("wait", "ticks"), [(0, 5), (60, 5), (8, 2), (1, 1)])
def test_the_controller_recovers_before_the_framework_has_given_up(wait: float, ticks: int) -> None:
    scene = started(0, 1, config=replace(CLUSTERD, decision_wait=wait))
    scene.away.add("Agent/1")
    scene.signal("changeStrategy", strategy="recover", nodes=(1,))
    scene.tick()
    called = [bool(scene.tick(3.0).calls) for _ in range(5)]
    assert called.index(True) == ticks - 1


@pytest.mark.parametrize(("signal", "calls"), [("stopTrain", []), ("preExitProcess", ["change_strategy"])])
def test_a_recovery_that_waits_ends_with_another_faults_signal(signal: str, calls: list[str]) -> None:
    """Its result would be taken for that of the other fault. A preExitProcess comes beside a round."""
    scene = started(0, 1, config=CLUSTERD)
    scene.away.add("Agent/1")
    scene.signal("changeStrategy", "change_strategy", "fault_nodes_exit", uuid="u", strategy="recover", nodes=(1,))
    scene.settle()
    assert owner(scene) == "recoverPlugin"
    scene.signal(signal, uuid="another")
    outcomes = [*scene.settle(), scene.tick(20.0)]
    assert [call.name for outcome in outcomes for call in outcome.calls] == calls


def test_a_recovery_that_waits_is_void_when_its_stream_ends() -> None:
    """ClusterD has forgotten it. The 203 was given, and goes on."""
    scene = started(0, 1, config=CLUSTERD)
    scene.away.add("Agent/1")
    scene.signal("changeStrategy", "change_strategy", uuid="u", strategy="recover", nodes=(1,))
    scene.settle()
    scene.take(MachineReset())
    outcomes = [*scene.settle(), scene.tick(20.0)]
    assert owner(scene) == "" and not [call for outcome in outcomes for call in outcome.calls]
    assert [code for outcome in outcomes for _, code in commands(outcome)] == [203]


@pytest.mark.parametrize("nodes", [(), (1,)], ids=["nobody", "taken-before"])
def test_the_controller_recovers_at_once_where_no_203_is_on_its_way(nodes: tuple[int, ...]) -> None:
    scene = started(0, 1, config=CLUSTERD)
    scene.signal("globalFault", "on_global_rank", "fault_nodes_exit", uuid="u", nodes=nodes)
    scene.settle()
    scene.signal("changeStrategy", "change_strategy", uuid="u", strategy="recover", nodes=nodes)
    assert [call.name for call in scene.tick(0.01).calls] == ["change_strategy"] and owner(scene) == ""
    assert not [call for outcome in scene.settle() for call in outcome.calls]


@pytest.mark.parametrize("how", ["gone", "says-so"])
def test_the_controller_recovers_at_once_where_the_acknowledgement_of_a_203_is_lost(how: str) -> None:
    """The launcher takes its 203 and leaves, and its acknowledgement with it."""
    scene = started(0, 1, config=CLUSTERD, process="p")
    scene.away.add("Agent/1")
    scene.signal("changeStrategy", "change_strategy", uuid="u", strategy="recover", nodes=(1,))
    scene.settle()
    assert owner(scene) == "recoverPlugin"
    (command,) = scene.job.state.outbox.commands()
    if how == "gone":
        scene.take(ReceiverGone(command))
    else:
        scene.fault(1)
    assert [call.name for outcome in scene.settle() for call in outcome.calls] == ["change_strategy"]
    assert scene.job.state.outbox.commands() == [command], "it is sent again: a link may have broken"
