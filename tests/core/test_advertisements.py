"""Advertisements: one request at a time, merged, bounded, in order, and an answer for everybody who waits."""

from __future__ import annotations

from typing import cast

import pytest

from taskd_net.base.limits import ANNOUNCE_POSITIONS
from taskd_net.base.position import Position
from taskd_net.core.advertisements import Advertisements, AnnouncementQueue, Waiter
from taskd_net.core.counters import Counters
from taskd_net.core.decisions import Decisions
from taskd_net.core.frame import Ack
from taskd_net.core.links import UP, Children, Link
from taskd_net.core.ready import Announce, Kind
from taskd_net.core.topology import Topology
from tests.core.driven import Action, Answer
from tests.core.routers import answers, at, everybody


class _Answers(list[tuple[int, Ack]]):
    """Puts answers among the other decisions, in their order."""

    def __init__(self, actions: list[Action]) -> None:
        self._actions = actions

    def append(self, answer: tuple[int, Ack]) -> None:
        self._actions.append(Answer(answer[0], answer[1]))  # type: ignore[arg-type]  # its name does


def below_a_parent() -> tuple[Advertisements, Link, list[Action]]:
    """A Proxy that has joined, the link to a child of it, and what it decides."""
    up = Link(UP, at("Mgr"))
    up.session = "up"
    topology = Topology(at("Proxy/0"), up, Children(10, 10.0, 30.0))
    decisions = Decisions(topology, Counters())
    actions: list[Action] = []
    decisions.ready.announcements = decisions.ready.notices = actions  # type: ignore[assignment]
    decisions.ready.completed = _Answers(actions)
    return Advertisements(topology, decisions), topology.register(0.0, at("Worker/0/0")), actions


def test_child_is_counted_as_announcing_until_it_is_answered() -> None:
    advertisements, link, actions = below_a_parent()
    ask = 1
    advertisements.pass_on(link, [link.position], ask, "a", 0.0)
    assert actions == [Announce(Kind.ADD, [at("Worker/0/0"), at("Proxy/0")])]
    assert link.announcing == 1
    advertisements.answered(5003, at("Mgr"))
    assert (answers(actions[1:]), link.announcing) == ([(5003, "Mgr/0")], 0)


def test_parent_that_goes_answers_nobody() -> None:
    advertisements, link, actions = below_a_parent()
    for uuid in "ab":
        advertisements.pass_on(link, [link.position], 1, uuid, 0.0)
    advertisements.went_down()
    assert answers([action for action in actions if isinstance(action, Answer)]) == [(4999, "Proxy/0")] * 2
    assert link.announcing == 0


def test_parent_is_told_who_is_gone_only_if_it_understands_that() -> None:
    advertisements, link, actions = below_a_parent()
    advertisements.gone([link.position])
    advertisements.everything(Kind.WITHDRAW, 1, "w")
    assert answers(actions) == [(6002, "Proxy/0")]
    advertisements.came_up(withdraws=True, quirks=None)
    advertisements.gone([link.position])
    advertisements.gone([])
    assert actions[1:] == [Announce(Kind.WITHDRAW, [at("Worker/0/0")])]


def without_a_parent(*until: float) -> tuple[Advertisements, Link, list[Action], list[int]]:
    """A Proxy that has no parent, with announcements of a child that can wait until then."""
    advertisements, link, actions = below_a_parent()
    topology = advertisements._topology
    assert topology.up is not None
    topology.up.session = None
    asked = list(range(len(until)))
    for ask, time in zip(asked, until, strict=True):
        advertisements.pass_on(link, [link.position], ask, str(ask), time)
    return advertisements, link, actions, asked


def test_announcement_that_can_wait_goes_with_all_that_is_said_to_the_next_parent() -> None:
    advertisements, link, actions, asked = without_a_parent(2.0, 3.0)
    assert (actions, link.announcing, advertisements.next_deadline()) == ([], 2, 2.0)
    up = advertisements._topology.up
    assert up is not None
    up.session = "up"
    advertisements.came_up(withdraws=True, quirks=None)
    assert (actions, advertisements.next_deadline()) == ([], float("inf"))
    advertisements.everything(Kind.COMPLETE, 1, "all")
    assert actions == [Announce(Kind.COMPLETE, [at("Worker/0/0"), at("Proxy/0")])]
    advertisements.answered(0, at("Mgr"))
    assert [cast("int", action.reply) for action in actions[1:] if isinstance(action, Answer)][:2] == asked
    assert (answers(actions[1:]), link.announcing) == ([(0, "Mgr/0")] * 3, 0)


