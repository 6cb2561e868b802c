"""The state of the policy: bounded, saved and loaded at any moment, and right for any events."""

from __future__ import annotations

import json
import math
import random
import time
import tracemalloc
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskd_net.base.codes import ConfigError
from taskd_net.job.faults import editions
from taskd_net.job.faults.editions import Edition
from taskd_net.job.faults.events import FaultEvent, FaultKind, Severity
from taskd_net.job.faults.levels import Action, FaultType, JobKind, Mode
from taskd_net.job.faults.occurrences import Occurrences
from taskd_net.job.faults.policy import Bounds, FaultPolicy
from taskd_net.job.faults.reading import read_rules
from taskd_net.job.faults.recent import Recent
from tests.fault_levels.scene import CODES, L1, L2, L3, L4, L5, L6, LINK, Scene, frequency, read
from tests.fault_levels.shipped import code_lists, shipped

YEAR_S: Final = 365 * 86_400


def restored(policy: FaultPolicy, mode: Mode) -> FaultPolicy:
    """A policy with the state of another one, which has been text in between."""
    found = FaultPolicy(policy.rules, mode)
    found.load(json.loads(json.dumps(policy.saved(), allow_nan=False)))
    return found


def test_a_device_keeps_its_most_serious_faults() -> None:
    scene = Scene()
    for number in range(editions.CODES_PER_DEVICE):
        scene.send(f"AAAA{number:04X}", at=float(number), severity=Severity.NOTICE)
    assert scene.policy.counts.not_remembered == 0
    assert scene.send(L1, at=200.0)[0].fault_type is FaultType.NOT_HANDLE
    assert scene.policy.counts.not_remembered == 1
    scene.send(L6, at=201.0)
    (saved,) = scene.policy.saved().values()
    assert saved is not None
    faults: Any = saved["faults"]
    assert len(faults) == editions.CODES_PER_DEVICE and L6 in faults and L1 not in faults


def test_the_least_serious_fault_of_a_full_device_gives_its_place() -> None:
    scene = Scene(bounds=Bounds(codes=3))
    for code in (L4, L3, L5, L6):
        scene.send(code, at=1.0)
    ((_, value),) = _values(scene.policy)
    assert set(value["faults"]) == {L4, L5, L6} and scene.policy.counts.not_remembered == 1


def test_devices_beyond_the_bound_are_answered_and_forgotten() -> None:
    scene = Scene(read(CODES, frequency(EventId=L6, Times=2))[0], bounds=Bounds(devices=2))
    for device in ("a", "b", "c"):
        assert scene.send(L6, at=1.0, device=device)[0].steps
    assert set(scene.out()) == {"a", "b"} and scene.policy.counts.not_remembered == 1
    scene.send(L6, "recovered", at=2.0, device="a")
    assert set(scene.policy.saved()) == {"a", "b"}, "a counter is left of it"


def test_faults_beyond_the_bound_on_all_devices_are_answered_and_forgotten() -> None:
    scene = Scene(bounds=Bounds(faults=2))
    for device, code in (("a", L1), ("a", L2), ("a", L3), ("b", L3)):
        assert scene.send(code, at=1.0, device=device)
    saved = {name: set(value["faults"]) for name, value in _values(scene.policy)}
    assert saved == {"a": {L2, L3}} and scene.policy.counts.not_remembered == 2
    scene.send(L2, "recovered", at=2.0, device="a")
    assert scene.send(L3, at=3.0, device="b")[0].steps
    assert {name for name, _ in _values(scene.policy)} == {"a", "b"}


def test_few_codes_keep_a_device_out_by_their_frequency() -> None:
    codes = [f"AAAA{number:04X}" for number in range(9)]
    custom = {
        "FaultFrequency": [
            *_entries(codes[:8], "SeparateNPU"),
            *_entries(codes[8:], "ManuallySeparateNPU"),
        ]
    }
    scene = Scene(read(CODES, custom, Edition.CURRENT)[0])
    for at, code in enumerate([*codes, *codes]):
        scene.send(code, "once", at=float(at), severity=Severity.MINOR)
    ((_, value),) = _values(scene.policy)
    assert set(value["raised"]) == {*codes[1:4], codes[8]} and scene.policy.manually_separated() == ["npu-0"]


