"""The grace mode: steps one after another, each with its time, and what their failure leads to."""

from __future__ import annotations

import math

import pytest

from taskd_net.job.faults.editions import Edition
from taskd_net.job.faults.levels import Action, FaultType, JobKind, Mode, SubHealth
from tests.fault_levels.scene import CODES, L1, L2, L3, L4, L5, L6, Scene, actions, frequency, read

ISOLATE, AGAIN = Action.ISOLATE_AND_RESCHEDULE, Action.RUN_AGAIN
STOP, RESET, IDLE = Action.STOP_PROCESSES, Action.RESET_DEVICE, Action.WAIT_UNTIL_IDLE
SUB = "AAAA0001"


def grace(kind: JobKind = JobKind.TRAINING) -> Scene:
    """A scene in the grace mode."""
    return Scene(mode=Mode.GRACE, kind=kind)


def current(sub_health: SubHealth = SubHealth.IGNORE) -> Scene:
    """The same with the current edition, and a code of sub-health."""
    lists = {**CODES, "SubHealthFaultCodes": [SUB], "PreSeparateNPUCodes": ["AAAA0002"]}
    return Scene(read(lists, None, Edition.CURRENT)[0], Mode.GRACE, sub_health=sub_health)


def present(scene: Scene) -> Action | None:
    """The present step."""
    return next((each.step.action for each in scene.policy.under_way()), None)


@pytest.mark.parametrize(("kind", "action"), [(JobKind.TRAINING, AGAIN), (JobKind.INFERENCE, Action.RUN_REQUEST_AGAIN)])
def test_level_2_differs_by_the_kind_of_job(kind: JobKind, action: Action) -> None:
    scene = grace(kind)
    assert actions(scene.send(L2, at=1.0)) == [action] and actions(scene.send(L3, at=2.0)) == [AGAIN]
    assert scene.out() == {} and present(scene) is None


def test_level_5_stops_resets_and_runs_again() -> None:
    scene = grace()
    assert actions(scene.send(L5, at=10.0)) == [STOP, RESET, AGAIN]
    assert present(scene) is STOP and scene.policy.next_look == math.nextafter(100.0, math.inf)
    assert scene.policy.step_done("npu-0", RESET, 20.0) == [] and present(scene) is STOP, "not the present step"
    assert scene.policy.step_done("npu-0", STOP, 30.0) == [] and present(scene) is RESET
    (over,) = scene.policy.step_done("npu-0", RESET, 80.0)
    assert over.cleared and over.reason == "the device was reset" and over.standing is FaultType.NOT_HANDLE
    assert present(scene) is None and scene.at(10_000.0) == [] and scene.out() == {}
    assert actions(scene.send(L5, at=10_001.0)) == [STOP, RESET, AGAIN], "it has come back"


def test_level_4_waits_until_the_device_is_idle_without_a_limit() -> None:
    scene = grace()
    assert actions(scene.send(L4, at=0.0)) == [IDLE, STOP, RESET, AGAIN]
    assert scene.at(10**8) == [] and present(scene) is IDLE
    scene.policy.step_done("npu-0", IDLE, 10**8)
    assert present(scene) is STOP and scene.policy.next_look == math.nextafter(10**8 + 90.0, math.inf)


def test_no_reset_is_needed_where_the_fault_recovers_before_the_device_is_idle() -> None:
    scene = grace()
    scene.send(L4, at=0.0)
    (over,) = scene.send(L4, "recovered", at=1.0)
    assert over.cleared and present(scene) is None
    assert scene.policy.step_done("npu-0", IDLE, 2.0) == []


def test_a_reset_that_has_begun_goes_on_though_the_fault_recovers() -> None:
    scene = grace()
    scene.send(L5, at=0.0)
    scene.send(L5, "recovered", at=1.0)
    assert present(scene) is STOP


@pytest.mark.parametrize(
    ("done", "limit", "reason"),
    [([], 90.0, "stop_processes has not ended within 90 s"), ([STOP], 60.0, "reset_device has not ended within 60 s")],
)
def test_a_step_that_takes_longer_than_its_time_isolates_the_device(
    done: list[Action], limit: float, reason: str
) -> None:
    scene = grace()
    scene.send(L5, at=0.0)
    for action in done:
        scene.policy.step_done("npu-0", action, 0.0)
    assert scene.at(limit) == []
    (decision,) = scene.at(limit + 0.001)
    assert actions([decision]) == [ISOLATE] and decision.reason == reason
    assert scene.out() == {"npu-0": ISOLATE.value} and present(scene) is None
    (over,) = scene.send(L5, "recovered", at=1000.0)
    assert over.cleared and scene.out() == {}


def test_a_step_that_fails_isolates_the_device_and_a_person_may_release_it() -> None:
    scene = grace()
    scene.send(L5, "once", at=0.0)
    assert scene.policy.step_failed("npu-0", RESET, 1.0) == [], "not the present step"
    assert scene.policy.step_failed("npu-1", STOP, 1.0) == []
    (decision,) = scene.policy.step_failed("npu-0", STOP, 1.0, "it hangs")
    assert decision.reason == "stop_processes has failed: it hangs" and scene.out() == {"npu-0": ISOLATE.value}
    (isolated,) = scene.policy.isolated()
    assert (isolated.code, isolated.reason) == (L5, decision.reason)
    assert scene.send(L3, at=2.0)[0].reason.endswith("the device is out already")
    (released,) = scene.policy.release("npu-0", 3.0)
    assert released.cleared and scene.out() == {}


