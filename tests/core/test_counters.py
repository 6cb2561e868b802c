"""A Router's counters: outcomes by way and code, traffic of each link, and times of answers."""

from __future__ import annotations

import random

import pytest

from taskd_net.base.position import Destination
from taskd_net.core import forwarding
from taskd_net.core.counters import BATCH_SIZES, OCTAVES, SHORTEST_S, Latency, LinkCounters, Outcomes, bucket_of
from taskd_net.core.frame import Frame
from taskd_net.core.links import UP
from tests.core.driven import Driven
from tests.core.routers import Caller, add_child, at, frame, join, joined, router

Counted = dict[str, dict[int, int]]


def counted(node: Driven) -> Counted:
    """The outcomes, without the ways that have none."""
    return {way: dict(outcomes.by_code) for way, outcomes in node.counters.outcomes.items() if outcomes.by_code}


def timed() -> Driven:
    """A Proxy that has joined."""
    proxy = Driven(at("Proxy/0"), upstream=True)
    join(proxy)
    return proxy


def test_batches_are_counted_once_for_all_their_messages() -> None:
    proxy = joined("Proxy/0")
    child = add_child(proxy, "Worker/0/0")
    sender, mgr = at("Worker/0/0"), Destination.of(at("Mgr"))
    batch = [Frame(str(number), True, sender, mgr, bytes(10)) for number in range(3)]
    proxy.frames_arrived(5.0, child.id, [(message, Caller(), 1.0) for message in batch])
    proxy.written(UP, "up", 3, 30)
    proxy.accepted(6.0, UP, ["0", "1", "unknown"], sync=True)
    up = proxy.upstream
    assert up is not None
    assert (child.counters.received, child.counters.received_bytes, child.counters.heard) == (3, 30, 5.0)
    assert (up.counters.sent, up.counters.sent_bytes, up.counters.heard) == (3, 30, 6.0)
    assert proxy.counters.batches[2] == sum(proxy.counters.batches) == 1
    assert counted(proxy) == {"up": {0: 2}}


def test_any_answer_says_that_the_other_end_is_there() -> None:
    proxy = joined("Proxy/0")
    child = add_child(proxy, "Worker/0/0")
    proxy.frame_arrived(5.0, child.id, frame("Mgr", "Worker/0/0", uuid="a"), Caller())
    proxy.ack_arrived(7.0, UP, "a", 5001, at("Mgr"))
    assert proxy.upstream is not None and proxy.upstream.counters.heard == 7.0


def test_messages_of_a_link_that_is_not_known_are_carried_all_the_same() -> None:
    proxy = joined("Proxy/0")
    assert proxy.frames_arrived(1.0, 99, [(frame("Mgr", "Worker/0/0"), Caller(), 1.0)])


@pytest.mark.parametrize(
    ("messages", "size"), [(1, 1), (2, 2), (3, 2), (255, 8), (256, 9), (1_000_000, BATCH_SIZES - 1)]
)
def test_batches_are_classed_by_size(messages: int, size: int) -> None:
    proxy = joined("Proxy/0")
    proxy.written(UP, "up", messages, 10)
    assert [index for index, number in enumerate(proxy.counters.batches) if number] == [size]


def test_one_message_on_a_link_is_timed_at_a_time() -> None:
    proxy = timed()
    child = add_child(proxy, "Worker/0/0")
    proxy.frame_arrived(0.0, child.id, frame("Mgr", "Worker/0/0", uuid="first"), Caller())
    proxy.frame_arrived(1.0, child.id, frame("Mgr", "Worker/0/0", uuid="second"), Caller())
    proxy.accepted(2.0, UP, ["second"])
    latency = proxy.counters.outcomes["up"].latency
    assert latency.count == 0
    proxy.accepted(3.0, UP, ["first"])
    assert (latency.count, latency.total) == (1, 3.0)
    up = proxy.upstream
    assert up is not None and (up.timed, up.counters.recent.count) == (None, 1)
    proxy.frame_arrived(3.0, child.id, frame("Mgr", "Worker/0/0", uuid="third"), Caller())
    proxy.ack_arrived(3.5, UP, "third", 5001, at("Mgr"))
    assert (latency.count, latency.total) == (2, 3.5)


def test_messages_of_a_link_are_timed_a_hundred_in_a_second_at_most() -> None:
    proxy = timed()
    child = add_child(proxy, "Worker/0/0")
    latency = proxy.counters.outcomes["up"].latency
    for number in range(100):
        now = number * forwarding.LATENCY_EVERY_S / 3.9
        proxy.frame_arrived(now, child.id, frame("Mgr", "Worker/0/0", uuid=str(number)), Caller())
        proxy.accepted(now, UP, [str(number)])
    assert latency.count == 25


def test_a_message_that_is_given_up_was_waited_for_so_long() -> None:
    proxy = timed()
    child = add_child(proxy, "Worker/0/0")
    proxy.frame_arrived(0.0, UP, frame("Worker/0/0", uuid="u"), Caller(), 1.0)
    proxy.tick(0.95)
    assert counted(proxy) == {"down": {6001: 1}}
    assert (proxy.counters.outcomes["down"].latency.total, child.counters.failed) == (0.95, 1)


