"""Rates from one document after another."""

from __future__ import annotations

from taskd_net.observe.rates import STILL_S, Rate, Rates


def seen(at: float, now: float, down: int = 0, up: int = 0) -> dict[str, object]:
    """A document with one node, whose figures are from `at`."""
    flows = {way: {"messages": n, "bytes": 10 * n, "failed": 0} for way, n in (("down", down), ("up", up))}
    return {"time": now, "nodes": [{"position": "w", "at": at, **flows}]}


def test_a_rate_is_a_difference_by_the_time_between_the_figures() -> None:
    rates = Rates()
    assert rates.take(seen(10.0, 11.0, down=100, up=0)) == {}
    rate = rates.take(seen(12.0, 12.5, down=300, up=20))["w"]
    assert rate == Rate(down_messages=100.0, down_bytes=1000.0, up_messages=10.0, up_bytes=100.0)
    assert rate.messages == 110.0


def test_figures_that_are_still_the_same_ones_say_nothing_new_for_a_while() -> None:
    rates = Rates()
    rates.take(seen(10.0, 10.0))
    before = rates.take(seen(12.0, 12.0, up=20))
    assert rates.take(seen(12.0, 14.0, up=20)) == before
    assert rates.take(seen(12.0, 12.0 + STILL_S, up=20)) == {"w": Rate()}


def test_counters_that_begin_anew_tell_nothing() -> None:
    rates = Rates()
    rates.take(seen(10.0, 10.0, up=1000))
    assert rates.take(seen(12.0, 12.0, up=3)) == {"w": Rate()}
    assert rates.take(seen(13.0, 13.0, up=5))["w"].up_messages == 2.0


def test_who_is_gone_has_no_rate_and_who_comes_back_begins_anew() -> None:
    rates = Rates()
    rates.take(seen(10.0, 10.0))
    assert rates.take({"time": 11.0, "nodes": []}) == {}
    assert rates.take(seen(12.0, 12.0, up=5)) == {}
