"""A receiver's memory: uuids of ours exactly, of others the last ones of each sender, all within its bound."""

from __future__ import annotations

import os
import tracemalloc
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskd_net.base.position import Position
from taskd_net.core.links import UP
from taskd_net.core.seen import BLOCK_BYTES, PAGE_BYTES, UUID_BYTES, SeenMessages
from taskd_net.core.uuids import Uuids
from tests.core.routers import at

ONE, OTHER = at("Worker/0/0"), at("Worker/0/1")
MESSAGES = st.tuples(st.sampled_from("abcdefgh"), st.sampled_from([at("Mgr"), ONE]))


def sender(life: int = 1) -> Uuids:
    """The uuid maker of one life of a sender."""
    return Uuids(f"{life:016x}", os.urandom)


@given(st.integers(1, 6), st.lists(MESSAGES))
def test_last_messages_of_a_sender_are_known_and_no_others(window: int, messages: list[tuple[str, Position]]) -> None:
    seen = SeenMessages(window)
    went_in: dict[Position, list[str]] = {}
    for uuid, src in messages:
        known = seen.knows(uuid, src)
        assert known == (uuid in went_in.get(src, [])[-window:])
        assert seen.add(0.0, UP, uuid, src) is not known
        if not known:
            went_in.setdefault(src, []).append(uuid)


