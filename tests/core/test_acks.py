"""Pending answers, and the merging of several branches' answers into one."""

from __future__ import annotations

from taskd_net.core.acks import FAILURES_TOLD, NOBODY, UNTOLD, Branch, FanOut, Told
from taskd_net.core.frame import Ack, Failure
from tests.core.routers import at, pending


def fan_out(*, src: str = "Mgr", sync: bool = True, parts: int, wildcard: bool = False) -> FanOut:
    """Somebody who waits for the answer to a broadcast."""
    return FanOut("u", 1, at(src), sync, parts, wildcard)


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