def test_a_message_whose_stream_breaks_has_no_time() -> None:
    proxy = timed()
    child = add_child(proxy, "Worker/0/0")
    written, unwritten = frame("Worker/0/0", uuid="written"), frame("Worker/0/0", uuid="unwritten")
    for message in (written, unwritten):
        proxy.frame_arrived(0.0, UP, message, Caller())
    proxy.link_down(1.0, child, "Worker/0/0", [unwritten])
    assert counted(proxy) == {"down": {6000: 1, 6001: 1}}
    assert (proxy.counters.outcomes["down"].latency.count, child.timed, child.counters.failed) == (0, None, 2)
    assert (proxy.counters.joins, proxy.counters.losses) == (1, 1)


def test_posts_are_counted_by_their_answer_too() -> None:
    proxy = joined("Proxy/0")
    post = frame("Mgr", "Proxy/0", sync=False)
    proxy.send(0.0, post, Caller(), 1.0)
    proxy.post_answered(0.0, UP, post, 0, at("Mgr"))
    assert counted(proxy) == {"up": {0: 1}}


def test_refusals_of_a_link_count_for_that_link() -> None:
    mgr = router("Mgr", link_messages=1)
    child = add_child(mgr, "Worker/0/0")
    for uuid in ("1", "2"):
        mgr.send(0.0, frame("Worker/0/0", uuid=uuid), Caller(), 1.0)
    mgr.send(0.0, frame("Worker/All/All", uuid="3"), Caller(), 1.0)
    mgr.frame_arrived(0.0, child.id, frame("Worker/9/9", "Worker/0/0", uuid="4", sync=False), None)
    mgr.frame_arrived(0.0, child.id, frame("Mgr", "Worker/9/9", uuid="5"), Caller())
    assert counted(mgr) == {"down": {5001: 2}, "refused": {5002: 1, 4002: 1}}
    assert mgr.counters.broadcasts == 1


def test_refusals_of_a_post_on_its_way_count_for_the_link() -> None:
    proxy = joined("Proxy/0", link_messages=1)
    child = add_child(proxy, "Worker/0/0")
    for uuid in ("1", "2"):
        proxy.frame_arrived(0.0, UP, frame("Worker/0/0", uuid=uuid, sync=False), None)
    assert (counted(proxy), child.counters.failed) == ({"down": {5001: 1}}, 1)


def test_posted_broadcasts_are_counted() -> None:
    proxy = joined("Proxy/0")
    add_child(proxy, "Worker/0/0")
    proxy.frame_arrived(0.0, UP, frame("Worker/All/All", sync=False), None)
    assert proxy.counters.broadcasts == 1


def test_an_inbox_that_takes_nothing_counts_for_itself() -> None:
    proxy = joined("Proxy/0", inbox=1, link_messages=1)
    for uuid in ("in", "waits"):
        proxy.frame_arrived(0.0, UP, frame("Proxy/0", uuid=uuid), Caller())
    proxy.frame_arrived(0.0, UP, frame("Proxy/0", uuid="no room in line"), Caller())
    proxy.frame_arrived(0.0, UP, frame("Proxy/0", uuid="nor for this", sync=False), Caller())
    proxy.tick(1.0)
    assert counted(proxy) == {"inbox": {5001: 3}}
    proxy.inbox_taken(1.0)
    proxy.close_inbox()
    proxy.frame_arrived(2.0, UP, frame("Proxy/0", uuid="closed"), Caller())
    proxy.frame_arrived(2.0, UP, frame("Proxy/0", uuid="closed too", sync=False), Caller())
    assert counted(proxy) == {"inbox": {5001: 3, 5000: 2}}


def test_what_is_forgotten_stays_counted() -> None:
    mgr = router("Mgr", grace=1.0)
    child = add_child(mgr, "Worker/0/0")
    for uuid in ("1", "2"):
        mgr.send(0.0, frame("Worker/0/0", uuid=uuid), Caller(), 1.0)
    mgr.written(child.id, "Worker/0/0", 2, 20)
    mgr.frame_arrived(0.0, child.id, frame("Mgr", "Worker/0/0"), Caller())
    mgr.link_down(0.0, child, "Worker/0/0", [])
    mgr.tick(2.0)
    assert len(mgr.children) == 0
    gone = mgr.counters.forgotten
    assert (gone.sent, gone.sent_bytes, gone.received, gone.received_bytes) == (2, 20, 1, 10)


def test_streams_of_a_link_are_counted_and_when_the_last_one_came_or_went() -> None:
    mgr = router("Mgr")
    child = add_child(mgr, "Worker/0/0", now=1.0)
    assert (child.since, child.streams) == (1.0, 1)
    mgr.link_down(5.0, child, "Worker/0/0", [])
    assert (child.since, child.streams) == (5.0, 1)
    mgr.link_up(7.0, child, "again")
    assert (child.since, child.streams, mgr.counters.joins, mgr.counters.losses) == (7.0, 2, 2, 1)
    assert mgr.upstream is None
    proxy = joined("Proxy/0")
    up = proxy.upstream
    assert up is not None and (up.since, up.streams) == (0.0, 1)
    proxy.upstream_down(3.0, "up", [])
    assert (up.since, up.streams) == (3.0, 1)


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