@given(st.integers(8, 100), st.data())
def test_window_is_kept_in_blocks(window: int, data: st.DataObject) -> None:
    """At least the window, and no more than two blocks beyond it; also when the sender comes over another link."""
    seen = SeenMessages(window)
    uuids = [f"{number}" for number in range(data.draw(st.integers(1, 400)))]
    for uuid in uuids:
        assert seen.add(0.0, UP, uuid, ONE)
    assert all(seen.knows(uuid, ONE) for uuid in uuids[-window:])
    assert sum(seen.knows(uuid, ONE) for uuid in uuids) <= window + 2 * (window // 8)
    for uuid in uuids[-window:]:
        assert not seen.add(0.0, 5, uuid, ONE)
    for number in range(window):
        assert seen.add(0.0, 5 + number % 2, f"more {number}", ONE)
    assert all(seen.knows(f"more {number}", ONE) for number in range(window))


def test_others_do_not_push_out_a_sender() -> None:
    seen = SeenMessages(8)
    seen.add(0.0, UP, "mine", ONE)
    for number in range(5000):
        seen.add(0.0, UP, str(number), OTHER)
    assert seen.knows("mine", ONE)


def test_message_is_known_by_uuid_and_sender() -> None:
    uuids = sender()
    for uuid in ("1", uuids.next(at("Mgr"))):
        seen = SeenMessages(8)
        assert seen.add(0.0, UP, uuid, ONE)
        assert seen.knows(uuid, ONE)
        assert not seen.knows(uuid, OTHER)
        assert not seen.knows("2", ONE)
        assert not seen.knows(uuids.next(at("Mgr")), ONE)


@given(st.lists(st.integers(0, 5000), max_size=60), st.sampled_from([0, 1 << 40]))
def test_numbers_are_known_exactly_in_any_order(numbers: list[int], base: int) -> None:
    seen, went_in = SeenMessages(1), set[int]()
    for number in numbers:
        uuid = f"tn1-{1:016x}-1-{base + number:x}-{'0' * 16}"
        assert seen.add(0.0, UP, uuid, ONE) == (number not in went_in)
        went_in.add(number)
        assert seen.knows(uuid, ONE)
        assert not seen.knows(uuid.replace("-1-", "-2-", 1), ONE)
    pages = {(base + number) >> 10 for number in numbers}
    assert seen.bytes == PAGE_BYTES * len(pages)


def test_retry_is_known_among_a_hundred_thousand_others_of_anybody() -> None:
    seen, mine, others = SeenMessages(8), sender(1), sender(2)
    retried = mine.next(at("Mgr"))
    assert seen.add(0.0, UP, retried, ONE)
    for number in range(100_000):
        uuids, src = (mine, ONE) if number % 3 else (others, OTHER)
        assert seen.add(number / 10_000, UP, uuids.next(at("Mgr")), src)
    assert not seen.add(10.0, UP, retried, ONE)
    assert seen.bytes < 100 * PAGE_BYTES


def test_lists_that_all_differ_are_known_and_cost_a_bit_each() -> None:
    seen, uuids = SeenMessages(8), sender()
    sent = [uuids.next(at(f"Worker/0/1,{number}")) for number in range(2, 5002)]
    for uuid in sent:
        assert seen.add(0.0, UP, uuid, ONE)
    assert not any(seen.add(1.0, UP, uuid, ONE) for uuid in sent)
    assert seen.bytes <= 5 * PAGE_BYTES


def test_next_life_of_a_sender_is_another_flow() -> None:
    seen, before, after = SeenMessages(8), sender(1), sender(2)
    stored = before.next(at("Mgr"))
    assert seen.add(0.0, UP, stored, ONE)
    assert seen.add(0.0, UP, after.next(at("Mgr")), ONE)
    # A sender that was started again sends a uuid that it has stored.
    assert not seen.add(0.0, UP, stored, ONE)


def test_page_is_remembered_as_long_as_a_retry_may_last_after_its_last_message_and_then_forgotten() -> None:
    seen, uuids = SeenMessages(8, seconds=600.0), sender()
    old, slow = uuids.next(at("Mgr")), uuids.next(at("Proxy/0"))
    seen.add(0.0, UP, old, ONE)
    seen.add(0.0, UP, slow, ONE)
    touched = uuids.next(at("Proxy/0"))
    seen.add(300.0, UP, touched, ONE)
    seen.add(600.0, UP, uuids.next(at("Worker/0/1")), ONE)
    assert seen.knows(old, ONE)
    # Expired entries go when a new one comes.
    seen.add(611.0, UP, uuids.next(at("Worker/0/2")), ONE)
    assert not seen.knows(old, ONE)
    assert seen.knows(slow, ONE)
    assert seen.knows(touched, ONE)
    seen.add(911.0, UP, uuids.next(at("Worker/0/3")), ONE)
    assert not seen.knows(slow, ONE)


def test_memory_of_a_steady_stream_does_not_grow() -> None:
    seen, uuids, most = SeenMessages(8, seconds=10.0), sender(), 0
    for number in range(2000):
        seen.add(number * 1.0, UP, uuids.next(at(f"Worker/0/{number}")), ONE)
        most = max(most, seen.bytes)
    assert most <= 30 * PAGE_BYTES


def test_link_with_the_most_gives_up_its_own() -> None:
    seen, honest, forger = SeenMessages(64, size=200 * PAGE_BYTES), sender(1), sender(2)
    kept = [honest.next(at("Mgr")) for _ in range(1000)]
    for uuid in kept:
        seen.add(0.0, 1, uuid, ONE)
    seen.add(0.0, 1, "of another make", ONE)
    for number in range(1000):
        # Ever new flows, senders and uuids over another link.
        seen.add(1.0, 2, forger.next(at(f"Worker/0/{number}")), OTHER)
        seen.add(1.0, 2, str(number), at(f"Worker/1/{number}"))
        assert seen.bytes <= 200 * PAGE_BYTES
    assert all(seen.knows(uuid, ONE) for uuid in kept)
    assert seen.knows("of another make", ONE)
    assert seen.knows("999", at("Worker/1/999"))
    assert not seen.knows("0", at("Worker/1/0"))


def test_what_has_just_come_is_remembered_whatever_the_bound() -> None:
    seen, uuids = SeenMessages(8, size=1), sender()
    for uuid in ("1", uuids.next(at("Mgr")), "2", "3", uuids.next(at("Proxy/0"))):
        assert seen.add(0.0, UP, uuid, ONE)
        assert seen.knows(uuid, ONE)
    assert seen.bytes == PAGE_BYTES


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 3), st.booleans(), st.integers(0, 30)), max_size=200))
def test_books_are_in_order(steps: list[tuple[int, int, bool, int]]) -> None:
    seen, now = SeenMessages(8, size=12 * PAGE_BYTES, seconds=60.0), 0.0
    for number, link, ours, wait in steps:
        now += wait
        uuid = f"tn1-{number:016x}-1-1-{'0' * 16}" if ours else str(number)
        seen.add(now, link, uuid, at(f"Worker/0/{link}"))
        of_links = Counter[int]()
        for link_id, charges in seen._charges.items():
            of_links[link_id] = PAGE_BYTES * len(charges.pages) + sum(block.bytes for block in charges.blocks)
            assert charges.bytes == of_links[link_id] > 0
            assert [page.touched for page in charges.pages] == sorted(page.touched for page in charges.pages)
        assert seen.bytes == of_links.total() <= 12 * PAGE_BYTES + BLOCK_BYTES
        assert len(seen._pages) == sum(len(charges.pages) for charges in seen._charges.values())
        blocks = [block for sender in seen._others.values() for block in sender.blocks]
        assert all(len(sender.uuids) == sum(len(b.uuids) for b in sender.blocks) for sender in seen._others.values())
        assert len(blocks) == sum(len(charges.blocks) for charges in seen._charges.values())


