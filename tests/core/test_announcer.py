"""What a node has to tell its parent: one request at a time, merged, bounded, in order."""

from __future__ import annotations

import pytest

from taskd_net.core.announcer import Announcer, Kind, Waiter
from taskd_net.core.frame import Ack
from taskd_net.limits import ANNOUNCE_POSITIONS
from taskd_net.position import Position
from tests.core.routers import Caller, at, everybody

ADD, COMPLETE, WITHDRAW = Kind.ADD, Kind.COMPLETE, Kind.WITHDRAW
A, B, C = everybody("Worker/0/0", "Worker/0/1", "Worker/0/2")


def many(count: int) -> list[Position]:
    """So many Workers."""
    return [Position.worker(0, i) for i in range(count)]


def said(announcer: Announcer) -> list[tuple[Kind, list[Position]]]:
    """Every request until nothing is left, each answered before the next."""
    requests = []
    while (request := announcer.next()) is not None:
        requests.append(request)
        announcer.answered()
    return requests


def test_nothing_to_say() -> None:
    announcer = Announcer()
    assert announcer.next() is None
    assert announcer.answered() == []
    assert announcer.clear() == []
    announcer.add(ADD, [])
    assert announcer.next() is None


def test_one_request_is_under_way_at_a_time() -> None:
    announcer, one, two = Announcer(), Waiter("1", Caller()), Waiter("2", Caller())
    announcer.add(ADD, [A], one)
    assert announcer.next() == (ADD, [A])
    announcer.add(ADD, [B], two)
    assert announcer.next() is None
    assert announcer.answered() == [one]
    assert announcer.next() == (ADD, [B])
    assert announcer.answered() == [two]
    assert announcer.next() is None


@pytest.mark.parametrize(
    ("queued", "requests"),
    [
        ([(ADD, [A]), (ADD, [B])], [(ADD, [A, B])]),
        ([(ADD, [A, C]), (ADD, [B, C])], [(ADD, [A, C, B])]),
        ([(ADD, [A]), (COMPLETE, [B])], [(COMPLETE, [A, B])]),
        ([(COMPLETE, [A]), (ADD, [B])], [(COMPLETE, [A]), (ADD, [B])]),
        ([(WITHDRAW, [A]), (WITHDRAW, [B])], [(WITHDRAW, [A, B])]),
        ([(ADD, [A]), (WITHDRAW, [A]), (ADD, [A])], [(ADD, [A]), (WITHDRAW, [A]), (ADD, [A])]),
        ([(WITHDRAW, [A]), (COMPLETE, [A])], [(WITHDRAW, [A]), (COMPLETE, [A])]),
        ([(ADD, many(1999)), (ADD, [A])], [(ADD, many(1999))]),
        (
            [(ADD, many(1999)), (ADD, many(2)), (ADD, many(3))],
            [(ADD, many(1999)), (ADD, many(3))],
        ),
    ],
)
def test_what_came_up_meanwhile_is_merged_and_keeps_its_order(
    queued: list[tuple[Kind, list[Position]]], requests: list[tuple[Kind, list[Position]]]
) -> None:
    """COMPLETE ends what it is merged with, a withdrawal stays by itself, and no request grows beyond its bound."""
    announcer = Announcer()
    for kind, positions in queued:
        announcer.add(kind, positions)
    assert said(announcer) == requests


def test_everybody_whose_announcement_was_merged_gets_the_answer() -> None:
    announcer, waiters = Announcer(), [Waiter(str(i), Caller()) for i in range(3)]
    announcer.add(ADD, [A])
    for waiter in waiters:
        announcer.add(ADD, [B], waiter)
    announcer.next()
    assert announcer.answered() == waiters


@pytest.mark.parametrize(
    ("count", "kinds"),
    [
        (1, [COMPLETE]),
        (ANNOUNCE_POSITIONS, [COMPLETE]),
        (ANNOUNCE_POSITIONS + 1, [ADD, COMPLETE]),
        (3 * ANNOUNCE_POSITIONS, [ADD, ADD, COMPLETE]),
    ],
)
def test_long_announcement_is_said_in_parts_and_complete_with_the_last(count: int, kinds: list[Kind]) -> None:
    announcer, waiter = Announcer(), Waiter("u", Caller())
    announcer.add(COMPLETE, many(count), waiter)
    positions = []
    for i, kind in enumerate(kinds, 1):
        request = announcer.next()
        assert request is not None
        assert request[0] is kind
        assert len(request[1]) <= ANNOUNCE_POSITIONS
        positions += request[1]
        assert announcer.answered() == [waiter]
        assert waiter.settle(0, at("Mgr")) == (Ack("u", 0, at("Mgr")) if i == len(kinds) else None)
    assert positions == many(count)


def test_long_withdrawal_is_a_withdrawal_in_every_part() -> None:
    announcer = Announcer()
    announcer.add(WITHDRAW, many(ANNOUNCE_POSITIONS + 1))
    assert [kind for kind, _ in said(announcer)] == [WITHDRAW, WITHDRAW]


def test_waiter_gets_the_first_failure_once_everything_is_answered() -> None:
    waiter = Waiter("u", Caller())
    for _ in range(3):
        waiter.asked()
    assert waiter.settle(0, at("Mgr")) is None
    assert waiter.settle(4999, at("Proxy/1")) is None
    assert waiter.settle(5003, at("Proxy/2")) == Ack("u", 4999, at("Proxy/1"))


def test_when_the_parent_is_gone_everything_is_dropped_and_each_request_accounted_for() -> None:
    announcer, waiter = Announcer(), Waiter("u", Caller())
    announcer.add(ADD, many(2 * ANNOUNCE_POSITIONS), waiter)
    announcer.add(WITHDRAW, [A])
    announcer.next()
    assert announcer.clear() == [waiter, waiter]
    assert announcer.next() is None
    announcer.add(ADD, [A])
    assert announcer.next() == (ADD, [A])
