"""Quarantine: the line of messages whose sender is not announced yet, within its bounds."""

from __future__ import annotations

from typing import Any

from taskd_net.core.links import Link
from taskd_net.core.quarantine import WAITING_BYTES, Quarantine, Quarantined
from tests.core.routers import at, frame


def waiting(link: Link, *, deadline: float = 1.0, size: int = 10) -> Quarantined:
    """A message that has come on a link, and whose sender is not announced."""
    return Quarantined(link, frame("Mgr", size=size), None, None, 0.0, deadline)


def test_messages_of_one_link_are_bounded_for_that_link_alone() -> None:
    line, one, other = Quarantine(2, 10_000), Link(1, at("Proxy/0")), Link(2, at("Proxy/1"))
    assert [line.add(waiting(link)) for link in (one, one, one, other)] == [True, True, False, True]
    assert len(line.take_link(one)) == 2
    assert [line.add(waiting(link)) for link in (one, one, one, other)] == [True, True, False, True]


def test_bytes_are_bounded_over_all_links() -> None:
    most = 100 + WAITING_BYTES
    line, one, other = Quarantine(10, most), Link(1, at("Proxy/0")), Link(2, at("Proxy/1"))
    assert not line.add(waiting(one, size=101))
    assert line.add(waiting(one, size=100)), "the last byte is there for use"
    assert not line.add(waiting(other, size=0))
    line.take_due(1.0)
    assert line.add(waiting(other, size=100))


def test_small_messages_count_with_what_they_take_besides_their_data() -> None:
    line, links = Quarantine(256, 1 << 20), [Link(number, at(f"Proxy/{number}")) for number in range(1000)]
    came = sum(line.add(waiting(link)) for _ in range(256) for link in links)
    assert 0.9 * (1 << 20) < came * (10 + WAITING_BYTES) <= 1 << 20


def test_link_has_as_many_bytes_as_are_left_so_that_the_next_one_has_room() -> None:
    each = 10 + WAITING_BYTES
    line, links = Quarantine(256, 60 * each), [Link(number, at(f"Proxy/{number}")) for number in range(4)]
    taken = [sum(line.add(waiting(link)) for _ in range(256)) for link in links]
    assert taken == [30, 15, 7, 4]
    line.take_link(links[0])
    assert line.add(waiting(links[3]))


def test_messages_are_taken_in_the_order_in_which_they_came() -> None:
    line, one, other = Quarantine(10, 10_000), Link(1, at("Proxy/0")), Link(2, at("Proxy/1"))
    came = [waiting(link, deadline=deadline) for link, deadline in ((one, 3.0), (other, 1.0), (one, 2.0), (other, 4.0))]
    for message in came:
        line.add(message)
    assert line.take_due(2.0) == [came[1], came[2]], "the earliest deadline first"
    assert line.take_link(other) == [came[3]]
    assert line.take_all() == [came[0]]
    assert (line.take_all(), line.take_link(one), line.take_due(9.0)) == ([], [], [])


def test_next_deadline_is_the_earliest_of_those_that_wait() -> None:
    line, link = Quarantine(10, 10_000), Link(1, at("Proxy/0"))
    assert line.next_deadline() == float("inf")
    for deadline in (3.0, 2.0, 4.0):
        line.add(waiting(link, deadline=deadline))
    assert line.next_deadline() == 2.0
    line.take_due(2.0)
    assert line.next_deadline() == 3.0
    line.take_all()
    assert line.next_deadline() == float("inf")


def test_place_that_becomes_free_is_one_place() -> None:
    line, link = Quarantine(2, 10_000), Link(1, at("Proxy/0"))
    assert line.add(waiting(link, deadline=1.0)) and line.add(waiting(link, deadline=2.0))
    assert len(line.take_due(1.0)) == 1
    assert [line.add(waiting(link)) for _ in range(2)] == [True, False]


class Watched(Quarantined):
    """A message that tells when it is looked at."""

    looks = 0

    def __getattribute__(self, name: str) -> Any:
        Watched.looks += 1
        return super().__getattribute__(name)


def test_messages_of_a_thousand_other_links_cost_an_announcement_and_a_deadline_nothing() -> None:
    line, links = Quarantine(256, 1 << 22), [Link(number, at(f"Proxy/{number}")) for number in range(1000)]
    for deadline in (3.0, 5.0):
        for link in links:
            line.add(Watched(link, frame("Mgr", src="Worker/0/0"), None, None, 0.0, deadline))
    first = waiting(links[7], deadline=1.0)
    line.add(first)
    Watched.looks = 0
    assert (line.next_deadline(), line.take_due(1.0), line.next_deadline()) == (1.0, [first], 3.0)
    assert line.take_link(Link(1000, at("Proxy/1000"))) == []
    assert Watched.looks == 0
    assert line.take_link(links[7], lambda one: one.deadline == 5.0) and line.take_link(links[7])
    assert Watched.looks <= 10, "its own two"


def test_messages_that_may_not_go_on_keep_their_places_and_deadlines() -> None:
    line, link = Quarantine(2, 10_000), Link(1, at("Proxy/0"))
    came = [waiting(link, deadline=deadline) for deadline in (2.0, 1.0)]
    assert all(line.add(one) for one in came)
    assert line.take_link(link, lambda one: one is came[1]) == [came[1]]
    assert line.next_deadline() == 2.0
    assert line.add(waiting(link, deadline=3.0)) and not line.add(waiting(link))
    assert line.take_due(2.0) == [came[0]]
