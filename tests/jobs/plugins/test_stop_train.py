"""StopTrainPlugin: the wait for ClusterD."""

from __future__ import annotations

import pytest

from taskd_net.job.decide.plugins.stop_train import STOP_TRAIN_S
from tests.jobs.scene import CLUSTERD, commands, owner, started


def test_a_stopped_training_waits_half_an_hour_for_clusterd() -> None:
    scene = started(0, config=CLUSTERD)
    scene.signal("stopTrain", "stop_train")
    scene.settle()
    assert scene.job.state.again == scene.now + STOP_TRAIN_S
    assert (owner(scene), scene.tick(STOP_TRAIN_S).calls, owner(scene)) == ("StopTrainPlugin", [], "")


@pytest.mark.parametrize("order", ["killMaster", "saveAndExit", "changeStrategy"])
def test_any_other_signal_ends_the_wait(order: str) -> None:
    scene = started(0, config=CLUSTERD)
    scene.signal("stopTrain", "stop_train")
    scene.signal(order, strategy="dump" if order == "changeStrategy" else "")
    scene.tick()
    assert owner(scene) == ""


def test_a_device_fault_does_not_end_the_wait() -> None:
    scene = started(0, 1, config=CLUSTERD)
    scene.signal("stopTrain", "stop_train")
    scene.signal("preExitProcess", "pre exit process", nodes=(1,))
    assert commands(scene.tick()) == [("Agent/1", 213)]
    assert owner(scene) == "StopTrainPlugin"