def _entries(codes: list[str], handling: str) -> list[object]:
    (entry,) = frequency(EventId=codes, Times=2, FaultHandling=handling, ReleaseTimeWindow=600)["FaultFrequency"]
    return [entry]


def _values(policy: FaultPolicy) -> list[tuple[str, Any]]:
    return list(policy.saved().items())


def test_counters_give_their_place_to_newer_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(read(CODES, frequency(EventId=[L1, L2], Times=2))[0])
    monkeypatch.setattr(scene.policy, "_occurrences", Occurrences(scene.policy._devices, most=2))
    scene.policy._occurrences.use(scene.policy.rules.frequency)
    for at, (device, code) in enumerate([("a", L1), ("b", L1), ("a", L2), ("c", L1)]):
        scene.send(code, "once", at=float(at), device=device)
    assert scene.policy._occurrences.number == 2
    assert scene.policy.counts.counters_forgotten == 2
    assert scene.send(L1, "once", at=9.0, device="a")[0].fault_type is FaultType.NOT_HANDLE, "forgotten"


def test_counters_whose_window_is_over_are_forgotten() -> None:
    scene = Scene(read(CODES, frequency(EventId=L1))[0])
    for number in range(100):
        scene.send(L1, "once", at=float(number), device=f"npu-{number}")
    assert len(scene.policy.saved()) == 61, "one a second, and a window of 60 s"


def test_recent_keys_are_bounded() -> None:
    recent: Recent[int] = Recent(10)
    for number in range(100):
        recent.add(number, number)
        assert all(each in recent for each in range(max(0, number - 4), number + 1))
    assert sum(each in recent for each in range(100)) <= 10 and recent.get(99, 0) == 99 and recent.get(1, -1) == -1


def test_flapping_links_leave_no_looks_behind() -> None:
    scene = Scene()
    for number in range(2_000):
        scene.send(LINK, at=number / 100)
        scene.send(LINK, "recovered", at=number / 100 + 0.001)
    assert len(scene.policy._looks) < 100


def test_ten_thousand_devices_with_counters_of_sixty_rules_are_small() -> None:
    rules = read_rules(shipped(Edition.DOCUMENTED))[0]
    policy = FaultPolicy(rules)
    tracemalloc.start()
    for number in range(10_000):
        policy.event(FaultEvent(L3, f"node-{number // 8}/npu-{number % 8}", FaultKind.OCCURRED, None, 1.0), 1.0)
    for number in range(100):
        for code in rules.frequency:
            policy.event(FaultEvent(code, f"node-{number}/npu-0", FaultKind.ONCE, None, 2.0), 2.0)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 40 * 1024 * 1024


@pytest.mark.parametrize("mode", Mode)
def test_a_state_that_was_saved_decides_the_same(mode: Mode) -> None:
    custom = {**frequency(EventId=L2, FaultHandling="ManuallySeparateNPU"), "FaultDuration": [{"EventId": LINK}]}
    scene = Scene(read(CODES, custom)[0], mode)
    for at, (code, kind) in enumerate(
        [(L2, "once"), (LINK, "occurred"), (L2, "once"), (L5, "occurred"), (L4, "occurred")]
    ):
        scene.send(code, kind, at=float(at))
    copy = restored(scene.policy, mode)
    assert copy.saved() == scene.policy.saved() and copy.next_look == scene.policy.next_look
    assert copy.changed == set()
    event = FaultEvent(L2, "npu-0", FaultKind.ONCE, None, 50.0)
    expected = scene.policy.event(event, 50.0)
    assert copy.event(event, 50.0) == expected
    assert expected[-1].fault_type is FaultType.MANUALLY_SEPARATE_NPU
    assert restored(copy, mode).manually_separated() == ["npu-0"]