def test_bytes_are_no_less_than_what_it_takes() -> None:
    """Ever new flows; uuids of other makes of ever new senders; many of one sender."""
    flows, places = sender(), [at(f"Worker/0/{rank}") for rank in range(3000)]
    fill: dict[str, Callable[[SeenMessages, int], bool]] = {
        "flows": lambda seen, number: seen.add(0.0, UP, flows.next(places[number]), ONE),
        "senders": lambda seen, number: seen.add(0.0, UP, f"{number:036}", places[number]),
        "uuids": lambda seen, number: seen.add(0.0, UP, f"{number:036}", ONE),
    }
    for add in fill.values():
        seen = SeenMessages(4096)
        for place in places:
            flows.next(place)
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        for number in range(3000):
            add(seen, number)
        took = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        assert 0.4 * seen.bytes < took <= seen.bytes


def test_two_pages_that_are_over_go_for_each_that_comes() -> None:
    seen, uuids = SeenMessages(8, seconds=10.0), sender()
    over = [uuids.next(at(f"Worker/0/{rank}")) for rank in range(5)]
    for uuid in over:
        seen.add(0.0, UP, uuid, ONE)
    for left in (3, 1, 0):
        seen.add(100.0, UP, uuids.next(at(f"Proxy/{left}")), ONE)
        assert sum(seen.knows(uuid, ONE) for uuid in over) == left


@pytest.mark.parametrize("order", ["page", "block"])
def test_beyond_the_bound_the_oldest_goes_whether_page_or_block(order: str) -> None:
    uuids = sender()
    ours, other, later = uuids.next(at("Mgr")), "of another make", uuids.next(at("Proxy/0"))
    first, second = (ours, other) if order == "page" else (other, ours)
    seen = SeenMessages(8, size=PAGE_BYTES + BLOCK_BYTES + UUID_BYTES + len(other))
    seen.add(0.0, UP, first, ONE)
    seen.add(1.0, UP, second, ONE)
    assert seen.knows(first, ONE)
    seen.add(2.0, UP, later, ONE)
    assert not seen.knows(first, ONE)
    assert seen.knows(second, ONE) and seen.knows(later, ONE)


def test_link_whose_last_page_goes_owes_nothing() -> None:
    seen, uuids = SeenMessages(8, size=PAGE_BYTES), sender()
    old, new = uuids.next(at("Mgr")), uuids.next(at("Proxy/0"))
    seen.add(0.0, 5, old, ONE)
    seen.add(1.0, UP, new, ONE)
    assert not seen.knows(old, ONE) and seen.knows(new, ONE)
    assert list(seen._charges) == [UP] and seen.bytes == PAGE_BYTES


def test_pages_alone_go_the_oldest_first() -> None:
    seen, uuids = SeenMessages(8, size=2 * PAGE_BYTES), sender()
    pages = [uuids.next(at(f"Worker/0/{rank}")) for rank in range(4)]
    for now, uuid in enumerate(pages):
        seen.add(float(now), UP, uuid, ONE)
    assert [seen.knows(uuid, ONE) for uuid in pages] == [False, False, True, True]


def test_no_more_than_a_sixteenth_is_forgotten_and_the_bound_may_be_filled() -> None:
    seen, uuids = SeenMessages(8, size=15 * PAGE_BYTES), sender()
    pages = [uuids.next(at(f"Worker/0/{rank}")) for rank in range(16)]
    for uuid in pages:
        seen.add(0.0, UP, uuid, ONE)
    # Of 16 pages a sixteenth is one, and the other 15 are just within the bound.
    assert [uuid for uuid in pages if not seen.knows(uuid, ONE)] == pages[:1]
    assert seen.bytes == 15 * PAGE_BYTES
