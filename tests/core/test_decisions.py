"""Decisions: answers go to whoever awaits them, in the form that their link has for them."""

from __future__ import annotations

import pytest

from taskd_net.base.codes import Code, Refusal
from taskd_net.core.acks import Branch, FanOut, Origin, Send
from taskd_net.core.counters import Counters
from taskd_net.core.decisions import Decisions
from taskd_net.core.frame import Ack
from taskd_net.core.links import Children, Link, Terms
from taskd_net.core.ready import Answered, Lost
from taskd_net.core.topology import Topology
from tests.core.routers import at, frame, pending


def decisions_with_child(terms: Terms) -> tuple[Decisions, Link]:
    """A Mgr with one Worker, whose first stream stands on these terms."""
    topology = Topology(at("Mgr"), None, Children(10, 10.0, 30.0))
    link = topology.register(0.0, at("Worker/0/0"))
    link.opened(0.0, "stream 1", terms)
    return Decisions(topology, Counters()), link


def decisions() -> Decisions:
    """The decisions of a Mgr without children."""
    return Decisions(Topology(at("Mgr"), None, Children(10, 10.0, 30.0)), Counters())


def test_outcome_is_taken_once_and_carries_the_next_wake_up() -> None:
    made = decisions()
    made.answer(7, "u", Code.OK)
    made.schedule.look(made._topology.children, 4.0)
    first, second = made.take(), made.take()
    assert first.completed == [(7, Ack("u", 0, at("Mgr")))]
    assert second.completed == []
    assert first.wake == second.wake == 4.0, "the deadline is still there"


def test_answer_of_this_node_names_it_and_counts_nobody() -> None:
    made = decisions()
    made.answer(1, "u", Code.OK)
    made.answer(2, "v", Code.CLIENT_ERR, "why")
    assert made.take().completed == [
        (1, Ack("u", 0, at("Mgr"), "", None)),
        (2, Ack("v", Code.CLIENT_ERR, at("Mgr"), "why", 0)),
    ]


def test_broadcast_is_answered_with_its_last_branch() -> None:
    made = decisions()
    fan_out = FanOut("u", 1, at("Mgr"), True, 2, True)
    made.settle(Branch(fan_out, 1.0), Code.OK, at("Worker/0/0"))
    assert not made.take()
    made.settle(Branch(fan_out, 1.0), Code.OK, at("Worker/0/1"))
    assert made.take().completed == [(1, Ack("u", 0, at("Worker/0/0"), "", 2))]


def test_answer_to_a_send_is_left_to_its_end() -> None:
    made, told = decisions(), list[tuple[Send, Ack]]()
    send, ack = Send(frame("Worker/0/0"), 1, 1.0), Ack("u", 0, at("Worker/0/0"))
    made.ended = lambda ended, answer: told.append((ended, answer))
    made.give(send, ack)
    assert told == [(send, ack)]
    assert not made.take()


DELIVERED = Ack("u", 0, at("Mgr"), "", 1)


@pytest.mark.parametrize(
    ("terms", "ack", "in_full", "bare"),
    [
        (Terms(bare=True), DELIVERED, False, True),
        (Terms(bare=False), DELIVERED, False, False),
        (Terms(bare=True), DELIVERED, True, False),
        (Terms(bare=True), Ack("u", 5001, at("Mgr"), "full", 0), False, False),
        # The number of receivers has to be said, where the link can say it and it is not one.
        (Terms(bare=True, counts=True), DELIVERED, False, True),
        (Terms(bare=True, counts=True), Ack("u", 0, at("Mgr"), "", 2), False, False),
        (Terms(bare=True, counts=True), Ack("u", 0, at("Mgr"), "", None), False, False),
        (Terms(bare=True, counts=False), Ack("u", 0, at("Mgr"), "", 2), False, True),
    ],
)
def test_key_alone_says_a_delivery_where_that_is_all_there_is_to_say(
    terms: Terms, ack: Ack, in_full: bool, bare: bool
) -> None:
    made, link = decisions_with_child(terms)
    made.give(Origin(link.id, link.streams, 9, in_full), ack)
    writes = made.take().writes[link.id]
    assert (writes.accepted, writes.answers) == (([9], []) if bare else ([], [Answered(9, ack, in_full)]))


def test_answer_goes_nowhere_once_the_stream_has_ended() -> None:
    made, link = decisions_with_child(Terms())
    origin = Origin(link.id, link.streams, 9, False)
    assert made.asker(origin.link, origin.stream) is link
    made._topology.children.lost(1.0, link)
    made.give(origin, DELIVERED)
    assert not made.take()
    # Nor on the next stream, which does not know the message.
    link.opened(2.0, "stream 2", Terms())
    made.give(origin, DELIVERED)
    assert not made.take()
    assert made.asker(link.id, link.streams) is link
    made._topology.children.remove(link)
    assert made.asker(link.id, link.streams) is None


def test_answer_gives_back_the_quota_of_its_message() -> None:
    made, link = decisions_with_child(Terms())
    assert link.quota is not None
    link.count_waiting(1, 300)
    made.give(Origin(link.id, link.streams, 9, False, 300), DELIVERED)
    assert (link.waiting_bytes, link.quota.size) == (0, 0)


def test_refusal_is_answered_to_whoever_waits() -> None:
    made = decisions()
    made.refuse(frame("Worker/0/0", uuid="u"), 3, Refusal(Code.NO_ROUTE, "nobody knows"))
    assert made.take().completed == [(3, Ack("u", Code.NO_ROUTE, at("Mgr"), "nobody knows", 0))]
    assert made.statistics.lost == 0


def test_refused_message_that_nobody_waits_for_is_counted_and_logged() -> None:
    made, message = decisions(), frame("Worker/0/0", sync=False)
    made.refuse(message, None, Refusal(Code.NO_ROUTE, "nobody knows"))
    made.lose(message, Code.NETWORK_SEND_LOST, at("Proxy/0"), "the stream broke")
    assert made.take().notices == [
        Lost(message, Code.NO_ROUTE, at("Mgr"), "nobody knows"),
        Lost(message, Code.NETWORK_SEND_LOST, at("Proxy/0"), "the stream broke"),
    ]
    assert made.statistics.lost == 2


def test_unicast_is_settled_with_the_node_that_answered() -> None:
    made = decisions()
    made.settle(pending(), Code.RECV_BUF_BUSY, at("Worker/0/0"), "full")
    assert made.take().completed == [(1, Ack("u", Code.RECV_BUF_BUSY, at("Worker/0/0"), "full", 0))]
