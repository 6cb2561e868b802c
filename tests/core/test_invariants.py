"""Invariants of a Router: each state that breaks one is found."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from taskd_net.core.links import Link
from taskd_net.core.router import Router
from tests.core.invariants import check
from tests.core.routers import Caller, add_child, frame, joined


def _forget_a_route(router: Router, link: Link) -> None:
    del router.routes._claims[link.id][link.position]


def _lose_the_child(router: Router, link: Link) -> None:
    del router.children.by_id[link.id]


def _count_too_few(_: Router, link: Link) -> None:
    link.queued_messages = -1


def _count_in_flight_wrongly(_: Router, link: Link) -> None:
    link.in_flight.count += 1


def _end_the_stream(_: Router, link: Link) -> None:
    link.session = None


def _overfill_the_inbox(router: Router, _: Link) -> None:
    router.gate.held = router.gate.room + 1


def _miscount_the_bytes(router: Router, _: Link) -> None:
    router.gate.held_bytes += 1


def _forget_the_deadline(router: Router, _: Link) -> None:
    router._decisions.schedule.due(float("inf"))
    router._decisions.schedule.wake = float("inf")


def _rename_a_send(router: Router, _: Link) -> None:
    for send in router._sends.open.values():
        send.token = -1


def _leave_a_decision(router: Router, _: Link) -> None:
    router._decisions.ready.deliveries.append(frame("Proxy/0"))


@pytest.mark.parametrize(
    "damage",
    [
        _forget_a_route,
        _lose_the_child,
        _count_too_few,
        _count_in_flight_wrongly,
        _end_the_stream,
        _overfill_the_inbox,
        _miscount_the_bytes,
        _forget_the_deadline,
        _rename_a_send,
        _leave_a_decision,
    ],
)
def test_broken_invariant_is_found(damage: Callable[[Router, Link], None]) -> None:
    """Most tests of the core check the Router after every event; a check that sees nothing would be worth nothing."""
    node = joined("Proxy/0")
    link = add_child(node, "Worker/0/0")
    node.send(0.0, frame("Worker/0/0", "Proxy/0"), Caller(), 5.0)
    check(node.core)
    damage(node.core, link)
    with pytest.raises(AssertionError):
        check(node.core)
