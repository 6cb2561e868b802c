"""The door of an inbox: room, the line before it and its bounds."""

from __future__ import annotations

import pytest

from taskd_net.core.acks import Pending
from taskd_net.core.inbox import InboxDoor, Waiting
from taskd_net.core.links import UP
from tests.core.routers import at, frame

INF = float("inf")


def door(
    room: int = 1, line_messages: int = 3, line_bytes: int = 1000, room_bytes: int = 1000, small: int = 0
) -> InboxDoor:
    """A door of a small inbox."""
    return InboxDoor(room, 8, line_messages, line_bytes, room_bytes, small)


def waiting(uuid: str, deadline: float = INF, size: int = 10) -> Waiting:
    """A message in line; a sync one has a deadline."""
    sync = deadline != INF
    message = frame("Worker/0/0", uuid=uuid, sync=sync, size=size)
    pending = Pending(uuid, 1, at("Mgr"), True, None, deadline) if sync else None
    return Waiting(UP, message, pending, deadline)


def leave(entrance: InboxDoor) -> None:
    """The application takes the oldest message."""
    entrance.held -= 1
    entrance.held_bytes -= entrance.sizes.popleft()


def test_without_room_there_is_no_inbox() -> None:
    assert not door(0).open
    assert door(1).open


def test_message_that_went_in_takes_room_and_is_known() -> None:
    entrance, message = door(1), frame("Worker/0/0")
    assert entrance.has_room(frame("Mgr", size=10))
    assert not entrance.knows(message)
    assert entrance.enter(0.0, UP, message)
    assert not entrance.has_room(frame("Mgr", size=10))
    assert entrance.knows(message)
    assert not entrance.enter(0.0, UP, message)
    assert entrance.held == 1
    assert not entrance.knows(frame("Worker/0/0", "Worker/0/1"))


def test_inbox_is_bounded_in_bytes() -> None:
    entrance, worker = door(9, room_bytes=100), at("Worker/0/0")
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
    entrance = door(2)
    entrance.queue(waiting("a"))
    assert entrance.held < entrance.room
    assert not entrance.has_room(frame("Mgr", size=10))


def test_small_message_passes_a_line_of_others_that_waits_for_bytes() -> None:
    entrance = door(3, room_bytes=100, small=10)
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
    entrance = door(3, room_bytes=100, small=10)
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
        entrance.take_line()
    else:
        for one in list(entrance.line):
            assert one.pending is not None
            entrance.withdraw(one.pending.reply)
    assert entrance.queue(other)
    assert entrance.has_room(small)


def test_line_moves_in_order_while_there_is_room() -> None:
    entrance = door(2)
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
    entrance = door(1, messages, size)
    assert entrance.queue(waiting("a"))
    assert entrance.queue(waiting("b"))
    assert not entrance.queue(waiting("c"))
    next(entrance.admit())
    assert entrance.queue(waiting("c"))
    entrance.take_line()
    assert entrance.queue(waiting("d"))
    assert entrance.queue(waiting("e"))
    assert not entrance.queue(waiting("f"))


def test_only_sync_messages_lose_patience() -> None:
    entrance = door(1, 4, 30)
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
    entrance, line = door(1), [waiting("a"), waiting("b", 1.0)]
    for one in line:
        entrance.queue(one)
    assert entrance.take_line() == line
    assert entrance.take_line() == []
    assert entrance.next_deadline() == INF


def test_run_goes_in_whole_or_not_at_all() -> None:
    entrance, worker = door(5), at("Worker/0/0")
    uuids = [f"tn1-{1:016x}-1-{number:x}-{0:016x}" for number in range(1, 8)]
    assert entrance.enter_all(0.0, UP, uuids[:2], worker, [10] * 2)
    assert not entrance.enter_all(0.0, UP, uuids[1:4], worker, [10] * 3), "one of them is in"
    assert not entrance.enter_all(0.0, UP, uuids[2:6], worker, [10] * 4), "more than there is room for"
    assert entrance.held == 2
    assert entrance.enter_all(0.0, UP, uuids[2:5], worker, [10] * 3)
    assert entrance.held == 5
