from __future__ import annotations

import pytest

from taskd_net.job.clusterd.life import Life, LifeStep, Next

pytestmark = pytest.mark.oldest


def reading(now: float = 0.0) -> Life:
    """A life whose stream stands."""
    life = Life()
    life.answered(now, LifeStep.INIT, 0)
    life.answered(now, LifeStep.REGISTER, 0)
    life.opened(now)
    return life


def after_looks(life: Life) -> Next:
    """The next step, where ClusterD listens all the time."""
    while life.next.step is LifeStep.CONNECT:
        life.reached(life.next.at)
    return life.next


def test_init_register_subscribe_read() -> None:
    life = Life()
    assert life.next.step is LifeStep.INIT
    life.answered(1.0, LifeStep.INIT, 0)
    assert life.next == Next(LifeStep.REGISTER, 1.0)
    life.answered(2.0, LifeStep.REGISTER, 0)
    assert life.next == Next(LifeStep.SUBSCRIBE, 2.0)
    life.opened(3.0)
    assert life.is_reading
    assert life.next == Next(LifeStep.HEALTH_CHECK, 4.0)
    life.answered(4.1, LifeStep.HEALTH_CHECK, 0)
    assert life.next == Next(LifeStep.HEALTH_CHECK, 5.1)


@pytest.mark.parametrize("code", [402, 500, 502, 401, 777])
def test_init_is_tried_every_5_seconds(code: int) -> None:
    life = Life()
    life.answered(1.0, LifeStep.INIT, code)
    assert life.next == Next(LifeStep.INIT, 6.0)
    life.failed(7.0, LifeStep.INIT, unreachable=False)
    assert after_looks(life) == Next(LifeStep.INIT, 12.0)


def test_403_ends_it_or_is_asked_again() -> None:
    once, manager = Life(), Life(off_again=30.0)
    once.answered(1.0, LifeStep.INIT, 403)
    manager.answered(1.0, LifeStep.INIT, 403)
    assert once.next.step is LifeStep.END
    assert manager.next == Next(LifeStep.INIT, 31.0)


def test_register_is_tried_three_times_then_init() -> None:
    life = Life()
    life.answered(0.0, LifeStep.INIT, 0)
    for now, then in ((0.0, LifeStep.REGISTER), (5.0, LifeStep.REGISTER), (10.0, LifeStep.INIT)):
        life.answered(now, LifeStep.REGISTER, 402)
        assert life.next == Next(then, now + 5.0)
    life.answered(15.0, LifeStep.INIT, 0)
    life.answered(15.0, LifeStep.REGISTER, 402)
    assert life.next == Next(LifeStep.REGISTER, 20.0)


def test_register_without_init_begins_with_init() -> None:
    life = Life()
    life.answered(0.0, LifeStep.INIT, 0)
    life.answered(0.0, LifeStep.REGISTER, 408)
    assert life.next == Next(LifeStep.INIT, 5.0)


def test_pauses_grow_to_10_seconds_until_a_message_comes() -> None:
    life = reading()
    pauses = []
    for _ in range(12):
        life.ended(100.0, unreachable=False)
        pauses.append(after_looks(life).at - 100.0)
        life.answered(100.0, LifeStep.INIT, 0)
        life.answered(100.0, LifeStep.REGISTER, 0)
        life.opened(100.0)
    assert pauses == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 10]
    life.heard()
    life.ended(100.0, unreachable=False)
    assert life.next == Next(LifeStep.INIT, 101.0)


def test_end_of_a_round_subscribes_again_at_once() -> None:
    life = reading()
    for now in (1.0, 2.0, 3.0):
        life.heard()
        life.ordered()
        assert life.over(now)
        assert not life.is_reading
        assert life.next == Next(LifeStep.SUBSCRIBE, now), "without Init and Register"
        life.opened(now)


def test_stream_that_was_taken_over_is_opened_again_after_a_pause_that_grows() -> None:
    life = reading()
    pauses = []
    for _ in range(12):
        life.heard()  # a keep-alive
        assert not life.over(100.0)
        assert life.next.step is LifeStep.SUBSCRIBE
        pauses.append(life.next.at - 100.0)
        life.opened(100.0)
    assert pauses == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 10]
    life.ordered()
    assert life.over(100.0)
    life.opened(100.0)
    assert not life.over(100.0)
    assert life.next == Next(LifeStep.SUBSCRIBE, 101.0)


def test_order_before_a_break_makes_no_end_of_a_round_of_the_next_stream() -> None:
    life = reading()
    life.ordered()
    life.ended(1.0, unreachable=False)
    life.opened(2.0)
    assert not life.over(3.0)


def test_health_check_without_an_answer_waits_10_seconds() -> None:
    life = reading()
    life.failed(1.0, LifeStep.HEALTH_CHECK, unreachable=False)
    assert after_looks(life) == Next(LifeStep.INIT, 11.0)
    assert not life.is_reading


def test_health_check_with_a_failure_is_a_broken_stream() -> None:
    life = reading()
    life.answered(1.0, LifeStep.HEALTH_CHECK, 599)
    assert life.next == Next(LifeStep.INIT, 2.0)


def test_connects_end_the_pause_early() -> None:
    life = reading()
    life.failed(1.0, LifeStep.HEALTH_CHECK, unreachable=True)
    assert life.next == Next(LifeStep.CONNECT, 2.0)
    life.failed(2.5, LifeStep.CONNECT, unreachable=True)
    assert life.next == Next(LifeStep.CONNECT, 3.5)
    life.reached(3.6)
    assert life.next == Next(LifeStep.INIT, 3.6)


def test_pause_after_a_stream_that_clusterd_ended_is_cut_short_where_it_goes_away_meanwhile() -> None:
    life = reading()
    for _ in range(4):
        life.ended(0.0, unreachable=False)
        life.opened(0.0)
    life.ended(0.0, unreachable=False)
    assert life.next == Next(LifeStep.CONNECT, 1.0), "of a pause of five seconds"
    life.reached(1.0)
    assert life.next == Next(LifeStep.CONNECT, 2.0), "ClusterD was there all the time"
    life.failed(2.0, LifeStep.CONNECT, unreachable=True)
    life.reached(3.0)
    assert life.next == Next(LifeStep.INIT, 3.0)


def test_pause_ends_whatever_the_connects_say() -> None:
    life = reading()
    life.ended(1.0, unreachable=True)
    assert life.next == Next(LifeStep.INIT, 2.0), "a look is due no earlier than the end"
    life.failed(2.0, LifeStep.INIT, unreachable=True)
    for now in (3.0, 4.0, 5.0, 6.0):
        assert life.next == Next(LifeStep.CONNECT, now)
        life.failed(now, LifeStep.CONNECT, unreachable=True)
    assert life.next == Next(LifeStep.INIT, 7.0)
