"""Rules of frequency: a fault that occurs often is handled as another type, once per reaching."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskd_net.base.codes import ConfigError
from taskd_net.job.faults.editions import Edition
from taskd_net.job.faults.levels import Action, FaultType, Mode
from taskd_net.job.faults.rules import FaultRules
from tests.fault_levels.scene import CODES, L1, L2, L3, L6, LINK, Scene, actions, frequency, read

ISOLATE = Action.ISOLATE_AND_RESCHEDULE


def rules(edition: Edition = Edition.DOCUMENTED, **more: object) -> FaultRules:
    """Rules in which three occurrences of L1 within 60 s are `SeparateNPU`."""
    found, problems = read(CODES, frequency(**{"EventId": L1, **more}), edition)
    assert problems == ()
    return found


def once(scene: Scene, *times: float) -> list[str]:
    """The types of momentary faults at these times."""
    return [scene.send(L1, "once", at=at)[-1].fault_type.word for at in times]


ONE, RAISED = "NotHandleFault", "SeparateNPU"


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ((0, 1), [ONE, ONE]),
        ((0, 30, 60), [ONE, ONE, RAISED]),
        ((0, 30, 60.001), [ONE, ONE, ONE]),
        ((0, 1, 2, 3), [ONE, ONE, RAISED, ONE]),
        ((0, 1, 2, 3, 4, 5), [ONE, ONE, RAISED, ONE, ONE, RAISED]),
        ((0, 50, 70, 80), [ONE, ONE, ONE, RAISED]),
    ],
)
def test_occurrences_within_the_window_reach_the_rule_once(times: tuple[float, ...], expected: list[str]) -> None:
    assert once(Scene(rules()), *times) == expected


def test_a_reached_rule_says_so_and_has_the_steps_of_its_type() -> None:
    scene = Scene(rules())
    once(scene, 1, 2)
    (decision,) = scene.send(L1, "once", at=3.0)
    assert decision.reason == "it has occurred 3 times within 60 s" and actions([decision]) == [ISOLATE]


def test_a_rule_of_one_occurrence_says_once() -> None:
    (decision,) = Scene(rules(Edition.CURRENT, Times=1, ReleaseTimeWindow=60)).send(L1, "once", at=1.0)

    assert decision.reason == "it has occurred once within 60 s"


def test_each_device_and_each_code_has_a_counter_of_its_own() -> None:
    scene = Scene(read(CODES, frequency(EventId=[L1, L2]))[0])
    for device, code in [("a", L1), ("b", L1), ("a", L2), ("a", L1), ("b", L1), ("a", L2)]:
        (decision,) = scene.send(code, "once", at=scene.now + 1, device=device)
        assert decision.fault_type is not FaultType.SEPARATE_NPU
    assert scene.send(L1, "once", at=scene.now + 1, device="a")[0].fault_type is FaultType.SEPARATE_NPU


def test_a_doubled_event_does_not_count() -> None:
    assert len(Scene(rules()).send(L1, "once", at=1.0)) == 1
    scene = Scene(rules())
    once(scene, 1, 2)
    assert scene.send(L1, "once", at=2.0, now=5.0) == []
    assert once(scene, 6) == [RAISED]


def test_occurrences_out_of_order_count_as_long_as_they_are_in_the_window() -> None:
    scene = Scene(rules())
    once(scene, 100)
    assert scene.send(L1, "once", at=39.9, now=100.0)[0].fault_type.word == ONE, "before the window"
    assert scene.send(L1, "once", at=60.0, now=100.0)[0].fault_type.word == ONE
    assert scene.send(L1, "once", at=50.0, now=100.0)[0].fault_type.word == RAISED


def test_an_event_from_the_future_counts_at_its_arrival() -> None:
    scene = Scene(rules())
    assert scene.send(L1, "once", at=10**9, now=10.0)[0].at == 10.0
    assert once(scene, 11, 12) == [ONE, RAISED]
    assert scene.policy.counts.future == 1


def test_a_raised_fault_stays_raised_until_it_recovers() -> None:
    scene = Scene(rules())
    for at in (1, 3):
        scene.send(L1, at=at)
        scene.send(L1, "recovered", at=at + 1)
    scene.send(L1, at=5)
    assert scene.out() == {"npu-0": ISOLATE.value}
    (over,) = scene.send(L1, "recovered", at=50_000)
    assert over.cleared and scene.out() == {}


def test_a_fault_that_occurs_again_without_a_recovery_counts_again() -> None:
    scene = Scene(rules())
    assert [scene.send(L1, at=at)[0].fault_type.word for at in (1.0, 2.0, 3.0)] == [ONE, ONE, RAISED]


def test_the_more_serious_type_of_the_code_itself_stays() -> None:
    scene = Scene(rules(EventId=L6, FaultHandling="RestartRequest"))
    assert [scene.send(L6, "once", at=at)[0].fault_type for at in (1, 2, 3)] == [FaultType.SEPARATE_NPU] * 3


@pytest.mark.parametrize("mode", Mode)
def test_a_manually_separated_device_stays_out_until_a_person_releases_it(mode: Mode) -> None:
    scene = Scene(rules(FaultHandling="ManuallySeparateNPU"), mode)
    scene.send(L1, "once", at=1)
    scene.send(L1, "once", at=2)
    scene.send(L1, at=3)
    scene.send(L1, "recovered", at=4)
    assert scene.at(10**9) == [] and scene.policy.manually_separated() == ["npu-0"]
    assert scene.out() == {"npu-0": ISOLATE.value}
    (isolated,) = scene.policy.isolated()
    assert (isolated.fault_type, isolated.since) == (FaultType.MANUALLY_SEPARATE_NPU, 3.0)
    assert scene.send(L6, at=10**9)[0].steps == (), "it is out already"
    assert scene.send(L6, "recovered", at=10**9 + 1)[0].standing is FaultType.MANUALLY_SEPARATE_NPU
    assert scene.policy.release("npu-1", 10**9) == []
    (released,) = scene.policy.release("npu-0", 10**9 + 2)
    assert released.cleared and released.reason == "a person has released the device"
    assert scene.out() == {} and scene.policy.manually_separated() == []
    assert scene.policy.release("npu-0", 10**9 + 3) == []


def test_a_release_leaves_the_other_faults() -> None:
    scene = Scene(rules(FaultHandling="ManuallySeparateNPU"))
    scene.send(L3, at=0.5)
    once(scene, 1, 2, 3)
    (released,) = scene.policy.release("npu-0", 4)
    assert released.standing is FaultType.RESTART_BUSINESS and scene.out() == {"npu-0": ISOLATE.value}


@pytest.mark.parametrize("word", ["ManuallySeparateNPU", "SeparateNPU"])
def test_the_release_window_of_the_current_edition_ends_it(word: str) -> None:
    scene = Scene(rules(Edition.CURRENT, FaultHandling=word, ReleaseTimeWindow=100))
    once(scene, 1, 2, 3)
    assert scene.out() == {"npu-0": ISOLATE.value}
    once(scene, 50, 51, 52)  # once more: the window begins again
    assert scene.at(151.9) == []
    (over,) = scene.at(152.0)
    assert over.cleared and over.reason == "it has not occurred for the time of its release" and scene.out() == {}


def test_the_reason_is_that_of_the_type_that_is_left() -> None:
    custom = {"FaultFrequency": [*_entries(L1, ReleaseTimeWindow=60), *_entries(L2, ReleaseTimeWindow=600)]}
    custom["FaultFrequency"][1]["FaultHandling"] = "ManuallySeparateNPU"
    scene = Scene(read(CODES, custom, Edition.CURRENT)[0])
    for at in range(3):
        scene.send(L2, "once", at=float(at))
    for at in range(3):
        scene.send(L1, "once", at=10.0 + at)
    scene.policy.release("npu-0", 20.0)
    (isolated,) = scene.policy.isolated()
    assert (isolated.code, isolated.fault_type.word) == (L1, "SeparateNPU")
    for at in range(3):
        scene.send(L2, "once", at=30.0 + at)
    assert scene.at(80.0)[0].standing.word == "ManuallySeparateNPU"
    (isolated,) = scene.policy.isolated()
    assert isolated.code == L2


def test_the_reason_is_that_of_the_most_serious_of_several() -> None:
    custom = {"FaultFrequency": [*_entries(L1, ReleaseTimeWindow=60), *_entries(L2, ReleaseTimeWindow=60)]}
    custom["FaultFrequency"][1]["FaultHandling"] = "ManuallySeparateNPU"
    scene = Scene(read(CODES, custom, Edition.CURRENT)[0])
    scene.send(L3, at=0.0)
    for code in (L1, L2):
        for _ in range(3):
            scene.send(code, "once", at=scene.now + 1)
    scene.send(L3, "recovered", at=10.0)
    (isolated,) = scene.policy.isolated()
    assert (isolated.code, isolated.fault_type.word) == (L2, "ManuallySeparateNPU")


def test_without_a_release_window_a_person_is_needed_in_the_current_edition_too() -> None:
    scene = Scene(rules(Edition.CURRENT, FaultHandling="ManuallySeparateNPU"))
    once(scene, 1, 2, 3)
    assert scene.at(10**9) == [] and scene.policy.next_look == float("inf")


def test_in_the_current_edition_one_occurrence_may_reach_a_rule() -> None:
    scene = Scene(rules(Edition.CURRENT, Times=1, ReleaseTimeWindow=60))
    assert once(scene, 1, 2) == [RAISED, RAISED]


def test_a_change_of_the_rules_keeps_the_counters_of_unchanged_ones() -> None:
    both = {"FaultFrequency": [*_entries(L1), *_entries(L2)]}
    scene = Scene(read(CODES, both)[0])
    for code in (L1, L2):
        scene.send(code, "once", at=scene.now + 1)
        scene.send(code, "once", at=scene.now + 1)
    changed = {"FaultFrequency": [*_entries(L1), *_entries(L2, TimeWindow=61)]}
    assert scene.policy.change(read(CODES, changed)[0], scene.now) == []
    assert scene.send(L1, "once", at=scene.now + 1)[0].fault_type is FaultType.SEPARATE_NPU
    assert scene.send(L2, "once", at=scene.now + 1)[0].fault_type is FaultType.RESTART_REQUEST
    scene.policy.change(read(CODES)[0], scene.now)
    assert scene.policy.saved() == {}, "without a rule there is nothing to remember"


def _entries(code: str, **more: object) -> list[dict[str, Any]]:
    return frequency(EventId=code, **more)["FaultFrequency"]


@given(st.lists(st.integers(0, 200), max_size=40, unique=True), st.integers(2, 5), st.integers(60, 90))
def test_a_plain_count_agrees(times: list[int], most: int, window: int) -> None:
    scene = Scene(rules(Times=most, TimeWindow=window))
    counted: list[int] = []
    for at in sorted(times):
        counted = [*(each for each in counted if each >= at - window), at]
        expected = ONE
        if len(counted) == most:
            counted, expected = [], RAISED
        assert once(scene, at) == [expected]


def standing(**more: object) -> Scene:
    """A device that is raised since 3.0, whose fault stands."""
    scene = Scene(rules(Edition.CURRENT, **{"ReleaseTimeWindow": 100, **more}))
    once(scene, 1, 2)
    scene.send(L1, at=3.0)
    return scene


@pytest.mark.parametrize("word", ["ManuallySeparateNPU", "SeparateNPU"])
def test_a_raised_device_stays_out_while_its_fault_stands(word: str) -> None:
    scene = standing(FaultHandling=word)
    assert scene.at(10_000.0) == [] and scene.policy.next_look == float("inf")
    scene.send(L1, "recovered", at=20_000.0)
    assert scene.at(20_099.9) == [] and scene.out() == {"npu-0": ISOLATE.value}
    (over,) = scene.at(20_100.0)
    assert over.cleared and over.reason == "it has not occurred for the time of its release" and scene.out() == {}


@pytest.mark.parametrize("kind", ["occurred", "once"])
def test_an_occurrence_after_the_recovery_takes_the_window_back(kind: str) -> None:
    scene = standing()
    scene.send(L1, "recovered", at=10.0)
    scene.send(L1, kind, at=109.0)
    assert scene.at(208.9) == [] and scene.out() == {"npu-0": ISOLATE.value}
    if kind == "occurred":
        assert scene.at(1_000.0) == []
        scene.send(L1, "recovered", at=1_000.0)
        assert len(scene.at(1_100.0)) == 1
    assert len(scene.at(1_100.0)) == (1 if kind == "once" else 0) and scene.out() == {}


def test_the_end_of_a_reset_begins_the_window() -> None:
    more = {"EventId": L2, "FaultHandling": "RestartNPU", "ReleaseTimeWindow": 100}
    scene = Scene(rules(Edition.CURRENT, **more), Mode.GRACE)
    for at in (1.0, 2.0, 3.0):
        scene.send(L2, at=at)
    scene.policy.step_done("npu-0", Action.STOP_PROCESSES, 4.0)
    scene.policy.step_done("npu-0", Action.RESET_DEVICE, 5.0)
    assert scene.at(104.9) == [] and scene.policy.standing("npu-0") is FaultType.RESTART_NPU
    assert len(scene.at(105.0)) == 1 and scene.policy.standing("npu-0") is FaultType.NOT_HANDLE


def test_a_code_with_a_duration_is_gone_after_that() -> None:
    custom = frequency(EventId=L1, Times=1, ReleaseTimeWindow=100)
    duration = {"EventId": L1, "FaultTimeout": 10, "RecoverTimeout": 30, "FaultHandling": "PreSeparateNPU"}
    scene = Scene(read(CODES, {**custom, "FaultDuration": [duration]}, Edition.CURRENT)[0])
    scene.send(L1, at=0.0)
    (raised,) = scene.at(11.0)
    assert raised.fault_type.word == RAISED
    scene.send(L1, "recovered", at=20.0)
    scene.send(L1, at=40.0)  # within RecoverTimeout: it has not been gone
    scene.send(L1, "recovered", at=100.0)
    assert [each.fault_type.word for each in scene.at(229.0)] == ["PreSeparateNPU"] and scene.out() != {}
    scene.send(L1, at=229.0)  # too short to be raised, but it stands
    assert scene.at(235.0) == [] and scene.out() != {}
    scene.send(L1, "recovered", at=235.0)
    assert scene.at(334.9) == [] and len(scene.at(335.0)) == 1 and scene.out() == {}


def test_saved_windows_are_those_of_the_faults_that_stand() -> None:
    scene = standing()
    saved: Any = json.loads(json.dumps(scene.policy.saved()))
    saved["npu-0"]["raised"][L1][2:] = [103.0, "it has occurred"]  # as releases before wrote it
    again = Scene(scene.policy.rules)
    again.policy.load(saved)
    assert again.at(1_000.0) == [] and again.out() == {"npu-0": ISOLATE.value}
    again.send(L1, "recovered", at=1_000.0)
    saved = json.loads(json.dumps(again.policy.saved()))
    third = Scene(scene.policy.rules)
    third.policy.load(saved)
    assert len(third.at(1_100.0)) == 1 and third.out() == {}


@pytest.mark.parametrize(
    ("more", "left", "reason"),
    [
        (None, {}, "the changed rules do not raise it"),
        ({"FaultHandling": "NotHandleFault"}, {}, "by the changed rules it is NotHandleFault"),
        ({"FaultHandling": "PreSeparateNPU"}, {"npu-0": ISOLATE.value}, "by the changed rules it is PreSeparateNPU"),
        ({"FaultHandling": "ManuallySeparateNPU"}, {"npu-0": ISOLATE.value}, "by the changed rules it is Manually"),
        ({"TimeWindow": 61}, {"npu-0": ISOLATE.value}, ""),
    ],
)
def test_changed_files_act_on_raised_devices(more: dict[str, object] | None, left: dict[str, str], reason: str) -> None:
    scene = standing()
    scene.send(L1, "recovered", at=4.0)
    changed = read(CODES)[0] if more is None else rules(Edition.CURRENT, **{"ReleaseTimeWindow": 100, **more})
    found = scene.policy.change(changed, 5.0)
    assert len(found) == bool(reason) and all(reason in each.reason for each in found)
    assert {name: word for name, word in scene.out().items() if word} == left


def test_a_changed_release_counts_from_the_recovery() -> None:
    scene = standing()
    scene.send(L1, "recovered", at=10.0)
    assert scene.policy.change(rules(Edition.CURRENT, ReleaseTimeWindow=60), 50.0) == []
    assert scene.at(69.9) == [] and len(scene.at(70.0)) == 1 and scene.out() == {}


def test_changed_files_leave_a_manually_separated_device() -> None:
    scene = standing(FaultHandling="ManuallySeparateNPU", ReleaseTimeWindow=0)
    scene.send(L1, "recovered", at=4.0)
    assert scene.policy.change(read(CODES, None, Edition.CURRENT)[0], 5.0) == []
    assert scene.at(10**9) == [] and scene.policy.manually_separated() == ["npu-0"]


def test_at_the_bound_on_raised_codes_the_least_serious_gives_its_place() -> None:
    codes = [f"8000000{number}" for number in range(6)]
    entries = [*_entries(codes[:5], Times=1, ReleaseTimeWindow=100)]  # type: ignore[arg-type]
    entries += _entries(codes[5], Times=1, ReleaseTimeWindow=100, FaultHandling="ManuallySeparateNPU")
    scene = Scene(read({"NotHandleFaultCodes": codes}, {"FaultFrequency": entries}, Edition.CURRENT)[0])
    for code in codes:
        scene.send(code, at=scene.now + 1)
    saved: Any = scene.policy.saved()["npu-0"]
    assert list(saved["raised"]) == [*codes[1:4], codes[5]]


def test_a_raised_device_of_files_that_are_gone_comes_under_those_that_come() -> None:
    scene = standing()
    scene.send(L1, "recovered", at=4.0)
    again = Scene(read(CODES, None, Edition.CURRENT)[0])
    again.policy.load(scene.policy.saved())
    assert again.policy.change(rules(Edition.CURRENT, ReleaseTimeWindow=60), 5.0) == []
    assert again.at(63.9) == [] and len(again.at(64.0)) == 1


def test_a_code_of_the_network_says_so() -> None:
    (decision,) = Scene(read(CODES, None, Edition.CURRENT)[0]).send(LINK, at=1.0)
    assert decision.reason == "the code is in no list, and one of the network"
    assert actions([decision]) == [Action.NO_NEW_JOB]


MANUAL = {"FaultHandling": "ManuallySeparateNPU", "ReleaseTimeWindow": 0}


@pytest.mark.parametrize("more", [{"FaultHandling": "PreSeparateNPU"}, {"FaultHandling": "ManuallySeparateNPU"}, None])
def test_no_changed_file_releases_a_manually_separated_device(more: dict[str, object] | None) -> None:
    scene = Scene(rules(Edition.CURRENT, **MANUAL))
    once(scene, 1, 2, 3)
    scene.policy.change(read(CODES, None, Edition.CURRENT)[0], 4.0)
    if more is not None:
        scene.policy.change(rules(Edition.CURRENT, **{"ReleaseTimeWindow": 60, **more}), 5.0)
    once(scene, 6, 7, 8)
    again = Scene(scene.policy.rules)
    again.policy.load(json.loads(json.dumps(scene.policy.saved())))
    for each in (scene, again):
        assert each.at(10**9) == [] and each.policy.manually_separated() == ["npu-0"]


def test_a_stricter_rule_keeps_the_device_out_until_a_person_releases_it() -> None:
    scene = standing()
    scene.send(L1, "recovered", at=4.0)
    (decision,) = scene.policy.change(rules(Edition.CURRENT, **MANUAL), 5.0)
    assert decision.fault_type is FaultType.MANUALLY_SEPARATE_NPU and not decision.cleared
    assert scene.at(10**9) == [] and scene.policy.manually_separated() == ["npu-0"]


def test_files_of_the_other_edition_do_not_raise_it() -> None:
    scene = standing()
    scene.send(L1, "recovered", at=4.0)
    (over,) = scene.policy.change(rules(), 5.0)
    assert over.cleared and scene.out() == {}


@pytest.mark.parametrize("kind", ["once", "occurred"])
def test_an_event_that_comes_late_does_not_shorten_the_window(kind: str) -> None:
    scene = standing()
    scene.send(L1, "recovered", at=100.0)
    scene.send(L1, kind, at=20.0, now=120.0)
    assert scene.at(199.9) == [] and len(scene.at(200.0)) == 1


def test_a_recovery_that_comes_late_does_not_shorten_the_window() -> None:
    scene = Scene(rules(Edition.CURRENT, Times=2, ReleaseTimeWindow=60, TimeWindow=600))
    scene.send(L1, at=1.0)
    scene.send(L1, "once", at=100.0)
    scene.send(L1, "recovered", at=50.0, now=150.0)
    assert scene.at(159.9) == [] and len(scene.at(160.0)) == 1


@pytest.mark.parametrize("release", [True, 1.5, "60"])
def test_a_saved_release_of_another_form_is_refused(release: object) -> None:
    saved: Any = json.loads(json.dumps(standing().policy.saved()))
    saved["npu-0"]["raised"][L1][4] = release
    with pytest.raises(ConfigError, match="the saved state of device"):
        Scene(rules(Edition.CURRENT, ReleaseTimeWindow=100)).policy.load(saved)