def test_a_momentary_fault_whose_step_has_failed_ends_with_its_recovery() -> None:
    scene = grace()
    scene.send(L5, "once", at=0.0)
    scene.policy.step_failed("npu-0", STOP, 1.0)
    assert scene.send(L3, "recovered", at=2.0) == [] and scene.out() != {}
    assert [each.cleared for each in scene.send(L5, "recovered", at=3.0)] == [True] and scene.out() == {}


def test_a_release_names_the_failed_step_that_is_left_and_then_ends_it() -> None:
    scene = Scene(read(CODES, frequency(EventId=L5, Times=2, FaultHandling="ManuallySeparateNPU"))[0], Mode.GRACE)
    scene.send(L5, "once", at=0.0)
    scene.policy.step_failed("npu-0", STOP, 1.0)
    scene.send(L5, "once", at=2.0)
    first, second = scene.policy.release("npu-0", 3.0)
    assert first.fault_type is FaultType.MANUALLY_SEPARATE_NPU and second.cleared and scene.out() == {}


def test_a_more_serious_fault_replaces_the_steps() -> None:
    scene = grace()
    scene.send(L4, at=0.0)
    assert actions(scene.send(L5, at=1.0)) == [STOP, RESET, AGAIN] and present(scene) is STOP
    assert scene.send(L4, "once", at=2.0)[0].steps == ()
    assert actions(scene.send(L6, at=3.0)) == [ISOLATE] and present(scene) is None


def test_a_reset_ends_the_faults_that_it_is_made_for_and_no_others() -> None:
    scene = grace()
    scene.send(L3, at=0.0)
    scene.send(L1, at=0.5)
    scene.send(L5, at=1.0)
    scene.policy.step_done("npu-0", STOP, 2.0)
    assert {each.code for each in scene.policy.step_done("npu-0", RESET, 3.0)} == {L3, L5}
    (saved,) = scene.policy.saved().values()
    assert saved is not None and saved["faults"] == {L1: [0.5, None, False, True, None, None, None]}


def test_a_further_fault_runs_the_training_again_also_below_one_that_stands() -> None:
    scene = grace()
    scene.send(L3, at=0.0)
    (second,) = scene.send(L2, at=100.0)
    assert actions([second]) == [AGAIN] and second.reason.endswith("RestartBusiness stands already")
    assert scene.send(L1, at=200.0)[0].steps == ()


def test_a_pre_separated_device_lets_its_job_go_on_until_it_fails() -> None:
    scene = current()
    assert actions(scene.send("AAAA0002", at=1.0)) == [Action.NO_NEW_JOB] and scene.out() == {"npu-0": "no_new_job"}
    assert scene.send("AAAA0002", "once", at=2.0)[0].reason.endswith("the device takes no new job already")
    assert scene.send(L5, at=3.0)[0].steps == (), "it is less serious"
    assert scene.policy.job_failed("npu-1", 4.0) == []
    (decision,) = scene.policy.job_failed("npu-0", 4.0)
    assert actions([decision]) == [ISOLATE] and scene.out() == {"npu-0": ISOLATE.value}
    assert scene.policy.job_failed("npu-0", 5.0) == []
    scene.send(L5, "recovered", at=6.0)
    assert scene.out() == {"npu-0": ISOLATE.value}
    scene.send("AAAA0002", "recovered", at=7.0)
    assert scene.out() == {}


def test_a_more_serious_fault_isolates_a_pre_separated_device() -> None:
    scene = current()
    scene.send("AAAA0002", at=1.0)
    assert actions(scene.send(L6, at=2.0)) == [ISOLATE]
    (isolated,) = scene.policy.isolated()
    assert (isolated.action, isolated.since, isolated.code) == (ISOLATE, 2.0, L6)
    scene.send(L6, "recovered", at=3.0)
    (isolated,) = scene.policy.isolated()
    assert isolated.code == "AAAA0002" and isolated.reason == "PreSeparateNPU stands"


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        (SubHealth.IGNORE, []),
        (SubHealth.GRACE_EXIT, [Action.EXIT_GRACEFULLY]),
        (SubHealth.HOT_SWITCH, [Action.HOT_SWITCH]),
    ],
)
def test_sub_health_is_answered_once_by_the_setting(setting: SubHealth, expected: list[Action]) -> None:
    scene = current(setting)
    assert actions(scene.send(SUB, at=1.0)) == expected
    assert actions(scene.send(SUB, at=2.0)) == [] and scene.out() == {}
    assert actions(scene.send(L3, at=3.0)) == [Action.WAIT_FOR_RECOVERY]


def test_level_3_runs_again_when_it_has_healed() -> None:
    scene = current()
    assert actions(scene.send(L3, at=0.0)) == [Action.WAIT_FOR_RECOVERY]
    (over,) = scene.send(L3, "recovered", at=14.0)
    assert over.cleared and actions([over]) == [AGAIN] and present(scene) is None


def test_level_3_that_does_not_heal_resets_the_device() -> None:
    scene = current()
    scene.send(L3, at=0.0)
    assert scene.at(15.0) == []
    (decision,) = scene.at(15.1)
    assert actions([decision]) == [STOP, RESET, AGAIN] and decision.reason == "it has not recovered within 15 s"
    assert next(iter(scene.policy.under_way())).step.limit == 30.0


def test_a_momentary_level_3_has_nothing_to_heal() -> None:
    assert actions(current().send(L3, "once", at=0.0)) == [AGAIN]


def test_changed_time_limits_count_for_the_steps_that_begin_later() -> None:
    scene = grace()
    scene.policy.change(read(CODES, {"GraceTolerance": {"WaitFlushingCMTime": 100}})[0], 0.0)
    scene.send(L5, at=0.0)
    assert scene.at(100.0) == [] and len(scene.at(100.1)) == 1
