"""A policy whose clock has moved: no window or limit ends by that, and nothing is in the future."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from taskd_net.job.faults.editions import Edition
from taskd_net.job.faults.levels import FaultType, Mode
from taskd_net.job.faults.policy import FaultPolicy
from tests.fault_levels.scene import CODES, L2, L5, LINK, Scene, frequency, read
from tests.fault_levels.test_duration import documented

DAY_S: Final = 86_400.0
TEN_YEARS_S: Final = 10 * 365 * DAY_S
STEPS: Final = (-3600.0, DAY_S, TEN_YEARS_S)


def step(scene: Scene, by: float, *, stored: bool) -> None:
    """Move the clock, of the same policy or of the next Manager's."""
    if stored:
        policy = FaultPolicy(scene.policy.rules, scene.policy._answers.mode)
        policy.load(json.loads(json.dumps(scene.policy.saved(), allow_nan=False)))
        scene.policy = policy
    scene.policy.move(scene.now, scene.now + by)
    scene.now += by


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("by", STEPS)
def test_a_fault_has_stood_for_as_long_as_before(by: float, *, stored: bool) -> None:
    scene = documented()
    scene.send(LINK, at=1e6)
    scene.at(1e6 + 4.0)
    step(scene, by, stored=stored)
    assert scene.at(scene.now + 5.9) == []
    (raised,) = scene.at(scene.now + 0.2)
    assert raised.fault_type is FaultType.PRE_SEPARATE_NPU
    scene.send(LINK, "recovered", at=scene.now)
    scene.at(scene.now + 15.0)
    step(scene, by, stored=stored)
    assert scene.at(scene.now + 4.9) == [] and scene.out()
    assert scene.at(scene.now + 0.2)[0].cleared and not scene.out()


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("by", STEPS)
def test_a_fault_recovers_by_an_event_of_the_time_between(by: float, *, stored: bool) -> None:
    """Its reporter has seen it end while no Manager ran."""
    scene = documented()
    scene.send(LINK, at=1e6)
    before = scene.now
    step(scene, by, stored=stored)
    scene.send(LINK, "recovered", at=min(before + 1.0, scene.now), now=scene.now + 1.0)
    assert scene.policy.saved() == {} and scene.at(scene.now + 100.0) == []
    scene.send(LINK, at=scene.now + 1.0)
    assert len(scene.at(scene.now + 11.0)) == 1, "it stands again"


@pytest.mark.parametrize("by", STEPS)
def test_a_device_is_released_after_its_whole_window(by: float) -> None:
    scene = Scene(read(CODES, frequency(ReleaseTimeWindow=300, Times=1), Edition.CURRENT)[0])
    scene.send(L2, at=1e6)
    scene.send(L2, "recovered", at=1e6 + 100.0)
    assert scene.out()
    step(scene, by, stored=True)
    assert scene.at(scene.now + 299.0) == [] and scene.out()
    scene.at(scene.now + 2.0)
    assert not scene.out()


def test_occurrences_of_the_future_count_as_of_now() -> None:
    scene = Scene(read(CODES, frequency())[0])
    for at in (1e6, 1e6 + 10.0):
        scene.send(L2, at=at)
        scene.send(L2, "recovered", at=at + 1.0)
    step(scene, -TEN_YEARS_S / 10_000, stored=True)
    (saved,) = scene.policy.saved().values()
    assert saved is not None
    counted: Any = saved["occurrences"]
    assert set(counted[L2]) == {scene.now} and saved["counted"] == scene.now


@pytest.mark.parametrize("by", STEPS)
def test_a_step_under_way_and_the_reason_of_an_isolated_device(by: float) -> None:
    scene = Scene(mode=Mode.GRACE)
    scene.send(L5, at=1e6)
    (before,) = scene.policy.under_way()
    left = before.deadline - scene.now
    step(scene, by, stored=True)
    (after,) = scene.policy.under_way()
    assert after.deadline - scene.now == pytest.approx(left, abs=0.01)
    scene.at(scene.now + left + 1.0)
    assert scene.out()
    step(scene, -5.0, stored=True)
    (isolated,) = scene.policy.isolated()
    assert isolated.since <= scene.now
