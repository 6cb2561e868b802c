"""Answers of neighbours, and what they settle (docs/contract.md, section 5)."""

from __future__ import annotations

import pytest

from taskd_net.base.codes import Code
from taskd_net.core.frame import Ack
from taskd_net.core.links import UP
from taskd_net.core.ready import Lost, SignsOfLife
from tests.core.driven import Answer, Deliver, Forward
from tests.core.invariants import check
from tests.core.routers import (
    STRANGER,
    Caller,
    add_child,
    answers,
    at,
    frame,
    hops,
    joined,
    router,
)

INF = float("inf")


def test_ack_goes_to_whoever_waits_with_its_code_and_source() -> None:
    proxy, ask = joined("Proxy/0"), Caller()
    child = add_child(proxy, "Worker/0/0")
    for code, detail in ((Code.OK, ""), (Code.RECV_BUF_BUSY, "words"), (Code.NETWORK_ACK_LOST, ""), (4711, "words")):
        proxy.frame_arrived(0.0, child.id, frame("Worker/9/9", "Worker/0/0"), ask)
        acked = proxy.ack_arrived(0.1, UP, "u", code, at("Proxy/9"), detail)
        assert acked == [Answer(ask, Ack("u", code, at("Proxy/9"), detail, int(code == 0)))]
    assert proxy.statistics.late_acks == 0


def test_accepted_unicast_is_answered_in_the_name_of_its_receiver() -> None:
    proxy, ask = joined("Proxy/0"), Caller()
    proxy.frame_arrived(0.0, STRANGER, frame("Worker/9/9", "Worker/0/0"), ask)
    assert proxy.accepted(0.1, UP, ["u"]) == [Answer(ask, Ack("u", Code.OK, at("Worker/9/9"), receivers=1))]


def test_accepted_own_async_message_is_answered_in_the_name_of_the_first_hop() -> None:
    worker = joined("Worker/0/0", "Proxy/0")
    worker.send(0.0, frame("Mgr", "Worker/0/0", sync=False), Caller(), 1.0)
    assert answers(worker.accepted(0.1, UP, ["u"], sync=False)) == [(Code.OK, "Proxy/0")]


def test_late_ack_is_dropped_and_counted() -> None:
    mgr = router("Mgr")
    child = add_child(mgr, "Worker/0/0")
    mgr.send(0.0, frame("Worker/0/0"), Caller(), 1.0)
    assert answers(mgr.tick(1.0)) == [(Code.NETWORK_ACK_LOST, "Worker/0/0")]
    assert mgr.ack_arrived(1.1, child.id, "u", Code.OK, at("Worker/0/0")) == []
    assert mgr.accepted(1.1, child.id, ["u", "v"]) == []
    assert mgr.statistics.late_acks == 3


def test_ack_from_a_link_that_does_not_have_the_message_is_dropped() -> None:
    mgr = router("Mgr")
    child, other = add_child(mgr, "Worker/0/0"), add_child(mgr, "Worker/0/1")
    mgr.send(0.0, frame("Worker/0/0"), Caller(), 1.0)
    assert mgr.ack_arrived(0.1, other.id, "u", Code.NO_ROUTE, at("Worker/0/1")) == []
    assert mgr.ack_arrived(0.1, 77, "u", Code.NO_ROUTE, at("Worker/0/1")) == []
    assert mgr.accepted(0.1, 77, ["u"]) == []
    assert answers(mgr.accepted(0.1, child.id, ["u"])) == [(Code.OK, "Worker/0/0")]


