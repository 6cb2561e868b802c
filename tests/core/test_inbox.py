"""An inbox: delivery, the gate with its room, the line before it, and resends (docs/contract.md, section 5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from taskd_net.base.codes import Code
from taskd_net.core.acks import Pending
from taskd_net.core.frame import Ack, Frame
from taskd_net.core.inbox import InboxGate, WaitingMessage
from taskd_net.core.links import UP
from taskd_net.core.ready import Lost
from tests.core.driven import Action, Answer, Deliver, Driven
from tests.core.routers import STRANGER, Caller, add_child, answers, at, frame, joined, router

INF = float("inf")


def gate(
    room: int = 1, line_messages: int = 3, line_bytes: int = 1000, room_bytes: int = 1000, small: int = 0
) -> InboxGate:
    """The gate of a small inbox."""
    return InboxGate(room, 8, line_messages, line_bytes, room_bytes, small)


def waiting(uuid: str, deadline: float = INF, size: int = 10) -> WaitingMessage:
    """A message in line; a sync one has a deadline."""
    sync = deadline != INF
    message = frame("Worker/0/0", uuid=uuid, sync=sync, size=size)
    pending = Pending(uuid, 1, at("Mgr"), True, None, deadline) if sync else None
    return WaitingMessage(UP, message, pending, deadline)


def leave(entrance: InboxGate) -> None:
    """The application takes the oldest message."""
    entrance.taken(1)


def test_without_room_there_is_no_inbox() -> None:
    assert not gate(0).open
    assert gate(1).open


def test_message_that_went_in_takes_room_and_is_known() -> None:
    entrance, message = gate(1), frame("Worker/0/0")
    assert entrance.has_room(frame("Mgr", size=10))
    assert not entrance.knows(message)
    assert entrance.enter(0.0, UP, message)
    assert not entrance.has_room(frame("Mgr", size=10))
    assert entrance.knows(message)
    assert not entrance.enter(0.0, UP, message)
    assert entrance.held == 1
    assert not entrance.knows(frame("Worker/0/0", "Worker/0/1"))


def test_inbox_is_bounded_in_bytes() -> None:
    entrance, worker = gate(9, room_bytes=100), at("Worker/0/0")
    uuids = [f"tn1-{1:016x}-1-{number:x}-{0:016x}" for number in range(1, 5)]
    assert entrance.enter_all(0.0, UP, uuids[:2], worker, [30, 30])
    assert entrance.has_room(frame("Mgr", size=40))
    assert not entrance.has_room(frame("Mgr", size=41))
    assert not entrance.enter_all(0.0, UP, uuids[2:], worker, [40, 1])
    assert entrance.enter_all(0.0, UP, uuids[2:3], worker, [40])
    for uuid, size in (("d", 50), ("e", 10)):
        assert entrance.queue(waiting(uuid, size=size))
    leave(entrance)
    assert list(entrance.admit()) == [], "the second in line would fit, and does not overtake"
    leave(entrance)
    for one in entrance.admit():
        entrance.enter(0.0, UP, one.frame)
    assert (list(entrance.sizes), entrance.held_bytes) == ([40, 50, 10], 100)


def test_nobody_passes_those_who_stand_in_line() -> None:
    entrance = gate(2)
    entrance.queue(waiting("a"))
    assert entrance.held < entrance.room
    assert not entrance.has_room(frame("Mgr", size=10))


def test_small_message_passes_a_line_of_others_that_waits_for_bytes() -> None:
    entrance = gate(3, room_bytes=100, small=10)
    assert entrance.enter(0.0, UP, frame("Mgr", uuid="first", size=90))
    assert entrance.queue(waiting("large", size=80))
    small, large = frame("Mgr", "Worker/0/1", size=10), frame("Mgr", "Worker/0/1", size=11)
    assert not entrance.has_room(large), "it would take the bytes that the line waits for"
    assert not entrance.has_room(frame("Mgr", "Mgr", size=10)), "its sender has a message in line"
    assert entrance.has_room(small)
    for number in range(2):
        assert entrance.enter(0.0, UP, frame("Mgr", "Worker/0/1", uuid=f"small-{number}", size=10))
    assert entrance.held_bytes == 110, "it needs no bytes"
    assert not entrance.has_room(small), "but a place"
    leave(entrance)
    assert [one.frame.uuid for one in entrance.admit()] == ["large"], "the line goes first"


@pytest.mark.parametrize("leaves", ["admitted", "too late", "withdrawn", "closed"])
def test_sender_may_pass_once_its_own_message_has_left_the_line(leaves: str) -> None:
    entrance = gate(3, room_bytes=100, small=10)
    assert entrance.enter(0.0, UP, frame("Mgr", uuid="first", size=90))
    own, other = waiting("own", 1.0, size=90), waiting("other", size=90)
    assert entrance.queue(own)
    assert entrance.queue(waiting("own too", 1.0, size=10))
    other.frame.src = at("Worker/0/9")
    small = frame("Mgr", size=10)
    assert not entrance.has_room(small)
    if leaves == "admitted":
        leave(entrance)
        assert len(list(entrance.admit())) == 2
    elif leaves == "too late":
        assert len(entrance.take_due(1.0)) == 2
    elif leaves == "closed":
        entrance.shut()
    else:
        for one in list(entrance.line):
            assert one.pending is not None
            entrance.withdraw(one.pending.reply)
    assert entrance.queue(other)
    assert entrance.has_room(small)


def test_line_moves_in_order_while_there_is_room() -> None:
    entrance = gate(2)
    for uuid in "abc":
        assert entrance.queue(waiting(uuid))
    admitted = []
    for one in entrance.admit():
        entrance.enter(0.0, UP, one.frame)
        admitted.append(one.frame.uuid)
    assert admitted == ["a", "b"]
    assert list(entrance.admit()) == []
    leave(entrance)
    assert [one.frame.uuid for one in entrance.admit()] == ["c"]


@pytest.mark.parametrize(("messages", "size"), [(2, 1000), (9, 20)])
def test_line_is_bounded(messages: int, size: int) -> None:
    entrance = gate(1, messages, size)
    assert entrance.queue(waiting("a"))
    assert entrance.queue(waiting("b"))
    assert not entrance.queue(waiting("c"))
    next(entrance.admit())
    assert entrance.queue(waiting("c"))
    entrance.shut()
    assert entrance.queue(waiting("d"))
    assert entrance.queue(waiting("e"))
    assert not entrance.queue(waiting("f"))


def test_only_sync_messages_lose_patience() -> None:
    entrance = gate(1, 4, 30)
    assert entrance.next_deadline() == INF
    for one in (waiting("a"), waiting("b", 2.0), waiting("c", 1.0)):
        assert entrance.queue(one)
    assert entrance.next_deadline() == 1.0
    assert entrance.take_due(0.999) == []
    assert [one.frame.uuid for one in entrance.take_due(1.0)] == ["c"]
    assert entrance.queue(waiting("d"))  # its bytes are free again
    assert [one.frame.uuid for one in entrance.take_due(2.0)] == ["b"]
    assert entrance.take_due(1e12) == []
    assert [one.frame.uuid for one in entrance.line] == ["a", "d"]
    assert entrance.next_deadline() == INF


def test_line_is_emptied_at_once() -> None:
    entrance, line = gate(1), [waiting("a"), waiting("b", 1.0)]
    for one in line:
        entrance.queue(one)
    assert entrance.shut() == line
    assert entrance.shut() == []
    assert entrance.next_deadline() == INF


def test_run_goes_in_whole_or_not_at_all() -> None:
    entrance, worker = gate(5), at("Worker/0/0")
    uuids = [f"tn1-{1:016x}-1-{number:x}-{0:016x}" for number in range(1, 8)]
    assert entrance.enter_all(0.0, UP, uuids[:2], worker, [10] * 2)
    assert not entrance.enter_all(0.0, UP, uuids[1:4], worker, [10] * 3), "one of them is in"
    assert not entrance.enter_all(0.0, UP, uuids[2:6], worker, [10] * 4), "more than there is room for"
    assert entrance.held == 2
    assert entrance.enter_all(0.0, UP, uuids[2:5], worker, [10] * 3)
    assert entrance.held == 5


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
