"""JobReschedulingPlugin, beyond the transcripts."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

import pytest

from taskd_net.job.decide.events import MachineReset, Subscribed, Tick
from taskd_net.job.decide.plugins import Plugin, Progress, built_in
from taskd_net.job.decide.plugins.actions import RECOVERY
from taskd_net.job.decide.plugins.job_rescheduling import Killed
from taskd_net.job.decide.snapshot import Snapshot
from tests.jobs.scene import CLUSTERD, Scene, commands, owner, started


def test_a_deadline_that_has_passed_makes_no_haste() -> None:
    scene = started(0, config=CLUSTERD)
    scene.job.state.streams[RECOVERY].barred.add("JobReschedulingPlugin")
    scene.fault(0, 3)
    scene.tick()
    scene.job.step(scene.now, Tick())
    assert scene.job.wake == scene.now + CLUSTERD.interval


def killed(scene: Scene, uuid: str) -> None:
    """ClusterD ends the job, and Agent 0 gets its 203 in the tick that follows."""
    scene.signal("killMaster", uuid=uuid)
    outcome = scene.tick(0.1)
    assert ("Agent/0", 203) in commands(outcome) and [call.name for call in outcome.calls][-1] == "destroy"


@pytest.mark.parametrize("uuid", ["of the exit", ""])
def test_kill_master_is_carried_out_while_the_exit_before_it_waits_for_its_pods(uuid: str) -> None:
    """Its uuid is that of the exit, or none; the missing pod that returns afterwards does not end the job again."""
    scene = started(0, 1, config=CLUSTERD)
    scene.fault(1, 3)
    scene.signal("changeStrategy", "change_strategy", uuid="of the exit", strategy="exit", nodes=(1,))
    scene.settle()
    assert owner(scene) == "PodReschedulingPlugin"
    killed(scene, uuid)
    scene.register(0, 1)
    assert 203 not in {code for outcome in scene.settle() for _, code in commands(outcome)}


@pytest.mark.parametrize("signal", ["stopTrain", "changeStrategy"])
def test_kill_master_is_carried_out_whichever_plugin_holds_the_stream(signal: str) -> None:
    scene = started(0, 1, config=CLUSTERD)
    scene.away.add("Agent/1")
    strategy = "recover" if signal == "changeStrategy" else ""
    scene.signal(signal, "stop_train", uuid="u", strategy=strategy, nodes=(1,))
    scene.settle()
    assert owner(scene)
    killed(scene, "u")
    assert owner(scene) == ""


class Keeps(Plugin[Killed]):
    """A user's plugin that comes before all others, and never lets the recovery go."""

    name = "Keeps"
    streams: ClassVar = {RECOVERY: 0}

    def __init__(self) -> None:
        super().__init__(Killed())

    def wants(self, snapshot: Snapshot) -> Collection[str]:
        return (RECOVERY,)

    def step(self, stream: str, snapshot: Snapshot) -> Progress:
        return Progress.HOLD


def test_kill_master_is_carried_out_before_a_plugin_that_never_lets_go() -> None:
    scene = Scene(CLUSTERD, lambda: [*built_in(), Keeps()])
    scene.register(0, 1)
    scene.settle()
    assert owner(scene) == "Keeps"
    killed(scene, "u")
    scene.settle()
    assert owner(scene) == "Keeps"


def test_kill_master_outlives_its_stream_of_signals() -> None:
    """ClusterD ends the stream 0.04 s after it."""
    scene = started(0, config=CLUSTERD)
    scene.signal("changeStrategy", uuid="u", strategy="exit", nodes=(0,))
    scene.signal("killMaster", uuid="v")
    scene.take(MachineReset())
    outcome = scene.tick()
    assert [call.name for call in outcome.calls] == ["destroy"], "and the exit is void"
    assert commands(outcome) == [("Agent/0", 203)]


def test_each_kill_master_is_new() -> None:
    scene = started(0, config=CLUSTERD)
    for uuid in ("", "", "u", "u"):
        killed(scene, uuid)
        scene.register(0)
        scene.settle()


