"""Delivery into the inbox, the line before it, and resends (docs/contract.md, section 5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from taskd_net.base.codes import Code
from taskd_net.core.frame import Ack, Frame
from taskd_net.core.links import UP
from taskd_net.core.ready import Lost
from tests.core.driven import Action, Answer, Deliver, Driven
from tests.core.routers import STRANGER, Caller, add_child, answers, at, frame, joined, router

INF = float("inf")


# ---- room, and the line before the inbox


def test_sync_message_waits_10_ms_for_room_and_is_then_5001() -> None:
    worker, ask = joined("Worker/0/0", inbox=1), Caller()
    worker.frame_arrived(5.0, UP, frame("Worker/0/0", uuid="first"), ask)
    assert worker.frame_arrived(5.0, UP, frame("Worker/0/0"), ask) == []
    assert worker.next_deadline() == 5.0 + 0.010
    assert worker.tick(5.0 + 0.009) == []
    assert worker.tick(5.0 + 0.010) == [
        Answer(ask, Ack("u", Code.RECV_BUF_BUSY, at("Worker/0/0"), "the inbox is full", 0))
    ]
    assert (worker.statistics.delivered, worker.next_deadline()) == (1, INF)
    # "nothing is lost: the sender still has the message", and may send it again
    again = frame("Worker/0/0")
    assert worker.inbox_taken(6.0) == []
    assert worker.frame_arrived(6.0, UP, again, ask)[0] == Deliver(again)


def test_sync_message_does_not_wait_longer_than_its_sender() -> None:
    worker = joined("Worker/0/0", inbox=1)
    worker.frame_arrived(5.0, UP, frame("Worker/0/0", uuid="first"), Caller())
    worker.frame_arrived(5.0, UP, frame("Worker/0/0"), Caller(), 0.002)
    assert worker.next_deadline() == 5.0 + 0.95 * 0.002
    assert answers(worker.tick(worker.next_deadline())) == [(Code.RECV_BUF_BUSY, "Worker/0/0")]


def test_room_that_becomes_free_is_given_in_the_order_of_arrival() -> None:
    worker, ask = joined("Worker/0/0", inbox=1), Caller()
    frames = [frame("Worker/0/0", uuid=str(i), sync=i % 2 == 0) for i in range(5)]
    worker.frame_arrived(0.0, UP, frames[0], ask)
    for message in frames[1:]:
        assert worker.frame_arrived(0.0, UP, message, ask if message.sync else None) == []
    for message in frames[1:]:
        actions = worker.inbox_taken(0.005)
        assert actions[0] == Deliver(message)
        assert answers(actions[1:]) == ([(Code.OK, "Worker/0/0")] if message.sync else [])
    assert worker.inbox_taken(0.005) == []


def test_message_does_not_overtake_those_in_line_when_there_is_room_again() -> None:
    worker = joined("Worker/0/0", inbox=2)
    for i in range(4):
        worker.frame_arrived(0.0, UP, frame("Worker/0/0", uuid=str(i), sync=False), None)
    assert [action.frame.uuid for action in worker.inbox_taken(0.0) if isinstance(action, Deliver)] == ["2"]
    worker.frame_arrived(0.0, UP, frame("Worker/0/0", uuid="4", sync=False), None)
    taken = worker.inbox_taken(0.0, 2)
    assert [action.frame.uuid for action in taken if isinstance(action, Deliver)] == ["3", "4"]


def test_async_message_is_never_dropped_because_the_inbox_is_full() -> None:
    worker = joined("Worker/0/0", inbox=1)
    messages = [frame("Worker/0/0", uuid=str(i), sync=False) for i in range(100)]
    for message in messages:
        worker.frame_arrived(0.0, UP, message, None)
    assert worker.next_deadline() == INF
    assert worker.tick(1e9) == []
    taken = [worker.inbox_taken(1e9) for _ in messages]
    assert taken == [[Deliver(message)] for message in messages[1:]] + [[]]
    assert worker.statistics.lost == 0


@pytest.mark.parametrize("bounds", [{"link_messages": 2}, {"link_bytes": 29}])
def test_line_before_the_inbox_has_the_bounds_of_a_link(bounds: dict[str, Any]) -> None:
    """Beyond them a sync message is answered 5001 at once, and one that nobody waits for is counted, never silent."""
    worker = joined("Worker/0/0", "Proxy/0", depth=2, inbox=1, **bounds)
    for uuid in "abc":
        assert Lost not in map(type, worker.frame_arrived(0.0, UP, frame("Worker/0/0", uuid=uuid, sync=False), None))
    full = worker.frame_arrived(0.0, UP, frame("Worker/0/0", uuid="sync"), Caller())
    assert answers(full) == [(Code.RECV_BUF_BUSY, "Worker/0/0")]
    message = frame("Worker/0/0", uuid="async", sync=False)
    text = "the inbox is full, and so is the line before it"
    assert worker.frame_arrived(0.0, UP, message, None) == [Lost(message, Code.RECV_BUF_BUSY, at("Worker/0/0"), text)]
    assert worker.statistics.lost == 1


def test_own_message_to_the_own_inbox() -> None:
    mgr, ask = router("Mgr", inbox=1, link_messages=1), Caller()
    message = frame("Mgr")
    assert mgr.send(0.0, message, ask, 1.0) == [
        Deliver(message),
        Answer(ask, Ack("u", Code.OK, at("Mgr"), receivers=1)),
    ]
    # sync=false is answered once it is in line: this node is its first hop, and has it
    assert answers(mgr.send(0.0, frame("Mgr", uuid="line", sync=False), ask, 1.0)) == [(Code.OK, "Mgr/0")]
    assert answers(mgr.send(0.0, frame("Mgr", uuid="full", sync=False), ask, 1.0)) == [(Code.RECV_BUF_BUSY, "Mgr/0")]
    assert answers(mgr.send(0.0, frame("Mgr", uuid="sync"), ask, 1.0)) == [(Code.RECV_BUF_BUSY, "Mgr/0")]
    assert [type(action) for action in mgr.inbox_taken(0.0)] == [Deliver]


@pytest.mark.parametrize("sync", [True, False])
def test_node_without_an_inbox_answers_5000(sync: bool) -> None:
    worker = joined("Worker/0/0", inbox=0)
    message = frame("Worker/0/0", sync=sync)
    assert answers(worker.frame_arrived(0.0, UP, message, Caller())) == [(Code.RECV_BUF_NIL, "Worker/0/0")]


def test_closing_the_inbox_answers_the_line_with_5000() -> None:
    worker, ask = joined("Worker/0/0", inbox=1), Caller()
    worker.frame_arrived(0.0, UP, frame("Worker/0/0", uuid="in"), ask)
    worker.frame_arrived(0.0, UP, frame("Worker/0/0", uuid="sync"), ask)
    silent = frame("Worker/0/0", uuid="async", sync=False)
    worker.frame_arrived(0.0, UP, silent, None)
    assert worker.close_inbox() == [
        Answer(ask, Ack("sync", Code.RECV_BUF_NIL, at("Worker/0/0"), "the inbox was closed", 0)),
        Lost(silent, Code.RECV_BUF_NIL, at("Worker/0/0"), "the inbox was closed"),
    ]
    assert answers(worker.frame_arrived(0.0, UP, frame("Worker/0/0"), ask)) == [(Code.RECV_BUF_NIL, "Worker/0/0")]
    assert worker.inbox_taken(0.0) == []


# ---- resends


def test_resend_is_acknowledged_and_not_delivered_twice() -> None:
    worker, ask = joined("Worker/0/0", inbox=1), Caller()
    worker.frame_arrived(0.0, UP, frame("Worker/0/0"), ask)
    for sync in (True, False):  # also while the inbox is full
        assert answers(worker.frame_arrived(0.0, UP, frame("Worker/0/0", sync=sync), ask)) == [(Code.OK, "Worker/0/0")]
    assert worker.frame_arrived(0.0, UP, frame("Worker/0/0", sync=False), None) == []
    assert (worker.statistics.delivered, worker.statistics.duplicates) == (1, 3)


def test_resend_while_the_first_copy_stands_in_line_is_delivered_once() -> None:
    worker, ask = joined("Worker/0/0", inbox=1), Caller()
    worker.frame_arrived(0.0, UP, frame("Worker/0/0", uuid="in"), ask)
    first, second = frame("Worker/0/0"), frame("Worker/0/0")
    worker.frame_arrived(0.0, UP, first, ask)
    worker.frame_arrived(0.0, UP, second, ask)
    assert worker.inbox_taken(0.001)[0] == Deliver(first)
    assert answers(worker.inbox_taken(0.001)) == [(Code.OK, "Worker/0/0")]
    assert (worker.statistics.delivered, worker.statistics.duplicates) == (2, 1)


def test_same_uuid_of_another_sender_is_another_message() -> None:
    mgr = router("Mgr")
    for src in ("Worker/0/0", "Worker/0/1"):
        message = frame("Mgr", src)
        assert mgr.frame_arrived(0.0, STRANGER, message, Caller())[0] == Deliver(message)


def test_resend_outside_the_window_is_delivered_again() -> None:
    worker = joined("Worker/0/0", dedup_window=2)
    delivered = [
        uuid
        for uuid in "abcac"
        if Deliver in map(type, worker.frame_arrived(0.0, UP, frame("Worker/0/0", uuid=uuid), Caller()))
    ]
    assert delivered == ["a", "b", "c", "a"]


def test_resend_of_what_is_in_the_inbox_is_known_also_when_the_node_drains_or_its_inbox_is_closed_or_full() -> None:
    for shut in (Driven.drain, Driven.close_inbox, lambda _: None):
        worker = joined("Worker/0/0", inbox=1)
        message = frame("Worker/0/0")
        worker.frame_arrived(0.0, UP, message, Caller())
        shut(worker)
        assert answers(worker.frame_arrived(1.0, UP, message, Caller())) == [(Code.OK, "Worker/0/0")]
        assert answers(worker.frame_arrived(1.0, UP, frame("Worker/0/0", sync=False), None)) == []
        assert worker.statistics.duplicates == 2
        assert worker.statistics.lost == 0


def test_resend_that_stands_in_line_is_answered_0_when_the_first_is_in() -> None:
    """Also if the inbox closes meanwhile, or the resend has waited long enough."""
    ends: tuple[Callable[[Driven], list[Action]], ...] = (Driven.close_inbox, lambda worker: worker.tick(1.0))
    for end in ends:
        worker = joined("Worker/0/0", inbox=1)
        worker.frame_arrived(0.0, UP, frame("Worker/0/0", uuid="first"), Caller())
        for _ in range(2):
            assert worker.frame_arrived(0.0, UP, frame("Worker/0/0"), Caller()) == []
        assert Deliver in map(type, worker.inbox_taken(0.001))
        assert answers(end(worker)) == [(Code.OK, "Worker/0/0")]
    worker = joined("Worker/0/0", inbox=1)
    worker.frame_arrived(0.0, UP, frame("Worker/0/0", uuid="first"), Caller())
    for _ in range(2):
        assert worker.frame_arrived(0.0, UP, frame("Worker/0/0", sync=False), None) == []
    worker.inbox_taken(0.001)
    assert worker.close_inbox() == []
    assert (worker.statistics.duplicates, worker.statistics.lost) == (1, 0)


def test_inbox_that_is_forgotten_has_room_and_takes_resends_as_new_messages() -> None:
    mgr = router("Mgr", inbox=1, confirms=True)
    link = add_child(mgr, "Worker/0/0")
    taken, waits = (frame("Mgr", "Worker/0/0", uuid=uuid) for uuid in "ab")
    post = frame("Mgr", "Worker/0/0", uuid="c", sync=False)
    assert mgr.frame_arrived(0.0, link.id, taken, Caller()) == [Deliver(taken)]
    assert mgr.frame_arrived(0.0, link.id, waits, Caller()) == []
    mgr.frame_arrived(0.0, link.id, post, None)
    refused, lost, unclear = mgr.reset_inbox()
    assert answers([refused, unclear]) == [(Code.RECV_BUF_NIL, "Mgr/0"), (Code.NETWORK_ACK_LOST, "Mgr/0")]
    assert isinstance(lost, Lost) and not mgr.busy and mgr.statistics.lost == 1
    for message in (taken, waits):
        assert Deliver(message) in mgr.frame_arrived(0.1, link.id, message, Caller())
        assert answers(mgr.confirm(message)) == [(Code.OK, "Mgr/0")]
        mgr.inbox_taken(0.1)
    mgr.close_inbox()
    assert mgr.reset_inbox() == []
    assert Deliver(taken) in mgr.frame_arrived(0.2, link.id, taken, Caller()), "its reader is another"
    mgr.drain()
    mgr.reset_inbox()
    assert answers(mgr.frame_arrived(0.3, link.id, waits, Caller())) == [(Code.RECV_BUF_NIL, "Mgr/0")]


# ---- confirmation


def test_message_is_answered_when_the_application_confirms_it() -> None:
    mgr = router("Mgr", inbox=8, confirms=True)
    link = add_child(mgr, "Worker/0/0")
    first, second = (frame("Mgr", "Worker/0/0", uuid=uuid) for uuid in "ab")
    for message in (first, second):
        assert mgr.frame_arrived(0.0, link.id, message, Caller()) == [Deliver(message)]
    assert mgr.busy, "its sender waits"
    assert mgr.frame_arrived(0.1, link.id, first, Caller()) == [], "a resend waits with the first copy"
    assert answers(mgr.confirm(first)) == [(Code.OK, "Mgr/0")] * 2
    assert mgr.confirm(first) == []
    assert answers(mgr.frame_arrived(0.2, link.id, first, Caller())) == [(Code.OK, "Mgr/0")]
    assert answers(mgr.confirm(second)) == [(Code.OK, "Mgr/0")]
    assert not mgr.busy


def test_message_that_the_application_refuses_is_answered_with_its_reason() -> None:
    mgr = router("Mgr", inbox=8, confirms=True)
    link = add_child(mgr, "Worker/0/0")
    first = frame("Mgr", "Worker/0/0", uuid="a")
    for _ in range(2):
        mgr.frame_arrived(0.0, link.id, first, Caller())
    refused = [action for action in mgr.refuse(first, "why") if isinstance(action, Answer)]
    assert [(answer.ack.code, answer.ack.detail) for answer in refused] == [(Code.CLIENT_ERR, "why")] * 2
    assert mgr.refuse(first, "why") == [] and mgr.confirm(first) == []
    assert not mgr.busy


def test_batch_waits_for_its_confirmation_as_single_messages_do() -> None:
    mgr = router("Mgr", inbox=8, confirms=True)
    link = mgr.register(0.0, at("Worker/0/0"))
    mgr.link_up(0.0, link, "s", numbered=True, bare=True)
    first = frame("Mgr", "Worker/0/0", uuid="a")
    messages = [first, *(Frame(uuid, True, first.src, first.dst, b"") for uuid in "bc")]
    arrived = mgr.frames_arrived(0.0, link.id, [(message, Caller(), None) for message in messages])
    assert arrived == [Deliver(message) for message in messages]
    assert len(answers(mgr.confirm(*messages))) == 3


def test_own_message_and_post_need_no_confirmation() -> None:
    mgr, ask = router("Mgr", inbox=8, confirms=True), Caller()
    assert answers(mgr.send(0.0, frame("Mgr"), ask, 1.0)[1:]) == [(Code.OK, "Mgr/0")]
    link = add_child(mgr, "Worker/0/0")
    post = frame("Mgr", "Worker/0/0", sync=False)
    assert mgr.frame_arrived(0.0, link.id, post, None) == [Deliver(post)]
    assert mgr.confirm(post) == [] and not mgr.busy


def test_message_that_nobody_confirms_may_have_been_delivered() -> None:
    mgr = router("Mgr", inbox=8, confirms=True)
    link = add_child(mgr, "Worker/0/0")
    mgr.frame_arrived(0.0, link.id, frame("Mgr", "Worker/0/0"), Caller())
    assert answers(mgr.close()) == [(Code.NETWORK_ACK_LOST, "Mgr/0")]
    assert not mgr.busy
