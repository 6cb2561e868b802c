"""Routing by topology: the table of every combination of place, origin and destination."""

from __future__ import annotations

import pytest

from taskd_net.base.codes import Refusal
from taskd_net.base.position import Destination
from taskd_net.core.identity import Violation
from taskd_net.core.links import UP, Children, Link, Terms
from taskd_net.core.ready import Kind
from taskd_net.core.routes import LinkId
from taskd_net.core.topology import LOCAL, Plan, Topology
from tests.core.routers import STRANGER, at, everybody


def topology(position: str) -> Topology:
    """A node with a Worker (link 1) and a Proxy with two more Workers behind it (link 2)."""
    up = None if position == "Mgr" else Link(UP, at("Mgr"))
    node = Topology(at(position), up, Children(10, 10.0, 30.0))
    node.register(0.0, at("Worker/0/0"))
    node.learn(0.0, node.register(0.0, at("Proxy/1")), Kind.ADD, everybody("Worker/1/1", "Worker/1/2"))
    return node


def dst(text: str) -> Destination:
    """A destination, from its text."""
    return Destination.of(at(text))


@pytest.mark.parametrize(("position", "code"), [("Worker/All/1", 4004), ("Proxy/0,1", 4004), ("Worker/0/All", 4005)])
def test_only_one_node_at_a_time_is_given_a_place(position: str, code: int) -> None:
    node = Topology(at("Mgr"), None, Children(10, 10.0, 30.0))
    with pytest.raises(Refusal) as refused:
        node.register(0.0, at(position))
    assert refused.value.code == code
    assert not node.children.by_id


@pytest.mark.parametrize(
    ("node", "to", "came_from", "hop"),
    [
        # rule 1: this node
        ("Mgr", "Mgr", LOCAL, "here"),
        ("Proxy/0", "Proxy/0", UP, "here"),
        ("Proxy/0", "Proxy/0", 1, "here"),
        # rule 2: down
        ("Mgr", "Worker/0/0", LOCAL, 1),
        ("Mgr", "Worker/1/1", 1, 2),
        ("Proxy/0", "Worker/1/2", UP, 2),
        ("Proxy/0", "Proxy/1", STRANGER, 2),
        # rule 3: up, from below and from here only
        ("Proxy/0", "Mgr", 1, UP),
        ("Proxy/0", "Worker/9/9", LOCAL, UP),
        ("Proxy/0", "Worker/9/9", STRANGER, UP),
        ("Proxy/0", "Agent/0", 2, UP),
        # rule 4: nowhere
        ("Proxy/0", "Worker/9/9", UP, None),
        ("Proxy/0", "Mgr", UP, None),
        ("Mgr", "Worker/9/9", LOCAL, None),
        ("Mgr", "Worker/9/9", 1, None),
        # and never back
        ("Mgr", "Worker/1/1", 2, None),
        ("Proxy/0", "Worker/1/1", 2, None),
        ("Proxy/0", "Worker/0/0", 1, None),
    ],
)
def test_next_hop(node: str, to: str, came_from: LinkId, hop: LinkId | str | None) -> None:
    here = topology(node)
    if hop is None:
        with pytest.raises(Refusal) as refused:
            here.next_hop(dst(to), came_from)
        assert refused.value.code == 5002
    else:
        link = here.next_hop(dst(to), came_from)
        assert ("here" if link is None else link.id) == hop


def plan_of(node: str, sender: str, to: str, came_from: LinkId) -> tuple[list[LinkId], bool, str | None] | int:
    """The plan in short, or the code of its refusal."""
    try:
        plan: Plan = topology(node).plan(at(sender), dst(to), came_from)
    except Refusal as refusal:
        return refusal.code
    missing = None if plan.missing is None else str(plan.missing)
    return [link.id for link in plan.links], plan.here, missing


