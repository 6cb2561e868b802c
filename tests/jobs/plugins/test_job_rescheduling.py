"""JobReschedulingPlugin, beyond the transcripts."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

import pytest

from taskd_net.jobs.events import MachineReset
from taskd_net.jobs.plugins import Plugin, Progress, built_in
from taskd_net.jobs.plugins.actions import RECOVERY
from taskd_net.jobs.plugins.job_rescheduling import Killed
from taskd_net.jobs.snapshot import Snapshot
from tests.jobs.scene import CLUSTERD, Scene, commands, owner, started


def test_a_deadline_that_has_passed_makes_no_haste() -> None:
    scene = started(0, config=CLUSTERD)
    scene.job.state.streams[RECOVERY].barred.add("JobReschedulingPlugin")
    scene.fault(0, 3)
    scene.tick()
    scene.job.tick(scene.now)
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