def test_announcement_whose_time_is_up_is_answered_4999() -> None:
    advertisements, link, actions, asked = without_a_parent(2.0, 3.0)
    advertisements.give_up(1.9)
    assert actions == []
    advertisements.give_up(2.0)
    assert [cast("int", action.reply) for action in actions if isinstance(action, Answer)] == asked[:1]
    assert (answers(actions), link.announcing, advertisements.next_deadline()) == ([(4999, "Proxy/0")], 1, 3.0)


def test_node_that_closes_answers_those_who_wait() -> None:
    advertisements, link, actions, _ = without_a_parent(2.0, 3.0)
    advertisements.went_down()
    assert (answers(actions), link.announcing) == ([(4999, "Proxy/0")] * 2, 0)


def test_node_that_has_gone_meanwhile_is_not_announced() -> None:
    advertisements, link, actions, _ = without_a_parent(2.0)
    advertisements._topology.routes.drop(link.position, link.id)
    up = advertisements._topology.up
    assert up is not None
    up.session = "up"
    advertisements.came_up(withdraws=True, quirks=None)
    advertisements.everything(Kind.COMPLETE, 1, "all")
    assert actions == [Announce(Kind.COMPLETE, [at("Proxy/0")])]


ADD, COMPLETE, WITHDRAW = Kind.ADD, Kind.COMPLETE, Kind.WITHDRAW
A, B, C = everybody("Worker/0/0", "Worker/0/1", "Worker/0/2")


def many(count: int) -> list[Position]:
    """So many Workers."""
    return [Position.worker(0, i) for i in range(count)]


def said(announcer: AnnouncementQueue) -> list[tuple[Kind, list[Position]]]:
    """Every request until nothing is left, each answered before the next."""
    requests = []
    while (request := announcer.next()) is not None:
        requests.append(request)
        announcer.answered()
    return requests


def test_nothing_to_say() -> None:
    announcer = AnnouncementQueue()
    assert announcer.next() is None
    assert announcer.answered() == []
    assert announcer.clear() == []
    announcer.add(ADD, [])
    assert announcer.next() is None


def test_one_request_is_under_way_at_a_time() -> None:
    announcer, one, two = AnnouncementQueue(), Waiter("1", 1), Waiter("2", 1)
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
    announcer = AnnouncementQueue()
    for kind, positions in queued:
        announcer.add(kind, positions)
    assert said(announcer) == requests


def test_everybody_whose_announcement_was_merged_gets_the_answer() -> None:
    announcer, waiters = AnnouncementQueue(), [Waiter(str(i), 1) for i in range(3)]
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
    announcer, waiter = AnnouncementQueue(), Waiter("u", 1)
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
    announcer = AnnouncementQueue()
    announcer.add(WITHDRAW, many(ANNOUNCE_POSITIONS + 1))
    assert [kind for kind, _ in said(announcer)] == [WITHDRAW, WITHDRAW]


def test_waiter_gets_the_first_failure_once_everything_is_answered() -> None:
    waiter = Waiter("u", 1)
    for _ in range(3):
        waiter.asked()
    assert waiter.settle(0, at("Mgr")) is None
    assert waiter.settle(4999, at("Proxy/1")) is None
    assert waiter.settle(5003, at("Proxy/2")) == Ack("u", 4999, at("Proxy/1"))


def test_when_the_parent_is_gone_everything_is_dropped_and_each_request_accounted_for() -> None:
    announcer, waiter = AnnouncementQueue(), Waiter("u", 1)
    announcer.add(ADD, many(2 * ANNOUNCE_POSITIONS), waiter)
    announcer.add(WITHDRAW, [A])
    announcer.next()
    assert announcer.clear() == [waiter, waiter]
    assert announcer.next() is None
    announcer.add(ADD, [A])
    assert announcer.next() == (ADD, [A])