def test_ack_is_never_taken_for_another_senders_message() -> None:
    """An Ack carries only the uuid: while one is in flight, another sender's message with the same one waits."""
    mgr, first, asked = router("Mgr"), Caller("first"), [Caller(str(number)) for number in range(3)]
    child = add_child(mgr, "Worker/0/0")
    mgr.send(0.0, frame("Worker/0/0", "Mgr"), first, 1.0)
    for sender, ask in zip(("Worker/0/1", "Worker/0/2"), asked, strict=False):
        assert mgr.frame_arrived(0.0, STRANGER, frame("Worker/0/0", sender), ask, 10.0) == []
    assert mgr.send(0.0, frame("Worker/0/0", "Mgr", sync=False), asked[2], 1.0) == []
    assert child.queued_messages == 4
    for ask, following in ((first, asked[0]), (asked[0], asked[1])):
        answer, forward = mgr.accepted(0.1, child.id, ["u"])
        assert isinstance(answer, Answer) and isinstance(forward, Forward)
        assert (answer.reply, answer.ack.code) == (ask, Code.OK)
        assert forward.frame.src == at(f"Worker/0/{asked.index(following) + 1}")
    answer, forward = mgr.ack_arrived(0.2, child.id, "u", Code.RECV_BUF_BUSY, at("Worker/0/0"))
    assert isinstance(answer, Answer) and answer.reply is asked[1]
    assert isinstance(forward, Forward) and not forward.frame.sync
    check(mgr.core)


def test_message_whose_uuid_stays_in_flight_is_answered_in_time() -> None:
    mgr, ask = router("Mgr"), Caller()
    child = add_child(mgr, "Worker/0/0")
    mgr.send(0.0, frame("Worker/0/0", "Mgr"), Caller(), 5.0)
    mgr.send(0.0, frame("Worker/0/0", "Mgr", sync=False), ask, 1.0)
    assert mgr.next_deadline() == 1.0
    assert answers(mgr.tick(1.0)) == [(Code.RECV_BUF_BUSY, "Mgr/0")]
    assert (child.queued_messages, len(child.in_flight)) == (1, 1)


def test_message_whose_uuid_may_still_be_answered_goes_when_it_was_or_when_the_stream_is_new() -> None:
    mgr = router("Mgr")
    child = add_child(mgr, "Worker/0/0")
    mgr.send(0.0, frame("Worker/0/0", "Mgr"), Caller(), 1.0)
    assert answers(mgr.tick(1.0)) == [(Code.NETWORK_ACK_LOST, "Worker/0/0")]
    other = frame("Worker/0/0", "Worker/0/1")
    assert mgr.frame_arrived(1.0, STRANGER, other, Caller(), 5.0) == []
    # The late answer is nobody's, and now the uuid is free.
    assert hops(mgr.accepted(1.1, child.id, ["u"])) == [child.id]
    assert mgr.statistics.late_acks == 1
    mgr.tick(3.0 + 1.0)
    assert mgr.frame_arrived(4.0, STRANGER, frame("Worker/0/0", "Worker/0/2"), Caller(), 5.0) == []
    down = mgr.link_down(4.1, child, child.session, [])
    assert answers(down) == [(Code.NETWORK_SEND_LOST, "Worker/0/0")]
    assert child.queued_messages == 0
    check(mgr.core)


def test_collision_that_cannot_go_when_its_turn_comes_is_refused() -> None:
    mgr = router("Mgr", link_messages=2)
    child = add_child(mgr, "Worker/0/0")
    child.in_flight_limit = 2
    mgr.send(0.0, frame("Worker/0/0", "Mgr"), Caller(), 1.0)
    assert mgr.send(0.0, frame("Worker/0/0", "Mgr", sync=False), Caller(), 1.0) == []
    child.in_flight_limit = 0
    assert answers(mgr.accepted(0.1, child.id, ["u"])) == [(Code.OK, "Worker/0/0"), (Code.RECV_BUF_BUSY, "Mgr/0")]


def test_post_that_was_written_frees_its_uuid() -> None:
    mgr = router("Mgr")
    child = add_child(mgr, "Worker/0/0")
    post = frame("Worker/0/0", "Mgr", sync=False)
    mgr.send(0.0, post, Caller(), 1.0)
    assert mgr.send(0.0, frame("Worker/0/0", "Mgr"), Caller(), 1.0) == []
    assert answers(mgr.post_answered(0.1, child.id, post, Code.OK, at("Worker/0/0"))) == [(Code.OK, "Worker/0/0")]
    assert mgr.next_deadline() == 0.1
    (forward,) = mgr.tick(0.1)
    assert isinstance(forward, Forward) and forward.frame.sync


def test_collisions_are_answered_when_the_node_closes() -> None:
    mgr = router("Mgr")
    add_child(mgr, "Worker/0/0")
    mgr.send(0.0, frame("Worker/0/0", "Mgr"), Caller(), 1.0)
    mgr.send(0.0, frame("Worker/0/0", "Mgr", sync=False), Caller(), 1.0)
    assert sorted(code for code, _ in answers(mgr.close())) == [Code.NETWORK_SEND_LOST, Code.NETWORK_ACK_LOST]


