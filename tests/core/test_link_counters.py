"""Counters and histograms of times."""

from __future__ import annotations

import random

import pytest

from taskd_net.core.link_counters import OCTAVES, SHORTEST_S, Latency, LinkCounters, Outcomes, bucket_of


def test_nothing_measured_has_no_quantile() -> None:
    latency = Latency()
    assert (latency.quantile(0.5), latency.count, latency.total) == (None, 0, 0.0)
    assert [number for _, number in latency.octaves()] == [0] * (OCTAVES + 1)


@pytest.mark.parametrize("share", [0.01, 0.5, 0.99, 1.0])
def test_quantiles_are_right_within_a_tenth(share: float) -> None:
    chance, latency = random.Random(7), Latency()
    times = sorted(10 ** chance.uniform(-4, 1.5) for _ in range(2000))
    for seconds in times:
        latency.add(seconds, bucket_of(seconds))
    exact = times[max(0, round(share * len(times)) - 1)]
    assert latency.quantile(share) == pytest.approx(exact, rel=0.1)
    assert latency.count == 2000
    assert latency.total == pytest.approx(sum(times))


@pytest.mark.parametrize("step", range(40))
def test_a_single_time_is_right_within_a_tenth_wherever_it_lies_in_its_bucket(step: int) -> None:
    latency, seconds = Latency(), 0.001 * 2.0 ** (step / 40)
    latency.add(seconds, bucket_of(seconds))
    assert latency.quantile(1.0) == pytest.approx(seconds, rel=0.1)


@pytest.mark.parametrize("seconds", [65.0, 80.0, 1e9])
def test_whatever_takes_longer_than_the_last_octave_is_in_one_bucket_behind_it(seconds: float) -> None:
    latency, last = Latency(), SHORTEST_S * 2.0**OCTAVES
    latency.add(seconds, bucket_of(seconds))
    quantile = latency.quantile(1.0)
    assert quantile is not None
    assert last < quantile < 1.1 * last


def test_one_slow_answer_of_a_hundred_is_not_yet_the_99th() -> None:
    latency = Latency()
    for seconds in [0.001] * 99 + [3.0]:
        latency.add(seconds, bucket_of(seconds))
    assert latency.quantile(0.99) == pytest.approx(0.001, rel=0.1)
    assert latency.quantile(0.995) == pytest.approx(3.0, rel=0.1)


def test_octaves_count_what_is_below_them() -> None:
    latency, times = Latency(), [0.0, SHORTEST_S, 1.5 * SHORTEST_S, 3.0 * SHORTEST_S, 1.0, 1e9]
    for seconds in times:
        latency.add(seconds, bucket_of(seconds))
    octaves = list(latency.octaves())
    for bound, number in octaves:
        assert number == sum(seconds <= bound for seconds in times)
    assert octaves[-1] == (64.0, 5)
    latency.clear()
    assert (latency.quantile(1.0), latency.count, latency.total) == (None, 0, 0.0)


def test_traffic_of_several_links_is_added() -> None:
    one, other = LinkCounters(), LinkCounters()
    one.sent, one.sent_bytes, one.received, one.received_bytes, one.failed = 1, 2, 3, 4, 5
    for _ in range(2):
        other.add(one)
    assert (other.sent, other.sent_bytes, other.received, other.received_bytes, other.failed) == (2, 4, 6, 8, 10)


def test_outcomes_are_counted_by_code() -> None:
    outcomes = Outcomes()
    outcomes.count(0, 3)
    outcomes.count(0)
    outcomes.count(6001)
    assert outcomes.by_code == {0: 4, 6001: 1}
