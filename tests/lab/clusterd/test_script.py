from __future__ import annotations

from taskd_net_lab.clusterd.messages import Signal
from taskd_net_lab.clusterd.round import Job
from taskd_net_lab.clusterd.scenario import End, Orders, Scenario, Scripted, Step
from taskd_net_lab.clusterd.script import Script

ORDER = Orders(Signal("", "keep-alive"))


def script(*steps: Step, answers: tuple[Scripted, ...] = (), holds: bool = False) -> Script:
    return Script(Scenario((Job("a"),), answers=answers, steps=steps), lambda _: holds, 10.0)


def test_a_step_comes_after_its_condition_and_its_time() -> None:
    first, last = Step(ORDER, "a", "subscribed", 2.0), Step(End(), "a", wait=1.0)
    made = script(first, last)
    assert (made.wake, made.take(99.0)) == (None, None)
    made.saw("b", "subscribed", 11.0)
    made.saw("a", "registered", 11.0)
    assert made.take(99.0) is None
    made.saw("a", "subscribed", 11.0)
    made.saw("a", "subscribed", 12.5)
    assert made.wake == 13.0
    assert made.take(12.9) is None
    assert made.take(13.0) is first
    made.done(13.5)
    assert made.wake == 14.5
    assert made.take(14.5) is last
    made.done(14.5)
    assert made.take(99.0) is None


def test_a_condition_that_the_step_before_brings_about_counts() -> None:
    made = script(Step(ORDER, "a"), Step(End(), "a", "init"))
    assert made.take(10.0) is not None
    made.saw("a", "init", 10.0)  # before `done`
    made.done(10.0)
    assert made.wake == 10.0


def test_a_condition_that_holds_already_counts() -> None:
    assert script(Step(End(), "a", "init"), holds=True).wake == 10.0


def test_answers_have_a_number_and_a_time() -> None:
    twice, later = Scripted("Init", 502, times=2), Scripted("Init", 403, since=5.0, until=6.0)
    made = script(answers=(twice, later))
    assert [made.answer("Init", 10.0) for _ in range(3)] == [twice, twice, None]
    assert made.answer("Register", 15.0) is None
    assert made.answer("Init", 15.0) is later
    assert made.answer("Init", 16.0) is None
