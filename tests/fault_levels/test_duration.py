"""Rules of duration: strictly longer raises, strictly longer clears, and flapping is neither."""

from __future__ import annotations

import math

import pytest

from taskd_net.job.faults.editions import Edition
from taskd_net.job.faults.levels import Action, FaultType, Mode
from tests.fault_levels.scene import CODES, L1, L5, LINK, Scene, actions, read


def documented(**more: object) -> Scene:
    """A scene with the rule of the link: 10 s raise, 20 s clear."""
    entry = {"EventId": LINK, "FaultTimeout": 10, "RecoverTimeout": 20, "FaultHandling": "PreSeparateNPU", **more}
    rules, problems = read(CODES, {"FaultDuration": [entry]})
    assert problems == ()
    return Scene(rules)


def current(code: str, *, handling: str, timeout: int = 10, recovery: int = 20, **more: object) -> Scene:
    """A scene of the current edition."""
    entry = {"EventId": code, "FaultTimeout": timeout, "RecoverTimeout": recovery, "FaultHandling": handling}
    rules, problems = read(CODES, {"FaultDuration": [entry], **more}, Edition.CURRENT)
    assert problems == ()
    return Scene(rules, Mode.GRACE)


def test_strictly_longer_than_the_timeout_raises() -> None:
    scene = documented()
    (quiet,) = scene.send(LINK, at=100.0)
    assert quiet.fault_type is FaultType.NOT_HANDLE and quiet.steps == ()
    assert scene.at(110.0) == []
    assert scene.policy.next_look == math.nextafter(110.0, math.inf)
    (raised,) = scene.policy.look(scene.policy.next_look)
    assert raised.fault_type is FaultType.PRE_SEPARATE_NPU and actions([raised]) == [Action.NO_NEW_JOB]
    assert raised.reason == "it has stood for more than 10 s" and scene.out() == {"npu-0": "no_new_job"}
    assert scene.at(10_000.0) == [], "once"


def test_strictly_longer_than_the_recovery_clears() -> None:
    scene = documented()
    scene.send(LINK, at=100.0)
    scene.at(200.0)
    assert scene.send(LINK, "recovered", at=300.0) == []
    assert scene.at(320.0) == [] and scene.out() == {"npu-0": "no_new_job"}
    (over,) = scene.at(320.001)
    assert over.cleared and over.reason == "it has been gone for more than 20 s" and scene.out() == {}
    assert scene.policy.saved() == {}


def test_flapping_is_neither() -> None:
    scene = documented()
    for at in range(0, 1000, 20):  # each stands for 10 s
        scene.send(LINK, at=float(at))
        assert [each.standing for each in scene.send(LINK, "recovered", at=at + 10.0)] == [FaultType.NOT_HANDLE]
    scene.send(LINK, at=2000.0)
    assert len(scene.at(2011.0)) == 1
    for at in range(2020, 4000, 30):  # each is gone for 20 s
        assert scene.send(LINK, "recovered", at=float(at)) == []
        assert actions(scene.send(LINK, at=at + 20.0)) == []
    assert scene.out() == {"npu-0": "no_new_job"}
    assert len(scene.at(5000.0)) == 0
    scene.send(LINK, "recovered", at=5001.0)
    assert [each.cleared for each in scene.at(5022.0)] == [True]


def test_a_long_fault_that_nobody_has_looked_at_meanwhile_is_raised_before_its_recovery() -> None:
    scene = documented()
    scene.send(LINK, at=0.0)
    (raised,) = scene.send(LINK, "recovered", at=100.0)
    assert raised.fault_type is FaultType.PRE_SEPARATE_NPU
    assert [each.cleared for each in scene.at(121.0)] == [True]


def test_without_a_file_the_rule_of_the_link_has_the_timeout_of_the_setting() -> None:
    scene = Scene(read(linkdown_timeout=7)[0])
    scene.send(LINK, at=0.0)
    assert scene.at(7.0) == [] and len(scene.at(7.001)) == 1


