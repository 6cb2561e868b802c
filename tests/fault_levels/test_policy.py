"""taskd_net.job.faults.policy: events in, decisions out."""

from __future__ import annotations

import pytest

from taskd_net.job.faults.events import Severity
from taskd_net.job.faults.levels import Action, FaultType, Mode
from tests.fault_levels.scene import CODES, L1, L2, L3, L4, L5, L6, Scene, actions, read

ISOLATE = Action.ISOLATE_AND_RESCHEDULE


@pytest.mark.parametrize("code", [L2, L3, L4, L5, L6])
def test_rescheduling_isolates_a_device_until_its_fault_recovers(code: str) -> None:
    scene = Scene()
    (decision,) = scene.send(code, at=100.0)
    assert decision.steps[0].action is ISOLATE and scene.out() == {"npu-0": ISOLATE.value}
    (isolated,) = scene.policy.isolated()
    assert (isolated.code, isolated.since) == (code, 100.0)
    (over,) = scene.send(code, "recovered", at=200.0)
    assert over.cleared and over.standing is FaultType.NOT_HANDLE and scene.out() == {}


def test_level_1_needs_nothing() -> None:
    scene = Scene()
    (decision,) = scene.send(L1)
    assert decision.fault_type is FaultType.NOT_HANDLE and decision.steps == () and scene.out() == {}


@pytest.mark.parametrize(
    ("severity", "expected"),
    [
        (Severity.NOTICE, "NotHandleFault"),
        (Severity.MINOR, "NotHandleFault"),
        (Severity.MAJOR, "SeparateNPU"),
        (Severity.CRITICAL, "SeparateNPU"),
        (None, "SeparateNPU"),
    ],
)
def test_an_unknown_code_is_answered_by_its_severity(severity: Severity | None, expected: str) -> None:
    (decision,) = Scene().send("FFFF0000", severity=severity)
    assert decision.fault_type.word == expected


def test_an_unknown_code_of_the_network_takes_the_device_no_new_job() -> None:
    scene = Scene()
    (decision,) = scene.send("FFFF0000", severity=Severity.NOTICE, network=True)
    assert decision.fault_type is FaultType.PRE_SEPARATE_NPU and scene.out() == {"npu-0": "no_new_job"}


def test_of_several_faults_the_most_serious_wins() -> None:
    scene = Scene(mode=Mode.GRACE)
    assert actions(scene.send(L3, at=1.0)) == [Action.RUN_AGAIN]
    assert actions(scene.send(L5, at=2.0)) == [Action.STOP_PROCESSES, Action.RESET_DEVICE, Action.RUN_AGAIN]
    (covered,) = scene.send(L4, at=3.0)
    assert covered.steps == () and covered.reason.endswith("steps for RestartNPU are under way")
    assert scene.policy.standing("npu-0") is FaultType.RESTART_NPU
    assert actions(scene.send(L6, at=4.0)) == [ISOLATE]
    scene.send(L6, "recovered", at=5.0)
    assert scene.policy.standing("npu-0") is FaultType.RESTART_NPU and scene.out() == {}


def test_a_fault_that_comes_again_with_a_lower_severity_is_less_serious() -> None:
    scene = Scene()
    scene.send("FFFF0000", at=1.0, severity=Severity.MAJOR)
    scene.send("FFFF0000", at=2.0, severity=Severity.MINOR)
    assert scene.policy.standing("npu-0") is FaultType.NOT_HANDLE and scene.out() == {}


def test_a_device_that_is_out_is_not_rescheduled_again() -> None:
    scene = Scene()
    scene.send(L3, at=1.0)
    (second,) = scene.send(L5, at=2.0)
    assert second.steps == () and second.reason.endswith("the device is out already")


def test_a_changed_file_changes_the_level_of_a_fault_that_stands() -> None:
    scene = Scene()
    scene.send(L1, at=1.0)
    moved = {**CODES, "NotHandleFaultCodes": [], "RestartNPUCodes": [L5, L1]}
    (decision,) = scene.policy.change(read(moved)[0], 2.0)
    assert decision.fault_type is FaultType.RESTART_NPU and actions([decision]) == [ISOLATE]
    (back,) = scene.policy.change(read()[0], 3.0)
    assert back.cleared and scene.out() == {}


def test_a_doubled_event_changes_nothing() -> None:
    scene = Scene()
    scene.send(L3, at=1.0)
    assert scene.send(L3, at=1.0, now=2.0) == [] and scene.policy.counts.doubled == 1


def test_a_recovery_that_comes_twice_counts_once() -> None:
    scene = Scene()
    scene.send(L3, at=1.0)
    assert len(scene.send(L3, "recovered", at=2.0)) == 1
    assert scene.send(L3, "recovered", at=2.0, now=3.0) == []
    assert scene.policy.counts.doubled == 1