def test_numbered_link_takes_any_uuid_at_once() -> None:
    proxy = router("Proxy/0")
    proxy.upstream_up(0.0, "up", at("Mgr"), numbered=True)
    asks = [Caller(str(rank)) for rank in range(3)]
    numbers = []
    for rank, ask in enumerate(asks):
        (forward,) = proxy.frame_arrived(0.0, STRANGER, frame("Mgr", f"Worker/0/{rank}"), ask, 5.0)
        assert isinstance(forward, Forward)
        numbers.append(forward.number)
    assert numbers == [1, 2, 3]
    (last,) = proxy.accepted(0.1, UP, [3])
    (first,) = proxy.ack_arrived(0.1, UP, 1, Code.RECV_BUF_BUSY, at("Mgr"))
    assert isinstance(last, Answer) and isinstance(first, Answer)
    assert (last.reply, first.reply) == (asks[2], asks[0])
    assert proxy.accepted(0.2, UP, [3, 77]) == []
    assert proxy.statistics.late_acks == 2
    assert answers(proxy.upstream_down(0.3, "up", [])) == [(Code.NETWORK_ACK_LOST, "Mgr/0")]


def test_resend_while_the_first_is_in_flight_both_are_answered_in_order() -> None:
    mgr, first, second = router("Mgr"), Caller("first"), Caller("second")
    child = add_child(mgr, "Worker/0/0")
    mgr.send(0.0, frame("Worker/0/0"), first, 1.0)
    mgr.send(0.0, frame("Worker/0/0"), second, 1.0)
    (one,) = mgr.ack_arrived(0.1, child.id, "u", Code.RECV_BUF_BUSY, at("Worker/0/0"))
    (two,) = mgr.accepted(0.1, child.id, ["u"])
    assert isinstance(one, Answer)
    assert isinstance(two, Answer)
    assert (one.reply, one.ack.code, two.reply, two.ack.code) == (first, Code.RECV_BUF_BUSY, second, Code.OK)


def test_frames_that_arrive_together_are_decided_in_order() -> None:
    proxy, ask = joined("Proxy/0", inbox=1), Caller()
    child = add_child(proxy, "Worker/0/0")
    one, two, three = frame("Proxy/0", uuid="1"), frame("Worker/0/0", uuid="2"), frame("Worker/9/9", uuid="3")
    actions = proxy.frames_arrived(0.0, UP, [(one, ask, 1.0), (two, ask, 1.0), (three, None, None)])
    assert actions[0] == Deliver(one)
    assert actions[2] == Forward(child.id, two, 0.95)
    assert actions[3] == Lost(three, Code.NO_ROUTE, at("Proxy/0"), "Proxy/0 knows no way to Worker/9/9")


def test_async_message_is_answered_once_the_first_hop_has_it() -> None:
    proxy, ask = joined("Proxy/0"), Caller()
    child = add_child(proxy, "Worker/0/0")
    message = frame("Mgr", "Worker/0/0", sync=False)
    assert proxy.frame_arrived(0.0, child.id, message, ask) == [
        Forward(UP, message, 0.0),
        Answer(ask, Ack("u", Code.OK, at("Proxy/0"))),
    ]
    assert proxy.tick(1e9) == []


@pytest.mark.parametrize(
    ("code", "lost"), [(Code.OK, 0), (Code.RECV_BUF_BUSY, 1), (Code.NO_ROUTE, 1), (Code.NETWORK_SEND_LOST, 1)]
)
def test_async_message_that_a_later_hop_refuses_is_counted(code: Code, lost: int) -> None:
    proxy = joined("Proxy/0")
    message = frame("Mgr", "Worker/0/0", sync=False)
    proxy.frame_arrived(0.0, STRANGER, message, Caller())
    actions = proxy.post_answered(0.1, UP, message, code, at("Mgr"), "words")
    assert actions == [Lost(message, code, at("Mgr"), "words")] * lost
    assert proxy.statistics.lost == lost