def test_the_list_of_a_code_counts_from_its_beginning_and_the_most_serious_wins() -> None:
    lists = {**CODES, "RestartBusinessCodes": [LINK]}
    scene = Scene(read(lists)[0])
    assert scene.send(LINK, at=0.0)[0].fault_type is FaultType.RESTART_BUSINESS
    (raised,) = scene.at(31.0)
    assert raised.fault_type is FaultType.PRE_SEPARATE_NPU and raised.reason.endswith("the device is out already")
    separate = Scene(read({**CODES, "SeparateNPUCodes": [LINK]})[0])
    separate.send(LINK, at=0.0)
    (still,) = separate.at(31.0)
    assert still.fault_type is FaultType.SEPARATE_NPU and still.steps == ()
    (lighter,) = separate.send(LINK, "recovered", at=40.0)
    assert lighter.cleared and lighter.standing is FaultType.PRE_SEPARATE_NPU
    (over,) = separate.at(101.0)
    assert over.standing is FaultType.NOT_HANDLE


def test_any_code_and_level_in_the_current_edition() -> None:
    scene = current(L5, handling="SeparateNPU", timeout=0, recovery=0)
    assert actions(scene.send(L5, at=5.0))[0] is Action.STOP_PROCESSES
    assert scene.at(5.0) == []
    (raised,) = scene.at(5.001)
    assert actions([raised]) == [Action.ISOLATE_AND_RESCHEDULE]
    scene.send(L5, "recovered", at=6.0)
    assert scene.at(6.0) == [] and [each.cleared for each in scene.at(6.001)] == [True]


def test_a_code_with_both_rules_counts_one_occurrence_for_each_timeout() -> None:
    often = {
        "EventId": L1,
        "TimeWindow": 1000,
        "Times": 2,
        "FaultHandling": "ManuallySeparateNPU",
    }
    scene = current(L1, handling="RestartRequest", recovery=0, FaultFrequency=[often])
    for at in range(0, 100, 10):  # never longer than 10 s: no occurrence
        scene.send(L1, at=float(at))
        scene.send(L1, "recovered", at=at + 5.0)
    scene.send(L1, at=200.0)
    (first,) = scene.at(211.0)
    assert first.fault_type is FaultType.RESTART_REQUEST and first.reason == "it has stood for more than 10 s"
    scene.send(L1, "recovered", at=212.0)
    scene.at(213.0)
    scene.send(L1, at=300.0)
    (second,) = scene.at(311.0)
    assert second.fault_type is FaultType.MANUALLY_SEPARATE_NPU
    assert second.reason == "it has stood for more than 10 s, and it has occurred 2 times within 1000 s"
    assert scene.policy.manually_separated() == ["npu-0"]


def test_a_momentary_fault_has_no_duration() -> None:
    scene = documented()
    scene.send(LINK, "once", at=0.0)
    assert scene.at(1000.0) == [] and scene.policy.saved() == {}


def test_changed_rules_count_for_faults_that_stand() -> None:
    scene = documented()
    scene.send(LINK, at=0.0)
    shorter = {"FaultDuration": [{"EventId": LINK, "FaultTimeout": 5}]}
    assert scene.policy.change(read(CODES, shorter)[0], 4.0) == []
    assert len(scene.at(5.1)) == 1
    other = {"FaultDuration": [{"EventId": LINK, "FaultTimeout": 5, "FaultHandling": "SeparateNPU"}]}
    (worse,) = scene.policy.change(read(CODES, other, Edition.CURRENT)[0], 6.0)
    assert worse.fault_type is FaultType.SEPARATE_NPU and actions([worse]) == [Action.ISOLATE_AND_RESCHEDULE]
    (less,) = scene.policy.change(read({**CODES, "NotHandleFaultCodes": [LINK]}, None, Edition.CURRENT)[0], 7.0)
    assert less.cleared and less.standing is FaultType.NOT_HANDLE


def test_a_rule_that_goes_while_its_fault_is_recovering_ends_the_fault() -> None:
    scene = documented()
    scene.send(LINK, at=0.0)
    scene.at(11.0)
    scene.send(LINK, "recovered", at=12.0)
    (over,) = scene.policy.change(read(CODES, None, Edition.CURRENT)[0], 13.0)
    assert over.cleared and scene.out() == {} and scene.policy.saved() == {}


@pytest.mark.parametrize("at", [95.0, 100.0])
def test_an_occurrence_older_than_its_recovery_raises_nothing(at: float) -> None:
    scene = documented()
    scene.send(LINK, "recovered", at=100.0)
    scene.send(LINK, at=at, now=101.0)
    assert len(scene.at(200.0)) == (1 if at == 100.0 else 0), "at one time, the order of arrival counts"
