"""The routing table against the simplest thing that could be right: for each node the list of links that claim it."""

from __future__ import annotations

import math
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskd_net.base.position import Destination, Position
from taskd_net.core.routes import LinkId, Routes, describe_missing
from tests.core.invariants import check_routes
from tests.core.routers import at, everybody

NODES = [
    *(Position.worker(server, rank) for server in range(2) for rank in range(3)),
    *(Position.proxy(rank) for rank in range(2)),
    Position.agent(0),
]
LINKS = [1, 2, 3]
EPOCHS = st.integers(1, 3)

Model: TypeAlias = dict[Position, list[tuple[LinkId, int]]]
"""For each node the links that claim to lead to it, each with the epoch of its claim; the newest is last."""

Event: TypeAlias = tuple[str, Position, LinkId, int]
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["learn", "learn", "learn", "behind", "yield", "drop", "drop_link", "drop_older"]),
        st.sampled_from(NODES),
        st.sampled_from(LINKS),
        EPOCHS,
    ),
    max_size=40,
).map(lambda events: sorted(events, key=lambda event: event[3]))
"""With epochs that never decrease."""


def forget(model: Model, link: LinkId, node: Position) -> bool:
    """Take a claim out of the model. Returns whether nobody leads to the node by that."""
    claims = model.get(node, [])
    left = [claim for claim in claims if claim[0] != link]
    if left:
        model[node] = left
    elif claims:
        del model[node]
    return bool(claims) and not left


def learn(routes: Routes, model: Model, node: Position, link: LinkId, epoch: int) -> None:
    """A link claims a node, in both."""
    routes.learn(node, link, epoch)
    model[node] = [claim for claim in model.get(node, []) if claim[0] != link] + [(link, epoch)]


def carry_out(routes: Routes, model: Model, event: Event) -> None:
    """One event, in both; they have to agree on who is gone by it."""
    what, node, link, epoch = event
    match what:
        case "learn":
            learn(routes, model, node, link, epoch)
        case "behind":
            routes.learn_behind(node, link, epoch)
            claims = model.get(node, [])
            others = [claim for claim in claims if claim[0] != link]
            newest = claims[-1:] == [claim for claim in claims if claim[0] == link] != []
            model[node] = [*others, (link, epoch)] if newest else [(link, epoch), *others]
        case "yield":
            routes.yield_to_others(node, link)
            claims = model.get(node, [])
            if claims and claims[-1][0] == link:
                model[node] = [claims[-1], *claims[:-1]]
        case "drop":
            assert routes.drop(node, link) == forget(model, link, node)
        case "drop_link":
            assert drop_oldest(routes, link) == sorted(node for node in list(model) if forget(model, link, node))
        case _:
            old = [node for node, claims in model.items() if any(by == link and at < epoch for by, at in claims)]
            assert drop_oldest(routes, link, epoch) == sorted(node for node in old if forget(model, link, node))


def drop_oldest(routes: Routes, link: LinkId, before: float = math.inf) -> list[Position]:
    """Withdraw the claims of a link that are older, two at a time. Returns the nodes without a route."""
    gone: list[Position] = []
    while oldest := routes.oldest(link, 2, before):
        gone += [node for node in oldest if routes.drop(node, link)]
    return sorted(gone)


@given(EVENTS)
def test_newest_claim_that_has_not_been_taken_back_is_the_route(events: list[Event]) -> None:
    routes, model = Routes(), Model()
    for event in events:
        carry_out(routes, model, event)
        check_routes(routes)
        expected = {node: claims[-1][0] for node, claims in model.items()}
        assert dict(routes.items()) == expected
        assert (len(routes), set(routes)) == (len(expected), set(expected))
        for node in NODES:
            assert (node in routes, routes.next_hop(node)) == (node in expected, expected.get(node))
            claimed = {link for link in LINKS if routes.claims(node, link)}
            assert claimed == {link for link, _ in model.get(node, ())}
        for link in LINKS:
            assert routes.behind(link) == {node for node, by in expected.items() if by == link}


RANKS = st.one_of(st.just("All"), st.lists(st.sampled_from("0123"), min_size=1, max_size=3).map(",".join))


