"""Pending answers, and the merging of several branches' answers into one."""

from __future__ import annotations

from taskd_net.core.acks import NOBODY, UNTOLD, Branch, FanOut, Pending, Told
from taskd_net.core.frame import Ack, Failure
from taskd_net.core.in_flight import Collision, InFlight
from taskd_net.limits import ABANDONED_UUIDS, FAILURES_TOLD
from tests.core.routers import at, frame

INF = float("inf")


def pending(uuid: str = "u", src: str = "Mgr", *, sync: bool = True, deadline: float = 1.0) -> Pending:
    """Somebody who waits for the answer to a unicast."""
    return Pending(uuid, 1, at(src), sync, None, deadline)


def fan_out(*, src: str = "Mgr", sync: bool = True, parts: int, wildcard: bool = False) -> FanOut:
    """Somebody who waits for the answer to a broadcast."""
    return FanOut("u", 1, at(src), sync, parts, wildcard)


# ---- one answer out of several


def test_answer_to_a_unicast_is_the_answer() -> None:
    assert pending().settle(0, at("Worker/0/0"), "") == Ack("u", 0, at("Worker/0/0"), receivers=1)
    assert pending().settle(5001, at("Worker/0/0"), "full") == Ack("u", 5001, at("Worker/0/0"), "full", 0)
    assert pending(sync=False).settle(0, at("Proxy/0"), "") == Ack("u", 0, at("Proxy/0"))


def answered(waiting: FanOut, *answers: tuple[int, str], detail: str = "") -> Ack | None:
    """The merged answer of these parts, each found by this node itself."""
    return [Branch(waiting, 1.0).settle(code, at(src), detail) for code, src in answers][-1]


def test_nothing_is_answered_before_the_last_part() -> None:
    waiting = fan_out(parts=3)
    assert answered(waiting, (0, "Worker/0/0")) is None
    assert answered(waiting, (6001, "Worker/0/1"), detail="silent") is None
    ack = answered(waiting, (5001, "Worker/0/2"), detail="full")
    failures = (Failure(at("Worker/0/1"), 6001), Failure(at("Worker/0/2"), 5001))
    assert ack == Ack("u", 6001, at("Worker/0/1"), "silent", 1, failures)


def test_first_of_several_failures_is_told() -> None:
    for codes in ((5001, 6001), (6001, 5001), (5002, 5002)):
        waiting = fan_out(parts=2)
        answered(waiting, (codes[0], "Worker/0/0"), detail="first")
        ack = answered(waiting, (codes[1], "Worker/0/1"), detail="second")
        assert ack is not None and ack[:4] == Ack("u", codes[0], at("Worker/0/0"), "first")[:4]
        assert [failure.code for failure in ack.failures] == list(codes)


def test_any_other_failure_says_more_than_5002() -> None:
    for codes in ((5002, 6001), (6001, 5002)):
        waiting = fan_out(parts=2)
        ack = answered(waiting, *((code, f"Worker/0/{code}") for code in codes))
        assert ack is not None and ack[:3] == ("u", 6001, at("Worker/0/6001"))


def test_5002_of_a_branch_is_no_failure_of_all_as_long_as_another_has_somebody() -> None:
    for codes, wildcard, code in (
        ((0, 5002), True, 0),
        ((5002, 0), True, 0),
        ((5002, 5002), True, 5002),
        ((0, 5002), False, 5002),
        ((5002, 0), False, 5002),
    ):
        ack = answered(
            fan_out(parts=2, wildcard=wildcard), (codes[0], "Proxy/0"), (codes[1], "Proxy/1"), detail="nobody"
        )
        assert ack is not None
        assert (ack.code, ack.detail) == (code, "nobody" if code else "")
        assert [failure.code for failure in ack.failures] == ([5002] if code else [])
        assert ack.receivers == codes.count(0)


def test_receivers_are_added_up_as_long_as_every_branch_can_say() -> None:
    one, two = at("Proxy/0"), at("Proxy/1")
    for told, alone, receivers in (
        (Told(7), False, 8),
        (UNTOLD, True, 2),
        (UNTOLD, False, None),
        (Told(None), True, None),
        (NOBODY, False, 1),
    ):
        for answers in ([told, None], [None, told]):
            waiting = fan_out(parts=2)
            acks = [Branch(waiting, 1.0, one, alone).settle(0, two, "", each) for each in answers]
            assert acks == [None, Ack("u", 0, two, receivers=receivers)]


def test_failures_of_branches_are_named() -> None:
    """Failures that a branch has named; else the node that answered; for this node's own findings, the neighbour."""
    here, child, far, other = at("Mgr"), at("Proxy/0"), at("Worker/0/0"), at("Worker/0/1")
    for told, src, alone, failures, receivers in (
        (Told(3, (Failure(far, 5001), Failure(other, 6001))), far, False, [(far, 5001), (other, 6001)], 3),
        (UNTOLD, far, True, [(far, 5001)], 0),
        (UNTOLD, far, False, [(far, 5001)], None),
        (None, here, False, [(child, 5001)], 0),
    ):
        ack = Branch(fan_out(parts=1), 1.0, child, alone).settle(5001, src, "", told)
        assert ack == Ack("u", 5001, src, "", receivers, tuple(Failure(*failure) for failure in failures))