def test_an_event_of_before_the_restart_is_a_doubled_one() -> None:
    scene = Scene(read(CODES, frequency(EventId=L3, Times=2))[0])
    scene.send(L3, at=1.0)
    copy = restored(scene.policy, Mode.RESCHEDULING)
    assert copy.event(FaultEvent(L3, "npu-0", FaultKind.OCCURRED, None, 1.0), 2.0) == []
    assert copy.counts.doubled == 1


def test_a_momentary_event_of_before_the_restart_does_not_count_again() -> None:
    scene = Scene(read(CODES, frequency(EventId=L1, Times=2))[0])
    scene.send(L1, "once", at=1.0)
    copy = restored(scene.policy, Mode.RESCHEDULING)
    (decision,) = copy.event(FaultEvent(L1, "npu-0", FaultKind.ONCE, None, 1.0), 2.0)
    assert decision.fault_type is FaultType.NOT_HANDLE


def test_few_codes_that_keep_a_device_out_are_loaded() -> None:
    raised = {f"AAAA{number:04X}": ["ManuallySeparateNPU", 1.0, None, "often"] for number in range(9)}
    policy = FaultPolicy(read()[0])
    policy.load({"npu-0": {"raised": raised}})
    ((_, value),) = _values(policy)
    assert len(value["raised"]) == editions.RAISED_PER_DEVICE and policy.manually_separated() == ["npu-0"]


def test_a_state_is_loaded_under_other_rules() -> None:
    scene = Scene(read(CODES, frequency(EventId=L3, Times=5))[0])
    for at in range(4):
        scene.send(L3, at=float(at))
    policy = FaultPolicy(read({**CODES, "RestartBusinessCodes": [], "RestartNPUCodes": [L3]}, frequency(EventId=L3))[0])
    policy.load(json.loads(json.dumps(scene.policy.saved())))
    assert policy.standing("npu-0") is FaultType.RESTART_NPU
    found = policy.event(FaultEvent(L3, "npu-0", FaultKind.ONCE, None, 5.0), 5.0)
    assert found[0].fault_type is FaultType.SEPARATE_NPU, "two of the four are kept for a rule of three"
    assert policy.manually_separated() == []
    without = FaultPolicy(read()[0])
    without.load(json.loads(json.dumps(scene.policy.saved())))
    assert "occurrences" not in (without.saved()["npu-0"] or {})


def test_a_duration_without_its_rule_is_over_after_a_restart() -> None:
    scene = Scene()
    scene.send(LINK, at=0.0)
    scene.at(31.0)
    scene.send(LINK, "recovered", at=32.0)
    policy = FaultPolicy(read(CODES, None, Edition.CURRENT)[0])
    policy.load(json.loads(json.dumps(scene.policy.saved())))
    assert policy.saved() == {} and policy.next_look == math.inf


@pytest.mark.parametrize(("before", "after"), [(Mode.GRACE, Mode.RESCHEDULING), (Mode.RESCHEDULING, Mode.GRACE)])
def test_a_state_is_loaded_under_another_mode(before: Mode, after: Mode) -> None:
    scene = Scene(mode=before)
    scene.send(L5, at=7.0)
    copy = restored(scene.policy, after)
    assert list(copy.under_way()) == []
    found = [(each.code, each.since, each.reason) for each in copy.isolated()]
    assert found == ([(L5, 7.0, "RestartNPU stands")] if after is Mode.RESCHEDULING else [])


def test_counters_beyond_the_bound_are_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(read(CODES, frequency(EventId=L1))[0])
    for device in ("a", "b", "c"):
        scene.send(L1, "once", at=1.0, device=device)
    policy = FaultPolicy(scene.policy.rules)
    monkeypatch.setattr(policy, "_occurrences", Occurrences(policy._devices, most=2))
    policy.load(scene.policy.saved())
    assert len(policy.saved()) == 2 and policy._occurrences.forgotten == 1