@given(EVENTS, st.sampled_from(["Worker", "Proxy", "Agent", "Mgr"]), RANKS, RANKS)
def test_links_and_receivers_of_a_broadcast(events: list[Event], role: str, servers: str, processes: str) -> None:
    """As if every node were asked, which is what the indexes save."""
    routes, model = Routes(), Model()
    for event in events:
        carry_out(routes, model, event)
    dst = Destination.of(Position(role, servers, processes))
    meant = {node: claims[-1][0] for node, claims in model.items() if dst.matches(node)}
    assert routes.links_for(dst) == set(meant.values())
    assert routes.receivers(dst) == len(meant)


@pytest.mark.parametrize(
    ("to", "missing"),
    [
        ("Worker/All/0,1", None),
        ("Worker/All/0,9", "Worker/All/9"),
        ("Worker/0,9/All", "Worker/9/All"),
        ("Worker/0,9/0,8", "Worker/9/All"),
        ("Worker/0,1/0,8,9", "Worker/All/8"),
        ("Worker/7/0", None),  # present, though the table does not hold it
        ("Worker/0,7/0,7", None),
        ("Worker/All/All", None),
        ("Proxy/0,1", "Proxy/1"),
        ("Proxy/All", None),
        ("Agent/0,7", "Agent/0"),
    ],
)
def test_rank_that_a_list_names_and_nobody_has(to: str, missing: str | None) -> None:
    routes = Routes()
    for node in everybody("Worker/0/0", "Worker/1/1", "Proxy/0"):
        routes.learn(node, 1, 1)
    present = everybody("Worker/7/7", "Mgr") + ([at("Worker/7/0")] if to == "Worker/7/0" else [])
    assert routes.missing(Destination.of(at(to)), present) == (None if missing is None else at(missing))


def test_route_through_another_link_replaces_the_old_one_and_comes_back_when_it_is_taken_back() -> None:
    routes, node = Routes(), at("Worker/0/0")
    for link in (1, 2, 3):
        routes.learn(node, link, 1)
    assert routes.next_hop(node) == 3
    assert not routes.drop(node, 2)
    assert routes.next_hop(node) == 3
    assert not routes.drop(node, 3)
    assert routes.next_hop(node) == 1
    assert routes.drop(node, 1)
    assert node not in routes


def test_claim_of_an_earlier_life_is_taken_back_even_where_it_is_not_the_route() -> None:
    routes, node = Routes(), at("Worker/0/0")
    routes.learn(node, 1, 1)
    routes.learn(node, 2, 5)
    assert drop_oldest(routes, 1, 2) == []
    assert drop_oldest(routes, 2) == [node]


def test_check_sees_a_broken_table() -> None:
    routes = Routes()
    routes.learn(at("Worker/0/0"), 1, 1)
    routes._claims.clear()
    with pytest.raises((AssertionError, KeyError)):
        check_routes(routes)


def test_missing_rank_in_words() -> None:
    words = {to: describe_missing(at(to)) for to in ("Worker/All/9", "Worker/9/All", "Proxy/1")}
    assert list(words.values()) == [
        "there is no Worker with processRank 9", "there is no Worker with serverRank 9",
        "there is no Proxy with serverRank 1",
    ]  # fmt: skip


def test_rank_is_missing_when_it_lives_on_a_server_that_is_not_listed() -> None:
    routes = Routes()
    routes.learn(Position.worker(0, 0), 1, 1)
    routes.learn(Position.worker(1, 5), 2, 1)
    nobody = Position.mgr()
    both = Destination.of(Position("Worker", "0", "0,5"))
    assert routes.missing(both, (nobody, nobody)) == at("Worker/All/5")
    assert routes.missing(both, (nobody, Position.worker(0, 5))) is None
    assert routes.missing(Destination.of(Position("Worker", "All", "0,5")), (nobody, nobody)) is None


def test_claim_behind_nobody_is_the_route() -> None:
    routes, node = Routes(), at("Worker/0/0")
    for _ in range(2):
        routes.learn_behind(node, 2, 1)
    check_routes(routes)
    assert routes.next_hop(node) == 2
    assert routes.drop(node, 2)


def test_claim_behind_another_is_made_once_however_often_it_is_said() -> None:
    routes, node = Routes(), at("Worker/0/0")
    routes.learn(node, 1, 1)
    for _ in range(2):
        routes.learn_behind(node, 2, 1)
    check_routes(routes)
    assert not routes.drop(node, 1)
    assert routes.next_hop(node) == 2
    assert drop_oldest(routes, 2) == [node]
