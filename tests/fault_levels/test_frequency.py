"""Rules of frequency: a fault that occurs often is handled as another type, once per reaching."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskd_net.faults.editions import Edition
from taskd_net.faults.levels import Action, FaultType, Mode
from taskd_net.faults.rules import FaultRules
from tests.fault_levels.scene import CODES, L1, L2, L3, L6, Scene, actions, frequency, read

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
    assert over.cleared and over.reason == "it was not raised again for 100 s" and scene.out() == {}


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