def test_devices_that_have_changed_are_told() -> None:
    scene = Scene()
    scene.send(L3, at=1.0, device="a")
    scene.send(L3, at=1.0, device="b")
    scene.policy.changed.clear()
    scene.send(L3, "recovered", at=2.0, device="a")
    assert scene.policy.changed == {"a"} and scene.policy.saved(scene.policy.changed) == {"a": None}
    scene.policy.load({"c": None})


@pytest.mark.parametrize(
    "value",
    [
        5,
        [],
        {"faults": []},
        {"faults": {"x": [0, None, False, True, None, None, None]}},
        {"faults": {L1: [0]}},
        {"faults": {L1: ["0", None, False, True, None, None, None]}},
        {"faults": {L1: [True, None, False, True, None, None, None]}},
        {"faults": {L1: [0, "grave", False, True, None, None, None]}},
        {"faults": {L1: [0, None, False, True, "L5", None, None]}},
        {"raised": {L1: ["SeparateNPU", 0, None]}},
        {"occurrences": {L2: ["x"]}},
        {"counted": None, "occurrences": 5},
        {"plan": ["RestartNPU", L5, [["stop_processes", 90]], 7, None]},
        {"plan": ["RestartNPU", L5, [["explode", 90]], 0, None]},
        {"failed": ["run_away", L5, "", 0]},
        {"held": 5},
    ],
)
def test_a_saved_state_of_another_form_is_refused(value: object) -> None:
    policy = FaultPolicy(read(CODES, frequency())[0])
    with pytest.raises(ConfigError, match="saved state of device 'npu-0'"):
        policy.load({"npu-0": value})


DEVICES: Final = ("a", "b")
EVENTS: Final = st.lists(
    st.tuples(
        st.sampled_from([L1, L2, L3, L4, L5, L6, LINK, "AAAA0001"]),
        st.sampled_from(DEVICES),
        st.sampled_from(FaultKind),
        st.sampled_from([None, *Severity]),
        st.integers(-40, 10),
        st.integers(0, 40),
        st.sampled_from(["", "", "", "stop", "reset", "fail", "release", "rules", "job"]),
    ),
    max_size=40,
)
CUSTOM: Final = {
    "FaultFrequency": [
        {"EventId": [L1, LINK], "TimeWindow": 60, "Times": 2, "FaultHandling": "ManuallySeparateNPU"},
        {"EventId": L3, "TimeWindow": 60, "Times": 3, "FaultHandling": "RestartNPU"},
    ],
    "FaultDuration": [{"EventId": LINK, "FaultTimeout": 5, "RecoverTimeout": 7}],
}


@given(EVENTS, st.sampled_from(Mode), st.sampled_from(JobKind))
def test_any_events_leave_a_state_that_is_sound_and_that_a_restart_does_not_change(
    events: list[tuple[str, str, FaultKind, Severity | None, int, int, str]], mode: Mode, kind: JobKind
) -> None:
    first, second = (
        read(CODES, CUSTOM)[0],
        read({**CODES, "RestartNPUCodes": [L1], "NotHandleFaultCodes": []}, CUSTOM)[0],
    )
    policy, now = FaultPolicy(first, mode, kind), 1000.0
    for code, device, what, severity, offset, pause, then in events:
        now += pause
        found = policy.event(FaultEvent(code, device, what, severity, now + offset), now)
        match then:
            case "stop":
                found += policy.step_done(device, Action.STOP_PROCESSES, now)
            case "reset":
                found += policy.step_done(device, Action.RESET_DEVICE, now)
            case "fail":
                found += policy.step_failed(device, Action.STOP_PROCESSES, now)
            case "release":
                found += policy.release(device, now)
                assert device not in policy.manually_separated()
            case "rules":
                found += policy.change(second if policy.rules is first else first, now)
            case "job":
                found += policy.job_failed(device, now)
        _sound(policy, now, mode)
        copy = FaultPolicy(policy.rules, mode, kind)
        copy.load(json.loads(json.dumps(policy.saved())))
        assert copy.saved() == policy.saved() and copy.next_look >= policy.next_look
        assert set(copy.isolated()) == set(policy.isolated()) and set(copy.under_way()) == set(policy.under_way())
    policy.look(now + 10_000)
    for left in policy.isolated():
        assert policy.standing(left.device) > FaultType.NOT_HANDLE or policy._devices[left.device].failed is not None


