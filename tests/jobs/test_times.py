"""Times of a state after the clock has moved: facts stay in the past, and waits go on."""

from __future__ import annotations

import math
import typing
from dataclasses import dataclass, field, is_dataclass
from typing import Any, Final

import pytest

from taskd_net.base.untrusted import json_value
from taskd_net.job.decide.events import ClockMoved, Resumed, RetryTime, Signal, Tick
from taskd_net.job.decide.job import PAUSE_STARTS_S, TICK_PAUSE_S, TIME_STORED_S, Job
from taskd_net.job.decide.outbox import Sending
from taskd_net.job.decide.plain import from_plain, to_text
from taskd_net.job.decide.plugins import built_in
from taskd_net.job.decide.state import JobState
from taskd_net.job.decide.times import Moment, Timer, move, move_plain, moved
from tests.jobs.scene import CLUSTERD, LOCAL, commands, started

DAY_S: Final = 86_400.0

NO_TIMES: Final = {
    *("Fault.reported", "JobFailure.lived", "JobFailure.phases", "Task.limits", "Lengths.longest", "Lengths.total"),
    *("NodeProgress.loss", "NodeProgress.marked", "NodeProgress.spent", "RankProgress.marked", "RankProgress.moved"),
    *("Verdict.limit", "_Open.age"),
}
"""Numbers that are no time of the Manager's clock: an Agent's own time, and seconds."""


@dataclass
class Inner:
    at: Moment = 0.0
    until: Timer = 0.0


@dataclass
class Outer:
    seconds: float = 5.0
    one: Inner | None = None
    by_name: dict[str, Inner] = field(default_factory=dict)
    each: list[Inner] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)


def outer() -> Outer:
    return Outer(one=Inner(100.0, 130.0), by_name={"a": Inner(10.0, math.inf)}, each=[Inner()], names={"x": "y"})


@pytest.mark.parametrize(("now", "at"), [(40.0, 40.0), (100.0, 100.0), (1000.0, 100.0)])
def test_a_moment_is_never_in_the_future_and_a_timer_keeps_what_is_left(now: float, at: float) -> None:
    value = outer()
    move(value, 100.0, now)
    assert value == Outer(
        one=Inner(at, now + 30.0), by_name={"a": Inner(10.0, math.inf)}, each=[Inner()], names={"x": "y"}
    )
    assert (moved(90.0, 100.0, now), moved(0.0, 100.0, now)) == (now - 10.0, 0.0)


@dataclass
class Plain:
    ends: list[Timer] = field(default_factory=list)
    inner: Outer = field(default_factory=outer)


@pytest.mark.parametrize("now", [40.0, 100.0, 1000.0])
def test_plain_data_moves_as_its_type(now: float) -> None:
    value = Plain([130.0, 0.0], Outer(one=Inner(100.0, 130.0), each=[Inner(10.0, 20.0)], by_name={"a": Inner(1000.0)}))
    plain = json_value(to_text(value))
    assert isinstance(plain, dict)
    moved_plain = from_plain(Plain, move_plain({**plain, "unknown": [5.0]}, Plain, 100.0, now), "plain")
    move(value, 100.0, now)
    value.ends[0] = now + 30.0
    assert moved_plain == value
    assert move_plain(None, type(None), 1.0, 2.0) is None


def floats(kind: Any, times: set[str], found: set[str], known: set[Any]) -> None:
    """Collect the times and the other numbers in a dataclass, and in those that it holds."""
    known.add(kind)
    for name, hint in typing.get_type_hints(kind, include_extras=True).items():
        inside = [hint]
        while inside:
            each = inside.pop()
            if each in (Moment, Timer):
                times.add(f"{kind.__name__}.{name}")
                continue
            if each is float or float in getattr(each, "__args__", ()):
                found.add(f"{kind.__name__}.{name}")
            elif is_dataclass(each) and each not in known:
                floats(each, times, found, known)
            inside += getattr(each, "__args__", ())


def test_each_stored_time_is_a_moment_or_a_timer() -> None:
    times, found, known = set[str](), set[str](), set[Any]()
    for kind in (JobState, Sending, *(type(plugin.state) for plugin in built_in() if is_dataclass(plugin.state))):
        floats(kind, times, found, known)
    assert found == NO_TIMES
    assert len(times) > 15


@pytest.mark.parametrize("now", [500.0, 1000.0 + DAY_S])
def test_a_stored_state_waits_for_what_was_left(now: float) -> None:
    """The Manager was away, or its clock has gone back; the pause of ClusterD has 40 minutes left."""
    scene = started(0, config=CLUSTERD)
    scene.signal("pauseStartAgent")
    scene.tick(1200.0)
    left = scene.job.state.paused_until - scene.now
    assert 0.0 < left < PAUSE_STARTS_S
    job = Job.from_json(scene.job.to_json(), CLUSTERD)
    job.state.now = scene.now
    job.step(now, Resumed("v"))
    job.step(now, Tick())
    assert job.state.paused and job.state.paused_until == pytest.approx(now + left)
    job.step(now + left - 0.1, Tick())
    assert job.state.paused
    job.step(now + left, Tick())
    assert not job.state.paused


def test_a_state_from_the_future_is_decided_on_at_once() -> None:
    scene = started(0, 1)
    scene.away.add("Agent/1")
    scene.fault(1, 5)
    scene.tick()
    job = Job.from_json(scene.job.to_json(), LOCAL)
    job.step(10.0, Resumed("v"))
    assert job.wake == 10.0 + TICK_PAUSE_S
    assert ("Agent/1", 203) in commands(job.step(job.wake, Tick()))
    agent = job.state.records.agents[1]
    assert max(report.at for report in agent.reports.values()) == 10.0
    assert max(sending.due for sending in job.state.outbox.sending.values()) <= job.state.now + 3.0


def test_the_clock_steps_while_the_job_runs() -> None:
    scene = started(0, config=CLUSTERD)
    scene.signal("pauseStartAgent")
    scene.tick(1.0)
    left = scene.job.state.paused_until - scene.now
    scene.job.step(scene.now - 500.0, ClockMoved(scene.now))
    scene.now -= 500.0
    assert scene.job.state.paused_until == pytest.approx(scene.now + left)
    assert scene.job.state.records.since == scene.now
    assert scene.job.step(scene.now, RetryTime(3)).taken and scene.job.wake <= scene.now + TICK_PAUSE_S


def test_the_time_is_stored_while_something_is_waited_for() -> None:
    job = Job(LOCAL, "u")
    assert job.wake == math.inf
    job.step(5.0, Signal("u", "pauseStartAgent"))
    job.step(5.0, Tick())
    assert job.wake == 5.0 + TIME_STORED_S
    job.step(job.wake, Tick())
    assert job.state.now == 5.0 + TIME_STORED_S
