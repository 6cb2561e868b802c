"""Messages in flight on one link: answers find them, unwritten ones are taken back, uuids do not collide."""

from __future__ import annotations

from taskd_net.core.acks import Branch, FanOut
from taskd_net.core.in_flight import ABANDONED_UUIDS, Collision, FlowRun, InFlight
from tests.core.routers import at, frame, pending

INF = float("inf")


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
    other = Branch(FanOut("u", 1, at("Worker/0/1"), True, 1, False), 1.0)
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


def test_number_behind_a_run_is_none_of_it() -> None:
    flight = InFlight()
    flight.numbered = True
    numbers = flight.add_run(FlowRun(0, ["a", "b"], 1, 1, [1, 2], at("Worker/0/0"), at("Mgr"), 5.0))
    assert list(numbers) == [1, 2]
    assert flight.take_accepted([3]) == [None]
    assert len(flight) == 2
