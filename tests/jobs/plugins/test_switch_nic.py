"""OMSwitchNicPlugin: true for all, false for one."""

from __future__ import annotations

import pytest

from taskd_net.base.limits import SWITCH_NIC_S
from taskd_net.job.decide.events import MachineReset, Resumed
from taskd_net.job.decide.outbox import COMMAND_ATTEMPTS, COMMAND_RETRY_S
from taskd_net.job.decide.plugins.switch_nic import SwitchNic
from taskd_net.job.decide.traffic import Outcome
from tests.jobs.scene import CLUSTERD, Scene, started


def begun(*ranks: int, away: str = "") -> tuple[Scene, str]:
    """Workers that switch, and the switch's uuid."""
    scene = Scene()
    scene.workers(*ranks)
    scene.settle()
    scene.away.add(away)
    scene.take(SwitchNic((0,), (True,)))
    scene.settle()
    return scene, scene.job.requests["SwitchNic"].uuid


def results(outcomes: list[Outcome]) -> list[str]:
    return [reply.result for outcome in outcomes for reply in outcome.replies]


def answer(scene: Scene, rank: int, message: str, uuid: str) -> None:
    scene.report(f"Worker/{rank // 2}/{rank}", "ACTION", 204, message, switchNicUUID=uuid)


@pytest.mark.parametrize(("message", "result"), [("switchOK", "true"), ("switchFail", "false"), ("", "false")])
def test_all_have_to_answer_ok(message: str, result: str) -> None:
    scene, uuid = begun(0, 1)
    answer(scene, 0, "switchOK", uuid)
    answer(scene, 1, "switchFail", "another")
    scene.report("Worker/0/1", "STATUS", 1400)
    assert results(scene.settle()) == []
    answer(scene, 1, message, uuid)
    assert results(scene.settle()) == [result]


def test_a_worker_that_starts_again_has_failed() -> None:
    scene, _ = begun(0, 1)
    scene.workers(1)
    assert results(scene.settle()) == ["false"]


def test_a_worker_that_has_answered_may_say_more() -> None:
    scene, uuid = begun(0, 1)
    answer(scene, 0, "switchOK", uuid)
    scene.settle()
    answer(scene, 0, "switchFail", uuid)
    scene.settle()
    answer(scene, 1, "switchOK", uuid)
    assert results(scene.settle()) == ["true"]


def test_a_worker_that_dies_has_failed() -> None:
    """It has taken its 204, and never answers. ClusterD would wait for 15 minutes, and the training with it."""
    scene = started(0, 1, config=CLUSTERD, process="p")
    scene.workers(0, 1, 2, 3)
    scene.take(SwitchNic((0,), (True,)))
    scene.settle()
    scene.fault(1, 3)
    assert results(scene.settle()) == ["false"]


def test_a_switch_with_a_dead_worker_does_not_begin() -> None:
    scene = started(0, 1, config=CLUSTERD, process="p")
    scene.workers(0, 1, 2, 3)
    scene.fault(1, 3)
    scene.settle()
    scene.lines.clear()
    scene.take(SwitchNic((0,), (True,)))
    assert results(scene.settle()) == ["false"]
    assert not any(" 204 " in line for line in scene.lines)


def test_patience_ends_after_two_hours() -> None:
    scene, _ = begun(0)
    assert results([scene.tick(SWITCH_NIC_S - 1)]) == []
    assert results([scene.tick(1.0)]) == ["false"]


def test_without_workers_nothing_was_switched() -> None:
    scene, _ = begun()
    assert "  clusterd ReplySwitchNicResult false" in scene.lines


def test_a_command_that_is_lost_has_failed() -> None:
    scene, _ = begun(0, away="Worker/All/All")
    outcomes = [scene.tick(COMMAND_RETRY_S) for _ in range(COMMAND_ATTEMPTS)]
    assert results(outcomes) == ["false"]
    assert scene.job.state.outbox.wake == float("inf")


def test_a_lost_command_of_an_earlier_switch_says_nothing_of_this_one() -> None:
    scene, _ = begun(0, away="Worker/All/All")
    plugin = next(plugin for plugin in scene.job.plugins if plugin.name == "OMSwitchNicPlugin")
    (command,) = [sending.command for sending in scene.job.state.outbox.sending.values()]
    assert command is not None
    plugin.state.uuid = "later"
    assert plugin.lost(command, scene.job._snapshot()) is False
    assert not plugin.state.failed


def test_a_switch_that_clusterd_has_forgotten_has_no_result() -> None:
    scene, first = begun(0)
    scene.take(MachineReset())
    scene.settle()
    answer(scene, 0, "switchOK", first)
    assert results(scene.settle()) == []
    assert scene.job.state.streams["OMSwitchNicStream"].owner == ""


def test_a_switch_goes_on_with_the_next_manager() -> None:
    """The Manager's client of ClusterD takes a MachineReset when it begins; an application of its own need not."""
    scene, uuid = begun(0)
    scene.job.step(scene.now, Resumed("v"))
    answer(scene, 0, "switchOK", uuid)
    assert results(scene.settle()) == ["true"]


def test_a_further_request_ends_the_wait_for_the_one_before() -> None:
    scene, first = begun(0)
    scene.take(SwitchNic((0,), (False,)))
    scene.settle()
    second = scene.job.requests["SwitchNic"].uuid
    answer(scene, 0, "switchOK", first)
    assert results(scene.settle()) == []
    answer(scene, 0, "switchOK", second)
    assert results(scene.settle()) == ["true"]