@pytest.mark.parametrize(
    ("sender", "to", "came_from", "expected"),
    [
        ("Mgr", "Worker/All/All", LOCAL, ([1, 2], False, None)),
        ("Mgr", "Proxy/All", LOCAL, ([2], False, None)),
        ("Mgr", "Mgr/All", LOCAL, 5002),
        ("Mgr", "Agent/All", LOCAL, 5002),
        ("Worker/0/0", "Mgr/All", 1, ([], True, None)),
        ("Worker/0/0", "Worker/All/All", 1, ([2], False, None)),
        ("Worker/1/1", "Worker/All/All", 2, ([1], False, None)),
        ("Worker/1/1", "Worker/1/All", 2, ([], False, None)),
        ("Worker/0/0", "Worker/0/All", 1, 5002),
        ("Mgr", "Worker/All/0,1", LOCAL, ([1, 2], False, None)),
        ("Mgr", "Worker/1/1,2", LOCAL, ([2], False, None)),
        ("Worker/1/1", "Worker/1/1,2", 2, ([], False, None)),
        ("Mgr", "Worker/All/0,7", LOCAL, ([1], False, "Worker/All/7")),
        ("Mgr", "Worker/8,9/All", LOCAL, ([], False, "Worker/8/All")),
        ("Worker/9/9", "Worker/All/0,9", STRANGER, ([1], False, None)),
        ("Mgr", "Worker/0/1,2", LOCAL, ([], False, "Worker/All/1")),
    ],
)
def test_plan_of_the_root(
    sender: str, to: str, came_from: LinkId, expected: tuple[list[LinkId], bool, str | None] | int
) -> None:
    """It knows everybody: so it alone says that somebody is missing, or that nobody is meant."""
    assert plan_of("Mgr", sender, to, came_from) == expected


@pytest.mark.parametrize(
    ("sender", "to", "came_from", "expected"),
    [
        ("Proxy/0", "Worker/All/All", LOCAL, ([1, 2, UP], False, None)),
        ("Proxy/0", "Agent/All", LOCAL, ([UP], False, None)),
        ("Worker/0/0", "Worker/All/All", 1, ([2, UP], False, None)),
        ("Worker/1/1", "Proxy/All", 2, ([UP], True, None)),
        ("Mgr", "Worker/All/All", UP, ([1, 2], False, None)),
        ("Mgr", "Proxy/All", UP, ([2], True, None)),
        ("Mgr", "Agent/All", UP, 5002),
        ("Mgr", "Worker/All/0,7", UP, ([1], False, None)),
        ("Worker/9/9", "Worker/All/7,8", UP, 5002),
        ("Proxy/0", "Worker/1/1,2", LOCAL, ([2], False, None)),
        ("Proxy/0", "Proxy/0,1", LOCAL, ([2], False, None)),
        ("Worker/0/0", "Proxy/0,1", 1, ([2], True, None)),
        ("Worker/1/1", "Worker/1/1,2", 2, ([], False, None)),
        ("Proxy/0", "Worker/1/1,7", LOCAL, ([2, UP], False, None)),
        ("Proxy/0", "Worker/0,1/All", LOCAL, ([1, 2, UP], False, None)),
        ("Proxy/0", "Worker/All/1,2", LOCAL, ([2, UP], False, None)),
        ("Proxy/0", "Proxy/1,2", LOCAL, ([2, UP], False, None)),
    ],
)
def test_plan_of_a_node_on_the_way(
    sender: str, to: str, came_from: LinkId, expected: tuple[list[LinkId], bool, str | None] | int
) -> None:
    """Up only from below or from here, and not at all where every rank that can be meant is known to be below."""
    assert plan_of("Proxy/0", sender, to, came_from) == expected


def test_links_are_the_children_and_the_parent() -> None:
    root, proxy = topology("Mgr"), topology("Proxy/0")
    assert [link.id for link in root.links()] == [1, 2]
    assert [link.id for link in proxy.links()] == [1, 2, UP]
    assert root.link(UP) is None
    assert proxy.link(UP) is proxy.up
    assert proxy.link(2) is proxy.children.by_id[2]
    assert proxy.link(3) is None


def test_node_does_not_register_at_itself() -> None:
    with pytest.raises(Refusal) as refused:
        topology("Proxy/0").register(0.0, at("Proxy/0/newer"))
    assert refused.value.code == 4999


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize(
    ("position", "code"),
    [("Boss/0", 4003), ("Agent/All", 4004), ("Worker/0/All", 4005)],
)
def test_announcement_that_names_no_node_is_taken_in_whole_or_not_at_all(kind: Kind, position: str, code: int) -> None:
    node = topology("Proxy/0")
    before = dict(node.routes.items())
    with pytest.raises(Refusal) as refused:
        node.learn(0.0, node.link(2), kind, everybody("Worker/1/1", "Worker/5/5", position))
    assert refused.value.code == code
    assert dict(node.routes.items()) == before


