"""The registry of a parent: places, who has them, and for how long (docs/contract.md, section 3)."""

from __future__ import annotations

import pytest

from taskd_net.base.codes import Refusal
from taskd_net.base.position import Position
from taskd_net.core.links import UP, Children, Link, Terms
from tests.core.routers import at

INF = float("inf")


def registry(limit: int = 3) -> Children:
    """A small registry with the contract's times."""
    return Children(limit, 10.0, 30.0)


def code_of(children: Children, position: Position) -> int:
    """The code that a registration is refused with, 0 for a good one."""
    try:
        children.register(0.0, position)
    except Refusal as refusal:
        return refusal.code
    return 0


def expire(children: Children, now: float) -> list[Link]:
    """Take out the children whose time is over."""
    expired = children.expired(now)
    for link in expired:
        children.remove(link)
    return expired


def test_link_has_no_stream_at_first() -> None:
    link = Link(1, at("Worker/0/0"))
    assert not link.up
    link.session = "s"
    assert link.up


def test_one_leaf_may_have_less_in_flight_than_what_many_share() -> None:
    leaf, proxy = Link(1, at("Worker/0/0")), Link(2, at("Proxy/0"))
    assert (leaf.in_flight_limit, Link(3, at("Agent/0")).in_flight_limit) == (1024, 1024)
    assert (proxy.in_flight_limit, Link(UP, at("Mgr")).in_flight_limit) == (4096, 4096)


def test_places_are_limited_and_a_known_child_keeps_its_own() -> None:
    children = registry(2)
    one, two = children.register(0.0, at("Worker/0/0")), children.register(0.0, at("Worker/0/1"))
    assert code_of(children, at("Worker/0/2")) == 5003
    assert children.register(1.0, at("Worker/0/1")) is two
    assert (len(children), children.free_places, children.by_id) == (2, 0, {one.id: one, two.id: two})
    one.opened(0.0, "s", Terms())
    children.lost(0.0, one)
    assert expire(children, 30.0) == [one, two]
    assert code_of(children, at("Worker/0/2")) == 0


@pytest.mark.parametrize(
    ("position", "code"),
    [
        (Position("Boss", "x", "x"), 4003),
        (Position("Mgr", "0"), 4003),
        (Position("Worker", "x", "x"), 4004),
        (Position("Worker", "All", "0"), 4004),
        (Position("Worker", "0", "x"), 4005),
        (Position("Proxy", "0", "anything"), 0),
    ],
)
def test_only_a_position_of_one_node_below_the_mgr_is_registered(position: Position, code: int) -> None:
    children = registry()
    assert code_of(children, position) == code
    assert len(children) == (0 if code else 1)


def test_bad_position_is_told_before_a_full_registry() -> None:
    assert code_of(registry(0), Position("Boss", "0")) == 4003
    assert code_of(registry(0), at("Worker/0/0")) == 5003


def test_ids_are_never_used_again() -> None:
    children = registry()
    first = children.register(0.0, at("Worker/0/0"))
    expire(children, INF)
    assert children.register(0.0, at("Worker/0/0")).id > first.id > UP


def test_new_incarnation_has_the_same_link_and_the_new_position() -> None:
    """The identity of an Agent is its role and serverRank; its processRank may be a start time."""
    children = registry()
    link = children.register(0.0, at("Agent/0/1000"))
    again = children.register(5.0, at("Agent/0/2000"))
    assert (again is link, link.position, link.epoch) == (True, at("Agent/0/2000"), 2)
    assert children.find(at("Agent/0")) is link
    assert children.find(at("Agent/1")) is None


def test_registration_without_a_stream_holds_its_place_and_is_renewed() -> None:
    children = registry()
    link = children.register(100.0, at("Worker/0/0"))
    assert children.next_deadline() == 110.0
    children.renew(105.0, link)
    assert children.next_deadline() == 115.0
    assert children.expired(114.9) == []
    assert expire(children, 115.0) == [link]
    assert (len(children), children.find(at("Worker/0/0")), children.next_deadline()) == (0, None, INF)


def test_repeated_registration_renews_nothing() -> None:
    children = registry()
    link = children.register(100.0, at("Worker/0/0"))
    assert children.register(105.0, at("Worker/0/0")) is link
    assert children.next_deadline() == 110.0
    link.opened(109.0, "s", Terms())
    children.lost(200.0, link)
    children.register(225.0, at("Worker/0/0"))
    children.register(234.0, at("Worker/0/0"))
    assert link.expires == 235.0, "the first one after a stream does"


def test_child_with_a_stream_stays() -> None:
    children = registry()
    link = children.register(0.0, at("Worker/0/0"))
    link.opened(0.0, "s", Terms())
    children.renew(1.0, link)
    children.register(2.0, at("Worker/0/0"))
    assert (link.up, link.expires, children.expired(1e12)) == (True, INF, [])


def test_grace_time_begins_when_the_stream_is_gone_and_a_registration_does_not_shorten_it() -> None:
    children = registry()
    link = children.register(0.0, at("Worker/0/0"))
    link.opened(0.0, "s", Terms())
    children.lost(100.0, link)
    assert (link.up, link.expires) == (False, 130.0)
    children.register(101.0, at("Worker/0/0"))
    assert link.expires == 130.0
    children.register(125.0, at("Worker/0/0"))
    assert link.expires == 130.0
    children.renew(125.0, link)
    assert link.expires == 135.0