def test_own_async_message_is_answered_and_never_counted_as_lost() -> None:
    worker = joined("Worker/0/0", "Proxy/0")
    message = frame("Mgr", "Worker/0/0", sync=False)
    worker.send(0.0, message, Caller(), 1.0)
    answered = worker.post_answered(0.1, UP, message, Code.RECV_BUF_BUSY, at("Proxy/0"))
    assert answers(answered) == [(Code.RECV_BUF_BUSY, "Proxy/0")]
    # and again, when nobody waits any more; or from a link that is gone
    assert worker.post_answered(0.2, UP, message, Code.RECV_BUF_BUSY, at("Proxy/0")) == []
    assert worker.post_answered(0.2, 77, message, Code.RECV_BUF_BUSY, at("Proxy/0")) == []
    assert worker.statistics.lost == 0


def test_answer_to_a_passed_on_message_is_not_taken_for_an_awaited_one_with_its_uuid() -> None:
    proxy = joined("Proxy/0")
    passed = frame("Mgr", "Worker/0/0", sync=False)
    proxy.frame_arrived(0.0, STRANGER, passed, Caller())
    proxy.send(0.0, frame("Mgr", "Proxy/0", sync=False), Caller(), 1.0)
    assert proxy.post_answered(0.1, UP, passed, Code.OK, at("Mgr")) == []
    assert answers(proxy.tick(1.0)) == [(Code.NETWORK_ACK_LOST, "Mgr/0")]


@pytest.mark.parametrize("to", ["Worker/9/9", "Proxy/All", "Worker/0/0"])
def test_async_message_from_above_that_cannot_go_on_is_counted(to: str) -> None:
    proxy = joined("Proxy/0", inbox=0)
    proxy.register(0.0, at("Worker/0/0"))  # no stream
    message = frame(to, sync=False)
    (lost,) = proxy.frame_arrived(0.0, UP, message, None)
    assert isinstance(lost, Lost)
    assert lost.frame is message
    assert proxy.statistics.lost == 1


def test_sync_message_that_nobody_waits_for_is_passed_on_without_an_answer() -> None:
    proxy = joined("Proxy/0")
    child = add_child(proxy, "Worker/0/0")
    message = frame("Worker/0/0")
    assert proxy.frame_arrived(0.0, UP, message, None) == [Forward(child.id, message, 0.0)]
    own = frame("Proxy/0", uuid="own")
    assert proxy.frame_arrived(0.0, UP, own, None) == [Deliver(own)]


def test_silent_neighbour_is_noticed_and_answered_for_until_it_gives_a_sign_of_life() -> None:
    mgr = router("Mgr")
    child = add_child(mgr, "Worker/0/0")
    mgr.send(0.0, frame("Worker/0/0", uuid="early"), Caller(), 9.0)
    gone = mgr.signs_of_life(8.0, child.id, child.session, seen=False)
    assert gone[0] == SignsOfLife(child.id, at("Worker/0/0"), seen=False)
    assert answers(gone[1:]) == [(Code.NETWORK_ACK_LOST, "Worker/0/0")]
    assert (child.silent, child.silent_at) == (True, 8.0)
    assert answers(mgr.send(8.1, frame("Worker/0/0", uuid="late"), Caller(), 9.0)) == [(6001, "Worker/0/0")]
    assert mgr.signs_of_life(9.0, child.id, child.session, seen=True) == [
        SignsOfLife(child.id, at("Worker/0/0"), seen=True)
    ]
    (after,) = mgr.send(9.1, frame("Worker/0/0", uuid="after"), Caller(), 9.0)
    assert isinstance(after, Forward)


def test_sign_of_life_of_an_older_stream_counts_for_nothing() -> None:
    mgr = router("Mgr")
    child = add_child(mgr, "Worker/0/0")
    assert mgr.signs_of_life(8.0, child.id, object(), seen=False) == []
    assert mgr.signs_of_life(8.0, 77, child.session, seen=False) == []
    assert not child.silent


def test_stream_that_goes_on_over_another_connection_is_a_sign_of_life() -> None:
    mgr = router("Mgr")
    child = add_child(mgr, "Worker/0/0")
    mgr.signs_of_life(8.0, child.id, child.session, seen=False)
    mgr.renewed(child.id, "the next")
    assert not child.silent