@pytest.mark.parametrize("position", ["Proxy/0", "Mgr"])
def test_what_cannot_lie_below_is_passed_over_and_costs_the_others_nothing(position: str) -> None:
    node = topology("Proxy/0")
    two = node.link(2)
    assert two is not None
    learnt = node.learn(0.0, two, Kind.ADD, everybody(position, "Worker/5/5"))
    assert learnt == ([], everybody("Worker/5/5"), everybody(position), [])
    assert at(position) not in node.routes
    with pytest.raises(Violation) as refused:
        node.learn(0.0, two, Kind.ADD, everybody(position))
    assert refused.value.code == 4999


def test_announcing_needs_a_registration() -> None:
    with pytest.raises(Refusal) as refused:
        topology("Mgr").learn(0.0, None, Kind.ADD, everybody("Worker/5/5"))
    assert refused.value.code == 4999


def test_what_each_kind_of_announcement_changes() -> None:
    node = topology("Proxy/0")
    two = node.link(2)
    assert two is not None
    added = everybody("Worker/1/3", "Agent/1/start-time")
    assert node.learn(0.0, two, Kind.ADD, added) == ([], everybody("Worker/1/3", "Agent/1"), [], [])
    gone, new, *_ = node.learn(0.0, two, Kind.WITHDRAW, everybody("Worker/1/3", "Worker/0/0", "Worker/5/5"))
    assert (gone, new) == (everybody("Worker/1/3"), [])
    assert node.register(1.0, at("Proxy/1")) is two
    gone, new, *_ = node.learn(1.0, two, Kind.COMPLETE, everybody("Worker/1/2", "Worker/1/4"))
    assert (gone, new) == ([], everybody("Worker/1/2", "Worker/1/4"))
    assert sorted(node.drop(two, node.stale(two, 9))) == sorted(everybody("Worker/1/1", "Agent/1"))
    assert not node.has_stale(two)
    assert node.routes.behind(2) == set(everybody("Proxy/1", "Worker/1/2", "Worker/1/4"))
    assert node.routes.behind(1) == {at("Worker/0/0")}


def test_connected_node_that_a_child_of_the_same_host_announces_is_diverted_once() -> None:
    node = topology("Mgr")
    two, connected = node.link(2), node.register(0.0, at("Worker/7/7"))
    assert two is not None
    assert node.learn(0.0, two, Kind.ADD, everybody("Worker/7/7")).diverted == [], "not connected yet"
    node.learn(0.0, connected, Kind.ADD, everybody("Worker/7/7"))
    connected.opened(0.0, "session", Terms())
    assert node.learn(0.0, two, Kind.ADD, everybody("Worker/7/7")).diverted == everybody("Worker/7/7")
    assert node.learn(0.0, two, Kind.ADD, everybody("Worker/7/7")).diverted == [], "its messages go there already"


def test_announcement_in_several_requests_keeps_what_the_earlier_ones_said() -> None:
    node = topology("Mgr")
    two = node.register(1.0, at("Proxy/1"))
    node.learn(1.0, two, Kind.ADD, everybody("Worker/1/1"))
    node.learn(1.0, two, Kind.COMPLETE, everybody("Worker/1/5"))
    assert node.stale(two, 9) == everybody("Worker/1/2")
    assert at("Worker/1/1") in node.routes


def test_children_that_are_forgotten_take_what_is_behind_them_along() -> None:
    node = topology("Mgr")
    assert node.expire(9.9) == []
    (one, behind_one), (two, behind_two) = node.expire(10.0)
    assert one is not None and two is not None
    assert (one.id, behind_one) == (1, everybody("Worker/0/0"))
    assert (two.id, sorted(behind_two)) == (2, sorted(everybody("Proxy/1", "Worker/1/1", "Worker/1/2")))
    assert len(node.routes) == 0
