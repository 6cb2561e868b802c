"""Withdrawals of many routes by slices, and announcements by slices: in the end the tables are the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from taskd_net.base.position import Position
from taskd_net.core.links import Link
from taskd_net.core.ready import Announce, Forgot, Kind
from tests.core.driven import Action, Driven
from tests.core.routers import Caller, add_child, answered, at, everybody, joined, router

SLICE = 3
"""Small slices."""


def workers(count: int, server: int = 0) -> list[Position]:
    """So many Workers."""
    return [Position.worker(server, rank) for rank in range(count)]


def announce(node: Driven, link: Link, kind: Kind, *positions: Position, continues: bool = False) -> list[Action]:
    """Announce, as one slice."""
    link_id, token = link.id, node.name(Caller())
    return node.read(node.core.announced(1.0, link_id, kind, positions, token, "a", 0.0, continues))


def settle(node: Driven, now: float = 1.0) -> list[Action]:
    """Tick, until nothing is due."""
    actions: list[Action] = []
    while node.next_deadline() <= now:
        actions += node.tick(now)
    return actions


def test_snapshot_withdraws_the_nodes_of_an_earlier_life_by_slices() -> None:
    node = joined("Proxy/9", routes_slice=SLICE)
    proxy = add_child(node, "Proxy/0")
    announce(node, proxy, Kind.ADD, *workers(8))
    node.announce_answered("up", 0, at("Mgr"))
    assert node.register(1.0, at("Proxy/0")) is proxy
    actions = announce(node, proxy, Kind.COMPLETE, *workers(1))
    assert [action.kind for action in actions if isinstance(action, Announce)] == [Kind.WITHDRAW]
    assert len(node.routes) == 1 + 8 - SLICE, "one slice went at once"
    assert node.next_deadline() == 1.0
    node.tick(1.0)
    assert len(node.routes) == 1 + 8 - 2 * SLICE
    settle(node)
    assert set(node.routes) == {at("Proxy/0"), *workers(1)}
    assert node.next_deadline() > 1.0


def test_two_children_share_a_slice_and_one_that_is_forgotten_is_left_out() -> None:
    node = router("Mgr", routes_slice=SLICE)
    links = [add_child(node, f"Proxy/{server}") for server in range(3)]
    for server, link in enumerate(links):
        announce(node, link, Kind.ADD, *workers(9, server))
    for server, link in enumerate(links):
        node.register(1.0, at(f"Proxy/{server}"))
        announce(node, link, Kind.COMPLETE, at(f"Proxy/{server}"))
    node.link_down(1.0, links[1], links[1].session, ())
    node.forget(at("Proxy/1"))
    settle(node)
    assert set(node.routes) == {at("Proxy/0"), at("Proxy/2")}


def test_child_that_is_forgotten_goes_by_slices_and_comes_back_in_between() -> None:
    node = router("Mgr", routes_slice=SLICE)
    proxy = add_child(node, "Proxy/0")
    announce(node, proxy, Kind.ADD, *workers(7))
    node.link_down(2.0, proxy, "Proxy/0", ())
    assert node.tick(31.9) == []
    assert node.tick(32.0) == []
    assert (len(node.routes), node.next_deadline()) == (8 - SLICE, 32.0)
    assert node.register(32.0, at("Proxy/0")) is proxy
    node.link_up(32.0, proxy, "again")
    assert settle(node, 32.0) == []
    node.link_down(40.0, proxy, "again", ())
    (forgot,) = settle(node, 70.0)
    assert isinstance(forgot, Forgot)
    assert (forgot.link, forgot.routes, len(node.routes)) == (proxy.id, 6, 0)


def test_slices_of_all_children_together_are_bounded() -> None:
    node = router("Mgr", routes_slice=SLICE)
    for server in range(4):
        link = add_child(node, f"Proxy/{server}")
        announce(node, link, Kind.ADD, *workers(1, server))
        node.link_down(2.0, link, link.session, ())
    node.tick(32.0)
    assert len(node.routes) == 8 - SLICE
    settle(node, 32.0)
    assert len(node.routes) == len(node.children) == 0


def test_further_slices_are_not_counted_as_announcements() -> None:
    node = router("Mgr", routes_slice=SLICE)
    proxy = add_child(node, "Proxy/0")
    assert proxy.announcements is not None
    for _ in range(5000):
        assert proxy.announcements.spend(1.0)
    assert answered(announce(node, proxy, Kind.ADD, *workers(1))) == [5001]
    assert answered(announce(node, proxy, Kind.ADD, *workers(1), continues=True)) == [0]


def test_further_slice_of_nothing_that_may_lie_below_is_reported_and_keeps_the_rest() -> None:
    node = joined("Proxy/9", routes_slice=SLICE)
    proxy = add_child(node, "Proxy/0")
    assert answered(announce(node, proxy, Kind.ADD, at("Proxy/9"))) == [4999]
    announce(node, proxy, Kind.ADD, *workers(3))
    actions = announce(node, proxy, Kind.COMPLETE, at("Proxy/9"), continues=True)
    assert answered(actions) == [0]
    assert node.statistics.violations == 2
    assert set(node.routes) == {at("Proxy/0"), *workers(3)}


def test_spellings_go_with_the_claims() -> None:
    """A child that withdraws ever new names must not fill the memory with them."""
    node = router("Mgr", routes_slice=SLICE)
    proxy = add_child(node, "Proxy/0")
    announce(node, proxy, Kind.WITHDRAW, at("Proxy/1/x"), at("Proxy/2/x"))
    assert proxy.spellings == {}
    announce(node, proxy, Kind.ADD, at("Proxy/1/x"), at("Proxy/2/x"))
    assert set(proxy.spellings.values()) == {at("Proxy/1/x"), at("Proxy/2/x")}
    announce(node, proxy, Kind.WITHDRAW, at("Proxy/1/x"))
    node.register(1.0, at("Proxy/0"))
    announce(node, proxy, Kind.COMPLETE, at("Proxy/0"))
    assert proxy.spellings == {}


NODES = [*workers(4), *everybody("Worker/1/9", "Proxy/1", "Proxy/5", "Agent/1/start", "Proxy/9")]
"""`Proxy/9` is the node itself, which cannot lie below it."""

Said: TypeAlias = tuple[int, bool, Kind, list[Position]]
"""Of which child, whether it registers before, the kind of its announcement and its path."""

SAID = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.booleans(),
        st.sampled_from(list(Kind)),
        st.lists(st.sampled_from(NODES), min_size=2, max_size=9, unique=True),
    ),
    max_size=8,
)


class Above:
    """A node with two children, and the nodes that its parent knows below it."""

    def __init__(self) -> None:
        self.node = joined("Proxy/9", routes_slice=SLICE)
        self.children = [add_child(self.node, place) for place in ("Proxy/0", "Proxy/1")]
        self.known: set[Position] = set()

    def take(self, actions: Sequence[Action]) -> None:
        """Answer all announcements to the parent."""
        for action in actions:
            if isinstance(action, Announce):
                if action.kind is Kind.WITHDRAW:
                    self.known -= set(action.positions)
                else:
                    self.known |= set(action.positions)
                self.take(self.node.announce_answered("up", 0, at("Mgr")))

    def hear(self, said: Said, size: int) -> None:
        """A child announces, by slices of this size."""
        number, registers, kind, path = said
        link = self.children[number]
        if registers:
            self.node.register(1.0, link.position)
        for start in range(0, len(path), size):
            last = start + size >= len(path)
            one = kind if last or kind is not Kind.COMPLETE else Kind.ADD
            part = path[start : start + size]
            self.take(announce(self.node, link, one, *part, continues=start > 0))
        self.take(settle(self.node))

    def state(self) -> object:
        """All that the announcements have left."""
        routes = self.node.routes
        replaced = {node: list(links) for node, links in routes._replaced.items()}
        spelled = [link.spellings for link in self.children]
        return dict(routes.items()), routes._claims, replaced, spelled, self.known


@given(SAID, st.integers(2, 4))
def test_announcements_by_slices_leave_the_same_as_in_one_go(said: list[Said], size: int) -> None:
    whole, sliced = Above(), Above()
    for one in said:
        whole.hear(one, len(NODES))
        sliced.hear(one, size)
        assert whole.state() == sliced.state()


@given(SAID, st.integers(2, 4), st.integers(0, 3))
def test_announcement_that_ends_midway_leaves_a_table_that_a_snapshot_repairs(
    said: list[Said], size: int, left: int
) -> None:
    node = Above()
    for one in said:
        node.hear(one, size)
    link = node.children[0]
    for start in range(0, left * size, size):
        node.take(announce(node.node, link, Kind.ADD, *workers(16)[start : start + size]))
    node.node.link_down(2.0, link, "Proxy/0", ())
    node.node.register(3.0, at("Proxy/0"))
    node.node.link_up(3.0, link, "again")
    node.hear((0, False, Kind.COMPLETE, everybody("Worker/7/7", "Proxy/0")), size)
    assert set(node.node.routes._claims[link.id]) == set(everybody("Worker/7/7", "Proxy/0"))