def unheard() -> Scene:
    """A killMaster whose 203 Agent 0, which has a fault, has not taken."""
    scene = started(0, 1, config=CLUSTERD, process="p")
    scene.away.add("Agent/0")
    scene.fault(0, 1, at="1000")
    scene.tick()
    killed(scene, "of the exit")
    return scene


def sent_to_0(scene: Scene, seconds: float) -> list[int]:
    """Codes of the commands to Agent 0 within some time."""
    end, found = scene.now + seconds, list[int]()
    while scene.now < end:
        found += [code for to, code in commands(scene.tick(1.0)) if to == "Agent/0"]
    return found


@pytest.mark.parametrize("begin", ["stopTrain", "preExitProcess", "hot-switch"])
def test_kill_master_is_over_when_a_new_round_begins(begin: str) -> None:
    """Agent 0 was cut off, and returns in the process that it was in: nothing ends a job whose nodes are all there."""
    scene = unheard()
    assert 203 in sent_to_0(scene, 30.0), "it is owed until then"
    scene.signal(begin, uuid="of the next round")
    assert len(scene.job.step(scene.now, Tick()).withdrawn) == 1, "no node of the mesh keeps it"
    scene.away.clear()
    assert 203 not in sent_to_0(scene, 60.0)
    assert 0 not in scene.job.state.records.exited, "it need not register again"


def test_a_fault_before_a_kill_master_that_is_over_is_reported_to_the_new_round() -> None:
    scene = unheard()
    scene.take(Subscribed())
    scene.signal("stopTrain", "stop_train", uuid="of the next round")
    outcomes = [scene.tick(1.0) for _ in range(5)]
    assert [set(report.ranks) for outcome in outcomes for report in outcome.reports] == [{1}]


def test_kill_master_and_the_next_round_in_one_tick() -> None:
    scene = started(0, 1, config=CLUSTERD, process="p")
    scene.signal("killMaster", uuid="u")
    scene.signal("stopTrain", "stop_train", uuid="of the next round")
    outcome = scene.tick(0.1)
    assert [call.name for call in outcome.calls] == ["stop_train"]
    assert commands(outcome) == []


def test_an_agent_that_waits_for_its_start_gets_it_when_its_203_is_taken_back() -> None:
    scene = Scene(CLUSTERD)
    scene.away.add("Agent/0")
    scene.register(0, process="p")
    scene.tick()
    killed(scene, "u")
    scene.signal("stopTrain", "stop_train", uuid="of the next round")
    scene.away.clear()
    assert sent_to_0(scene, 5.0) == [210]


def test_an_agent_that_has_started_gets_no_second_go_when_its_203_is_taken_back() -> None:
    scene = started(0, 1, config=CLUSTERD, process="p")
    scene.now += 1.0
    scene.report("Agent/0", "KEEP_ALIVE", 0)
    scene.away.add("Agent/0")
    killed(scene, "u")
    scene.signal("stopTrain", "stop_train", uuid="of the next round")
    scene.away.clear()
    assert sent_to_0(scene, 5.0) == []


def test_a_203_of_another_plugin_outlives_the_begin_of_a_round() -> None:
    """The node has lost its place, whatever ClusterD does next."""
    scene = started(0, 1, config=CLUSTERD, process="p")
    scene.away.add("Agent/0")
    scene.signal("changeStrategy", "change_strategy", uuid="of the exit", strategy="exit", nodes=(0,))
    scene.tick(0.1)
    scene.signal("stopTrain", "stop_train", uuid="of the next round")
    assert 203 in sent_to_0(scene, 30.0)


def test_an_agent_that_has_its_203_is_not_expected_to_go_on() -> None:
    scene = started(0, 1, config=CLUSTERD, process="p")
    killed(scene, "u")
    scene.signal("stopTrain", "stop_train", uuid="of the next round")
    scene.tick(0.1)
    assert 0 in scene.job.state.records.exited