def _sound(policy: FaultPolicy, now: float, mode: Mode) -> None:
    """The invariants of the state."""
    assert policy.next_look > now
    counters = 0
    for device in policy._devices.values():
        assert not device.empty
        before = device.standing
        device.settle()
        assert device.standing is before
        counters += len(device.occurrences)
        for code, times in device.occurrences.items():
            assert list(times) == sorted(set(times)) and len(times) < policy.rules.frequency[code].times
        if mode is Mode.RESCHEDULING:
            assert device.plan is None
        out = device.held is not None and device.held.action is Action.ISOLATE_AND_RESCHEDULE
        if device.standing >= FaultType.SEPARATE_NPU or device.failed is not None:
            assert out
        if device.standing is FaultType.NOT_HANDLE and device.failed is None:
            assert device.held is None
        assert device.plan is None or not out
    assert counters == policy._occurrences.number
    assert policy._faults == sum(len(device.faults) for device in policy._devices.values())


@given(
    st.lists(st.tuples(st.sampled_from([L1, L2, L3, L4, L5, L6]), st.booleans()), max_size=60),
    st.sampled_from(Mode),
)
def test_a_plain_set_of_faults_agrees(events: list[tuple[str, bool]], mode: Mode) -> None:
    scene = Scene(mode=mode)
    standing: set[str] = set()
    for at, (code, occurs) in enumerate(events):
        scene.send(code, "occurred" if occurs else "recovered", at=float(at))
        standing = standing | {code} if occurs else standing - {code}
        types = [scene.policy.rules.codes[each] for each in standing]
        most = max(types, default=FaultType.NOT_HANDLE)
        assert scene.policy.standing("npu-0") is most
        expected = most >= FaultType.SEPARATE_NPU if mode is Mode.GRACE else most >= FaultType.RESTART_REQUEST
        assert bool(scene.out()) is expected


@pytest.mark.more
def test_a_year_of_events_for_16_devices() -> None:
    """An event every five minutes, some of them doubled, late or from the future; most steps end, some do not."""
    rules = read_rules(shipped(Edition.CURRENT), Edition.CURRENT)[0]
    codes = [code.upper() for found in code_lists(Edition.CURRENT).values() for code in found]
    policy, chance, now, decided = FaultPolicy(rules, Mode.GRACE), random.Random(7), 1_700_000_000.0, 0
    end, began, kinds = now + YEAR_S, time.process_time(), list(FaultKind)
    events = 0
    while now < end:
        now += chance.expovariate(1 / 300)
        while policy.next_look <= now:
            decided += len(policy.look(policy.next_look))
        late = chance.choice((0.0, 0.0, 0.0, 5.0, 4000.0, -5.0))
        event = FaultEvent(chance.choice(codes), f"npu-{chance.randrange(16)}", chance.choice(kinds), None, now - late)
        for _ in range(chance.choice((1, 1, 1, 2))):
            decided += len(policy.event(event, now))
            events += 1
        for each in list(policy.under_way()):
            if chance.random() < 0.9:
                decided += len(policy.step_done(each.device, each.step.action, now))
        if chance.random() < 0.001:
            for name in policy.manually_separated():
                policy.release(name, now)
    assert events > 100_000 and decided > 30_000
    assert policy.counts.doubled > 10_000 and policy.counts.future > 10_000
    assert len(json.dumps(policy.saved())) < 1_000_000 and len(policy._looks) < 200
    assert not math.isnan(policy.next_look)
    assert time.process_time() - began < 60, "seconds on any machine"