def test_no_more_failures_are_named_than_the_limit() -> None:
    waiting = fan_out(parts=40)
    named = [(5001, f"Worker/0/{rank}") for rank in range(40)]
    ack = answered(waiting, *named)
    assert ack is not None and len(ack.failures) == FAILURES_TOLD
    assert [failure.position for failure in ack.failures] == [at(src) for _, src in named[:FAILURES_TOLD]]


def test_5002_takes_no_place_among_the_failures_of_all() -> None:
    """A branch in which nobody matches has not failed, whatever else has."""
    waiting = fan_out(parts=3, wildcard=True)
    ack = answered(waiting, (5002, "Proxy/0"), (6001, "Worker/0/0"), (0, "Worker/0/1"))
    assert ack == Ack("u", 6001, at("Worker/0/0"), "", 1, (Failure(at("Worker/0/0"), 6001),))


def test_part_speaks_for_its_message() -> None:
    waiting = fan_out(src="Worker/0/0", sync=False, parts=2)
    parts = [Branch(waiting, 1.0), Branch(waiting, 2.0)]
    assert [part.deadline for part in parts] == [1.0, 2.0]
    assert all((part.uuid, part.reply, part.sender) == ("u", waiting.reply, waiting.sender) for part in parts)
    assert not any(part.sync for part in parts)
    assert parts[0].settle(0, at("Mgr"), "") is None
    assert parts[1].settle(0, at("Mgr"), "") == Ack("u", 0, at("Mgr"))


# ---- what is in flight on a link


def test_answer_finds_the_message_with_its_uuid() -> None:
    flight, one, two = InFlight(), pending("1"), pending("2")
    assert flight.add("1", one) == flight.add("2", two) == 0
    assert (len(flight), set(flight)) == (2, {one, two})
    assert flight.take("3") is None
    assert flight.take("2") is two
    assert flight.take("2") is None
    assert (len(flight), set(flight)) == (1, {one})


def test_several_copies_are_answered_oldest_first() -> None:
    flight, copies = InFlight(), [pending(deadline=float(i)) for i in range(4)]
    for copy in copies:
        assert flight.add("u", copy) == 0
    assert (len(flight), list(flight)) == (4, copies)
    assert [flight.take("u") for _ in range(5)] == [*copies, None]
    assert len(flight) == 0


def test_uuid_in_flight_for_another_message_is_not_taken_in() -> None:
    flight, first = InFlight(), pending(src="Worker/0/0")
    flight.add("u", first)
    assert flight.add("u", pending(src="Worker/0/1")) is None
    assert flight.add("u", pending(src="Worker/0/0", sync=False)) is None
    assert (len(flight), list(flight)) == (1, [first])
    # also when several of the first are
    assert flight.add("u", pending(src="Worker/0/0")) == 0
    assert flight.add("u", pending(src="Worker/0/1")) is None
    assert len(flight) == 2


def test_uuid_whose_answer_may_still_come_is_not_taken_in_for_another_message() -> None:
    flight = InFlight()
    flight.add("u", pending(src="Worker/0/0"))
    assert len(flight.take_due(1.0)) == 1
    assert flight.add("u", pending(src="Worker/0/1")) is None
    # The same message again: whichever answer comes is its own.
    assert flight.add("u", pending(src="Worker/0/0")) == 0
    assert len(flight.take_due(1.0)) == 1
    assert flight.take("u") is None
    assert flight.add("u", pending(src="Worker/0/1")) == 0
    # On a new stream no old answer comes.
    flight.take_due(1.0)
    assert flight.take_all() == []
    assert flight.add("u", pending(src="Worker/0/2")) == 0


def test_answers_that_may_still_come_are_bounded() -> None:
    flight = InFlight()
    for number in range(ABANDONED_UUIDS + 1):
        flight.add(str(number), pending())
    flight.take_due(1.0)
    assert flight.add("0", pending(src="Worker/0/1")) == 0
    assert flight.add("1", pending(src="Worker/0/1")) is None


def test_numbers_never_collide() -> None:
    flight, parts = InFlight(), [pending(src=f"Worker/0/{rank}", sync=rank % 2 == 0) for rank in range(4)]
    flight.numbered = True
    assert [flight.add("u", part) for part in parts] == [1, 2, 3, 4]
    assert flight.take("u") is None
    assert flight.take(2, sync=True) is None
    assert flight.take(2, sync=False) is parts[1]
    assert flight.take(2) is None
    assert flight.take(3) is parts[2]
    assert flight.take_due(1.0) == [parts[0], parts[3]]
    assert flight.take(1) is None
    assert flight.add("u", parts[0]) == 5


