"""Invariants of a Router between two events, asserted after every event of a test or a fuzzer."""

from __future__ import annotations

from collections import Counter

from taskd_net.base.position import Role
from taskd_net.core.links import LINK_FREE_BYTES, Link
from taskd_net.core.router import Router
from taskd_net.core.routes import LinkId, Routes, _Pattern, _patterns
from taskd_net.core.schedule import Schedule


def check(router: Router) -> None:
    """Assert the invariants of a Router between two events.

    - The indexes of the routes agree with the table, and each route leads to a registered child.
    - The counts of a link are those of its queue and of its messages in flight, and never negative.
    - Only a link whose stream is up has messages in flight.
    - A child's quota covers the messages that wait on its stream, and their bytes.
    - A link's queue fits into the bytes that it has been granted, and the pool knows every grant and its sender. It has
      nothing else once no answer is awaited.
    - The inbox holds no more than its room, in messages and in bytes.
    - The schedule has every deadline: no wake-up is later than the deadline that it is for.
    - Each open send is stored under its token, and no decision of the last event is left.

    Raises:
        AssertionError: an invariant does not hold.
    """
    decisions = router._decisions
    schedule, children = decisions.schedule, router.children
    check_routes(router.routes)
    assert all(link_id in children.by_id for _, link_id in router.routes.items())
    for link in router._topology.links():
        _check_link(link, schedule)
    grants = [grant for link in router._topology.links() for grant in link.grants]
    backlog = router._forwarding.backlog
    assert backlog.size == sum(backlog.of.values()) >= sum(size for _, size in grants)
    assert set(backlog.of) >= {sender for sender, _ in grants}
    if not any(link.in_flight for link in router._topology.links()) and not router.gate.held:
        assert backlog.size == sum(size for _, size in grants)
    gate = router.gate
    assert 0 <= gate.held == len(gate.sizes) <= max(gate.room, 0)
    assert 0 <= gate.held_bytes == sum(gate.sizes) <= gate.room_bytes
    for part in (gate, router._sends, router._advertisements, router._admission, router._sweep, children):
        assert part.next_deadline() >= schedule.planned(part) >= schedule.wake
    assert all(token == send.token for token, send in router._sends.open.items())
    assert not decisions.ready, "an event's decisions were left behind"


def _check_link(link: Link, schedule: Schedule) -> None:
    assert link.queued_messages >= 0 and link.queued_bytes >= 0
    assert link.queued_bytes <= link.granted == LINK_FREE_BYTES + sum(size for _, size in link.grants)
    assert link.in_flight.count == sum(1 for _ in link.in_flight)
    assert link.up or not link.in_flight
    assert link.waiting >= 0 and link.waiting_bytes >= 0
    assert link.quota is None or link.quota.messages >= link.waiting
    assert link.next_deadline() >= schedule.planned(link)


def check_routes(routes: Routes) -> None:
    """Assert that every index agrees with the table."""
    expected: dict[_Pattern, dict[LinkId, int]] = {}
    for identity, link in routes._next_hop.items():
        assert identity in routes._claims[link]
        for pattern in _patterns(identity):
            links = expected.setdefault(pattern, {})
            links[link] = links.get(link, 0) + 1
    assert expected == routes._by_pattern
    workers = [identity for identity in routes._next_hop if identity.role == Role.WORKER]
    assert sum(len(routes.holders(process)) for process in routes._by_process) == len(workers)
    assert all(identity in routes.holders(identity.process_rank) for identity in workers)
    claimed = Counter(identity for claims in routes._claims.values() for identity in claims)
    older = (identity for identity, links in routes._replaced.items() for _ in links)
    assert claimed == Counter([*routes._next_hop, *older])
    assert routes.total == claimed.total()
    for identity, behind in routes._replaced.items():
        assert behind and routes._next_hop[identity] not in behind
        assert all(identity in routes._claims[link] for link in behind)
    for claims in routes._claims.values():
        assert claims and list(claims.values()) == sorted(claims.values()), "the oldest claims are first"