def test_unwritten_copies_of_a_numbered_link_find_who_waits_for_them() -> None:
    flight, waiting = InFlight(), [pending(sync=False) for _ in range(3)]
    flight.numbered = True
    other = Branch(fan_out(src="Worker/0/1", parts=1), 1.0)
    for part in waiting:
        flight.add("u", part)
    flight.add("u", other)
    copy, foreign = frame("Worker/0/0", sync=False), frame("Worker/0/0", uuid="v")
    # Of three that were sent, two were not written; nobody waits for a message that was only passed on.
    taken = flight.take_unwritten([(copy, 2), (foreign, 0), (copy, 3)])
    assert taken == [(copy, waiting[2]), (foreign, None), (copy, waiting[1])]
    assert flight.take_all() == [waiting[0], other]


def test_unwritten_copies_of_any_other_link_too() -> None:
    flight, waiting = InFlight(), [pending(sync=False) for _ in range(2)]
    for part in waiting:
        flight.add("u", part)
    copy = frame("Worker/0/0", sync=False)
    assert flight.take_unwritten([(copy, 0)]) == [(copy, waiting[1])]


def test_collisions_wait_until_their_uuid_is_free() -> None:
    flight = InFlight()
    held = [Collision(frame("Worker/0/0", f"Worker/0/{rank}"), pending(deadline=rank)) for rank in range(1, 4)]
    flight.add("u", pending(src="Mgr", deadline=0.5))
    assert bool(flight)
    for one in held:
        flight.hold(one)
    assert flight.release("u") is None
    assert flight.deadline() == 0.5
    flight.take("u")
    assert (flight.deadline(), bool(flight)) == (1.0, True)
    assert flight.take_collisions(2.0) == held[:2]
    assert flight.release("u") is held[2]
    assert flight.release("u") is None
    assert (flight.collisions, bool(flight), flight.deadline()) == ({}, False, INF)
    flight.hold(held[0])
    assert flight.take_collisions() == [held[0]]
    assert not flight


def test_copy_of_a_message_finds_who_waits_for_it() -> None:
    flight, copies = InFlight(), [pending(sync=False) for _ in range(3)]
    for copy in copies:
        flight.add("u", copy)
    message = frame("Worker/0/0", sync=False)
    assert flight.take_copy(message, newest=True) is copies[2]
    assert flight.take_copy(message) is copies[0]
    assert flight.take_copy(message, newest=True) is copies[1]
    assert flight.take_copy(message) is None


def test_copy_that_nobody_waits_for_is_not_taken_for_an_awaited_one() -> None:
    flight, waiting = InFlight(), pending()
    flight.add("u", waiting)
    for other in (
        frame("Worker/0/0", uuid="v"),
        frame("Worker/0/0", sync=False),
        frame("Worker/0/0", "Worker/0/1"),
    ):
        assert flight.take_copy(other) is None
        assert flight.take_copy(other, newest=True) is None
    assert flight.take_copy(frame("Worker/0/0")) is waiting


def test_everything_is_taken_out() -> None:
    flight, parts = InFlight(), [pending(deadline=float(i)) for i in range(3)]
    for uuid, part in zip(("a", "a", "b"), parts, strict=True):
        flight.add(uuid, part)
    assert flight.take_all() == parts
    assert (len(flight), list(flight), flight.deadline()) == (0, [], INF)


def test_what_is_due_is_taken_out_and_the_rest_stays() -> None:
    flight = InFlight()
    deadlines = {"a": (1.0,), "b": (2.0, 9.0), "c": (9.0, 2.0, 9.0), "d": (2.0, 2.0), "e": (9.0,)}
    for uuid, times in deadlines.items():
        for time in times:
            flight.add(uuid, pending(uuid, deadline=time))
    assert flight.deadline() == 1.0
    assert flight.take_due(0.999) == []
    assert [part.deadline for part in flight.take_due(2.0)] == [1.0, 2.0, 2.0, 2.0, 2.0]
    assert len(flight) == len(list(flight)) == 4
    assert flight.deadline() == 9.0
    assert [(flight.take(uuid) is not None) for uuid in "abccde"] == [False, True, True, True, False, True]


def test_answer_to_one_kind_is_not_taken_for_the_other() -> None:
    """A `sync=false` message was given up and sent again as a sync one; the late answer is no delivery."""
    flight = InFlight()
    part = pending(src="Worker/0/0")
    assert flight.add("u", part) == 0
    assert flight.take("u", sync=False) is None
    assert len(flight) == 1
    assert flight.take("u", sync=True) is part
    assert len(flight) == 0


def test_several_answers_are_taken_at_once_and_late_ones_are_none() -> None:
    for numbered in (True, False):
        flight, parts = InFlight(), [pending(str(number)) for number in range(1, 4)]
        flight.numbered = numbered
        keys = [flight.add(str(number), part) or str(number) for number, part in enumerate(parts, 1)]
        assert flight.take_accepted([keys[2], keys[0], keys[2]]) == [parts[2], parts[0], None]
        assert (len(flight), list(flight)) == (1, [parts[1]])
        assert flight.take(keys[1], sync=False) is None
        assert flight.take_accepted([keys[1]]) == [parts[1]]
