"""Every event of a Router and what it decides. The invariants are checked after each (`Driven`)."""

from __future__ import annotations

import pytest

from taskd_net import limits
from taskd_net.codes import Code, Refusal
from taskd_net.core.decisions import Statistics
from taskd_net.core.frame import Ack
from taskd_net.core.links import UP
from taskd_net.core.ready import Announce, EndStream, Forgot, Joined, Kind, Lost, Reason
from taskd_net.core.router_config import RouterConfig
from taskd_net.core.topology import LOCAL
from tests.core.driven import Answer, Deliver, Driven, Forward
from tests.core.invariants import check
from tests.core.routers import (
    STRANGER,
    Caller,
    add_child,
    answers,
    at,
    everybody,
    frame,
    hops,
    join,
    joined,
    router,
    stand,
)

INF = float("inf")


# ---- where a unicast goes (contract, section 4)


def test_rule_1_a_message_for_this_node_goes_into_the_inbox() -> None:
    proxy, ask = joined("Proxy/0"), Caller()
    child = add_child(proxy, "Worker/0/0")
    for came_from in (UP, child.id, STRANGER):
        message = frame("Proxy/0", "Worker/0/0", uuid=str(came_from))
        actions = proxy.frame_arrived(1.0, came_from, message, ask)
        assert actions == [Deliver(message), Answer(ask, Ack(message.uuid, Code.OK, at("Proxy/0"), receivers=1))]


def test_rule_2_a_known_way_goes_down() -> None:
    proxy = joined("Proxy/0")
    worker = add_child(proxy, "Worker/0/0")
    other = add_child(proxy, "Proxy/7", "Worker/7/70")
    assert hops(proxy.frame_arrived(1.0, UP, frame("Worker/0/0"), Caller())) == [worker.id]
    assert hops(proxy.frame_arrived(1.0, UP, frame("Worker/7/70", uuid="v"), Caller())) == [other.id]
    assert hops(proxy.frame_arrived(1.0, worker.id, frame("Worker/7/70", "Worker/0/0"), Caller())) == [other.id]


def test_rule_3_an_unknown_way_goes_up_if_the_message_came_from_below_or_from_here() -> None:
    proxy = joined("Proxy/0")
    child = add_child(proxy, "Worker/0/0")
    for uuid, came_from in enumerate((child.id, STRANGER)):
        message = frame("Worker/9/99", "Worker/0/0", uuid=str(uuid))
        assert hops(proxy.frame_arrived(1.0, came_from, message, Caller())) == [UP]
    assert hops(proxy.send(1.0, frame("Worker/9/99", "Proxy/0", uuid="own"), Caller(), 1.0)) == [UP]


@pytest.mark.parametrize("to", ["Worker/9/99", "Mgr", "Agent/0", "Worker/All/0,1", "Proxy/All", "Worker/All/All"])
@pytest.mark.parametrize("sync", [True, False])
def test_rule_4_a_message_from_above_never_goes_up_again(to: str, sync: bool) -> None:
    proxy = joined("Proxy/3")
    ask = Caller()
    message = frame(to, "Proxy/3", sync=sync)
    assert answers(proxy.frame_arrived(1.0, UP, message, ask)) == [(Code.NO_ROUTE, "Proxy/3")]
    assert proxy.statistics.forwarded == 0


def test_rule_4_the_root_has_nowhere_else_to_send_it() -> None:
    mgr = router("Mgr")
    child = add_child(mgr, "Proxy/0")
    assert answers(mgr.send(0.0, frame("Worker/0/0"), Caller(), 1.0)) == [(Code.NO_ROUTE, "Mgr/0")]
    message = frame("Worker/0/0", "Proxy/0")
    assert answers(mgr.frame_arrived(0.0, child.id, message, Caller())) == [(Code.NO_ROUTE, "Mgr/0")]


def test_split_horizon_a_message_never_goes_back_where_it_came_from() -> None:
    """The child does not know the way either: it would send it up again for ever."""
    for parent in (router("Mgr"), joined("Proxy/0")):
        child = add_child(parent, "Proxy/1", "Worker/1/8", "Worker/1/9")
        message = frame("Worker/1/8", "Worker/1/9")
        expected = [(Code.NO_ROUTE, str(parent.position))]
        assert answers(parent.frame_arrived(1.0, child.id, message, Caller())) == expected


def test_roles_other_than_worker_are_found_whatever_their_process_rank() -> None:
    mgr = router("Mgr")
    link = mgr.register(0.0, at("Agent/0/start-time"))
    mgr.link_up(0.0, link, "s")
    assert hops(mgr.send(0.0, frame("Agent/0"), Caller(), 1.0)) == [link.id]


def test_an_agent_never_gets_a_workers_message() -> None:
    mgr = router("Mgr")
    add_child(mgr, "Agent/0")
    assert answers(mgr.send(0.0, frame("Worker/0/0"), Caller(), 1.0)) == [(Code.NO_ROUTE, "Mgr/0")]


def test_known_next_hop_without_a_stream_is_6002() -> None:
    mgr = router("Mgr")
    mgr.register(0.0, at("Worker/0/0"))
    assert answers(mgr.send(0.0, frame("Worker/0/0"), Caller(), 1.0)) == [(Code.NET_STREAM_NOT_INITED, "Mgr/0")]


def test_message_from_below_while_the_upstream_is_away_is_6002() -> None:
    proxy = router("Proxy/0")
    child = add_child(proxy, "Worker/0/0")
    expected = [(Code.NET_STREAM_NOT_INITED, "Proxy/0")]
    for sync in (True, False):
        message = frame("Mgr", "Worker/0/0", sync=sync)
        assert answers(proxy.frame_arrived(1.0, child.id, message, Caller())) == expected


# ---- broadcast and multicast


def test_broadcast_crosses_each_link_once_and_is_answered_when_every_branch_has_been() -> None:
    mgr, ask = router("Mgr"), Caller()
    one = add_child(mgr, "Proxy/0", "Worker/0/0", "Worker/0/1", "Worker/0/2")
    two = add_child(mgr, "Proxy/1", "Worker/1/8")
    message = frame("Worker/All/All")
    actions = mgr.send(0.0, message, ask, 2.0)
    assert actions == [Forward(one.id, message, 2.0), Forward(two.id, message, 2.0)]
    assert mgr.accepted(0.1, one.id, ["u"]) == []
    assert mgr.accepted(0.2, two.id, ["u"]) == [Answer(ask, Ack("u", Code.OK, at("Proxy/0")))]


def test_broadcast_goes_to_everybody_but_the_sender() -> None:
    proxy = joined("Proxy/0")
    sender, other = add_child(proxy, "Worker/0/0"), add_child(proxy, "Worker/0/1")
    message = frame("Worker/All/All", "Worker/0/0")
    assert hops(proxy.frame_arrived(0.0, sender.id, message, Caller())) == [other.id, UP]
    own = frame("Proxy/All", "Proxy/0", uuid="own")
    assert hops(proxy.send(0.0, own, Caller(), 1.0)) == [UP]


def test_broadcast_from_above_goes_down_and_into_the_own_inbox_only() -> None:
    proxy, ask = joined("Proxy/0"), Caller()
    below = add_child(proxy, "Proxy/1")
    message = frame("Proxy/All")
    assert proxy.frame_arrived(0.0, UP, message, ask) == [Deliver(message), Forward(below.id, message, 3.0 * 0.8)]
    assert answers(proxy.ack_arrived(0.1, below.id, "u", Code.OK, at("Proxy/1"))) == [(Code.OK, "Proxy/0")]


@pytest.mark.parametrize(
    ("codes", "failure"),
    [
        ((0, 0), None),
        ((0, 5001), (5001, "Worker/1/8")),
        ((5001, 0), (5001, "Worker/0/0")),
        ((6001, 5001), (6001, "Worker/0/0")),
        ((0, 5002), None),
        ((5002, 0), None),
        ((5002, 6001), (6001, "Worker/1/8")),
        ((6001, 5002), (6001, "Worker/0/0")),
        ((5002, 5002), (5002, "Worker/0/0")),
    ],
)
def test_answer_to_a_broadcast_is_0_only_if_all_took_it(
    codes: tuple[int, int], failure: tuple[int, str] | None
) -> None:
    """Otherwise the first failure and who reported it; that nobody in one branch matches is none."""
    mgr = router("Mgr")
    one, two = add_child(mgr, "Proxy/0", "Worker/0/0"), add_child(mgr, "Proxy/1", "Worker/1/8")
    mgr.send(0.0, frame("Worker/All/All"), Caller(), 1.0)
    assert mgr.ack_arrived(0.1, one.id, "u", codes[0], at("Worker/0/0")) == []
    (answer,) = answers(mgr.ack_arrived(0.2, two.id, "u", codes[1], at("Worker/1/8")))
    assert answer == failure if failure else answer[0] == Code.OK


def test_missing_rank_of_a_list_is_5002_and_the_others_get_the_message() -> None:
    mgr = router("Mgr")
    child = add_child(mgr, "Proxy/0", "Worker/0/0", "Worker/0/3")
    assert hops(mgr.send(0.0, frame("Worker/All/0,3,99"), Caller(), 1.0)) == [child.id]
    (action,) = mgr.accepted(0.1, child.id, ["u"])
    assert isinstance(action, Answer)
    assert (action.ack.code, action.ack.detail) == (Code.NO_ROUTE, "there is no Worker with processRank 99")


def test_missing_rank_does_not_hide_a_failure_of_the_others() -> None:
    mgr = router("Mgr")
    child = add_child(mgr, "Proxy/0", "Worker/0/0")
    mgr.send(0.0, frame("Worker/All/0,99"), Caller(), 1.0)
    acked = mgr.ack_arrived(0.1, child.id, "u", Code.RECV_BUF_BUSY, at("Worker/0/0"))
    assert answers(acked) == [(Code.RECV_BUF_BUSY, "Worker/0/0")]


def test_branch_without_receivers_is_a_failure_of_a_list() -> None:
    """Somebody was asked for by name: 5002 of one branch is not made good by another."""
    mgr = router("Mgr")
    one, two = add_child(mgr, "Proxy/0", "Worker/0/0"), add_child(mgr, "Proxy/1", "Worker/1/1")
    mgr.send(0.0, frame("Worker/All/0,1"), Caller(), 1.0)
    assert mgr.accepted(0.1, one.id, ["u"]) == []
    acked = mgr.ack_arrived(0.1, two.id, "u", Code.NO_ROUTE, at("Proxy/1"))
    assert answers(acked) == [(Code.NO_ROUTE, "Proxy/1")]


def test_missing_rank_of_an_async_list() -> None:
    """The answer still says so, though it speaks for the first hop alone; from above nobody hears it: it is counted."""
    mgr = router("Mgr")
    child = add_child(mgr, "Proxy/0", "Worker/0/0")
    message = frame("Worker/All/0,99", sync=False)
    forward, answer = mgr.frame_arrived(0.0, STRANGER, message, Caller())
    assert forward == Forward(child.id, message, 0.0)
    assert answers([answer]) == [(Code.NO_ROUTE, "Mgr/0")]


def test_list_of_which_all_are_below_need_not_go_up() -> None:
    """So it works without the Mgr, also from here and while the upstream is away."""
    proxy = router("Proxy/0")
    one, two = add_child(proxy, "Worker/0/0"), add_child(proxy, "Worker/0/1")
    assert hops(proxy.send(0.0, frame("Worker/0/0,1", "Proxy/0", uuid="own"), Caller(), 1.0)) == [one.id, two.id]
    assert hops(proxy.frame_arrived(0.0, one.id, frame("Worker/0/0,1", "Worker/0/0"), Caller())) == [two.id]


@pytest.mark.parametrize("to", ["Worker/All/0,1", "Worker/0/0,1,2", "Worker/0,1/0,1", "Worker/0/All", "Worker/0,1/All"])
def test_list_of_which_some_may_be_elsewhere_goes_up_as_well(to: str) -> None:
    proxy = joined("Proxy/0")
    one, two = add_child(proxy, "Worker/0/0"), add_child(proxy, "Worker/0/1")
    assert hops(proxy.send(0.0, frame(to, "Proxy/0"), Caller(), 1.0)) == [one.id, two.id, UP]


def test_list_that_names_the_sender_does_not_come_back_to_it() -> None:
    worker = joined("Worker/0/0", "Proxy/0")
    assert hops(worker.send(0.0, frame("Worker/All/0,1", "Worker/0/0"), Caller(), 1.0)) == [UP]
    mgr = router("Mgr")
    sender, other = add_child(mgr, "Worker/0/0"), add_child(mgr, "Worker/0/1")
    message = frame("Worker/All/0,1", "Worker/0/0")
    assert hops(mgr.frame_arrived(0.0, sender.id, message, Caller())) == [other.id]
    assert answers(mgr.accepted(0.1, other.id, ["u"])) == [(Code.OK, "Worker/0/1")]


@pytest.mark.parametrize("parent", ["Mgr", "Proxy/0"])
def test_multicast_whose_receivers_all_lie_where_it_came_from_is_done(parent: str) -> None:
    """The child sent it up because it could not know that; it has reached everybody already."""
    node = router(parent)
    child = add_child(node, "Proxy/1", "Worker/1/8", "Worker/1/9")
    message = frame("Worker/1/8,9", "Proxy/1")
    assert answers(node.frame_arrived(0.0, child.id, message, Caller())) == [(Code.OK, str(node.position))]


def test_all_with_nobody_is_5002() -> None:
    mgr = router("Mgr")
    alone = add_child(mgr, "Worker/0/0")
    assert answers(mgr.send(0.0, frame("Agent/All"), Caller(), 1.0)) == [(Code.NO_ROUTE, "Mgr/0")]
    to_itself = frame("Worker/All/All", "Worker/0/0")
    assert answers(mgr.frame_arrived(0.0, alone.id, to_itself, Caller())) == [(Code.NO_ROUTE, "Mgr/0")]
    assert answers(mgr.send(0.0, frame("Mgr/All"), Caller(), 1.0)) == [(Code.NO_ROUTE, "Mgr/0")]


def test_broadcast_over_a_branch_without_a_stream_fails_for_that_branch_alone() -> None:
    mgr = router("Mgr")
    one = add_child(mgr, "Worker/0/0")
    mgr.register(0.0, at("Worker/0/1"))
    assert hops(mgr.send(0.0, frame("Worker/All/All"), Caller(), 1.0)) == [one.id]
    assert answers(mgr.accepted(0.1, one.id, ["u"])) == [(Code.NET_STREAM_NOT_INITED, "Mgr/0")]


def test_own_async_broadcast_is_answered_when_every_first_hop_has_it() -> None:
    mgr = router("Mgr")
    links = [add_child(mgr, "Worker/0/0"), add_child(mgr, "Worker/0/1")]
    message = frame("Worker/All/All", sync=False)
    assert hops(mgr.send(0.0, message, Caller(), 1.0)) == [link.id for link in links]
    assert mgr.post_answered(0.1, links[0].id, message, Code.OK, at("Worker/0/0")) == []
    assert answers(mgr.post_answered(0.1, links[1].id, message, Code.OK, at("Worker/0/1"))) == [(Code.OK, "Worker/0/0")]


# ---- answers


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


# ---- messages that meet


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


# ---- sync=false on the way


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


# ---- bounds of a link


@pytest.mark.parametrize("bounds", [{"link_messages": 2}, {"link_bytes": 29}])
def test_beyond_a_links_bound_the_answer_is_5001_at_once(bounds: dict[str, int]) -> None:
    mgr = router("Mgr", **bounds)
    child, sibling = add_child(mgr, "Worker/0/0"), add_child(mgr, "Worker/0/1")
    for uuid in "ab":
        assert hops(mgr.send(0.0, frame("Worker/0/0", uuid=uuid), Caller(), 1.0)) == [child.id]
    for sync in (True, False):
        full = mgr.send(0.0, frame("Worker/0/0", uuid="c", sync=sync), Caller(), 1.0)
        assert answers(full) == [(Code.RECV_BUF_BUSY, "Mgr/0")]
    # One child's trouble is nobody else's.
    assert hops(mgr.send(0.0, frame("Worker/0/1"), Caller(), 1.0)) == [sibling.id]
    mgr.written(child.id, "an older stream", 1, 10)
    mgr.written(77, "Worker/0/0", 1, 10)
    assert answers(mgr.send(0.0, frame("Worker/0/0", uuid="c"), Caller(), 1.0)) == [(Code.RECV_BUF_BUSY, "Mgr/0")]
    mgr.written(child.id, "Worker/0/0", 1, 10)
    assert hops(mgr.send(0.0, frame("Worker/0/0", uuid="c"), Caller(), 1.0)) == [child.id]


@pytest.mark.parametrize(
    ("child", "limit"), [("Worker/0/0", 1024), ("Agent/0", 1024), ("Proxy/0", limits.SHARED_IN_FLIGHT)]
)
def test_messages_in_flight_are_bounded(child: str, limit: int) -> None:
    mgr = Driven(at("Mgr"), upstream=False, config=RouterConfig())
    link = add_child(mgr, child)
    for i in range(limit):
        mgr.send(0.0, frame(child, uuid=str(i)), Caller(), 1.0)
        mgr.written(link.id, child, 1, 10)
    assert answers(mgr.send(0.0, frame(child), Caller(), 1.0)) == [(Code.RECV_BUF_BUSY, "Mgr/0")]
    mgr.accepted(0.1, link.id, ["17"])
    assert hops(mgr.send(0.1, frame(child), Caller(), 1.0)) == [link.id]


# ---- timeouts


def test_no_answer_in_time_is_6001_with_the_position_that_was_silent() -> None:
    mgr, ask = router("Mgr"), Caller()
    add_child(mgr, "Proxy/0", "Worker/0/0")
    assert mgr.tick(10.0) == []  # the registration's hold, which the stream has ended
    mgr.send(10.0, frame("Worker/0/0"), ask, 2.0)
    assert mgr.next_deadline() == 12.0
    assert mgr.tick(11.999) == []
    assert mgr.tick(12.0) == [Answer(ask, Ack("u", Code.NETWORK_ACK_LOST, at("Proxy/0"), "no answer in time", 0))]
    assert mgr.next_deadline() == INF
    check(mgr.core)


def test_only_what_is_due_is_given_up() -> None:
    mgr = router("Mgr")
    add_child(mgr, "Worker/0/0")
    mgr.send(0.0, frame("Worker/0/0", uuid="late"), Caller(), 5.0)
    mgr.send(0.0, frame("Worker/0/0", uuid="soon"), Caller(), 1.0)
    (action,) = mgr.tick(1.0)
    assert isinstance(action, Answer)
    assert (action.ack.uuid, mgr.next_deadline()) == ("soon", 5.0)


@pytest.mark.parametrize("depth", range(7))
def test_downwards_a_node_waits_four_fifths_of_what_its_parent_waits(depth: int) -> None:
    node = joined("Proxy/0", depth=depth, ack_timeout=3.0)
    child = add_child(node, "Worker/0/0")
    message = frame("Worker/0/0")
    assert node.frame_arrived(0.0, UP, message, Caller()) == [Forward(child.id, message, 3.0 * 0.8**depth)]


def test_parent_that_does_not_say_its_depth_is_taken_for_the_mgr() -> None:
    node = router("Proxy/0", ack_timeout=3.0)
    node.upstream_up(0.0, "up", at("Mgr"))
    child = add_child(node, "Worker/0/0")
    message = frame("Worker/0/0")
    assert node.frame_arrived(0.0, UP, message, Caller()) == [Forward(child.id, message, 3.0 * 0.8)]


@pytest.mark.parametrize(
    ("budget", "up", "down"),
    [(None, 2.85, 2.4), (2.0, 1.9, 1.9), (2.9, 2.755, 2.4), (1000.0, 2.85, 2.4)],
)
def test_a_hop_spends_95_percent_of_what_is_left(budget: float | None, up: float, down: float) -> None:
    """And never more than its own timeout, whatever the sender has."""
    proxy = joined("Proxy/0", depth=1, ack_timeout=3.0)
    add_child(proxy, "Worker/0/0"), add_child(proxy, "Worker/0/1")
    (upwards,) = proxy.frame_arrived(0.0, STRANGER, frame("Mgr", "Worker/0/0"), Caller(), budget)
    (downwards,) = proxy.frame_arrived(0.0, STRANGER, frame("Worker/0/1", "Worker/0/0"), Caller(), budget)
    *_, down_of_all, up_of_all = proxy.frame_arrived(
        0.0, STRANGER, frame("Worker/All/All", "Worker/9/9", uuid="all"), Caller(), budget
    )
    for action, patience in ((upwards, up), (downwards, down), (up_of_all, up), (down_of_all, down)):
        assert isinstance(action, Forward)
        assert action.patience == pytest.approx(patience)


def test_a_parent_never_gives_up_before_its_child() -> None:
    """Along a path of seven hops, up and down again, each gives the next less than it has itself."""
    budget = 3.0
    for depth in (6, 5, 4, 3, 2, 1):
        proxy = joined("Proxy/0", depth=depth)
        (action,) = proxy.frame_arrived(0.0, STRANGER, frame("Worker/9/9", "Worker/0/0"), Caller(), budget)
        assert isinstance(action, Forward) and 0 < action.patience < budget
        budget = action.patience
    for depth in range(7):
        node = joined("Proxy/0", depth=depth) if depth else router("Mgr")
        add_child(node, "Worker/9/9")
        came_from = UP if depth else STRANGER
        (action,) = node.frame_arrived(0.0, came_from, frame("Worker/9/9", "Worker/0/0"), Caller(), budget)
        assert isinstance(action, Forward) and 0 < action.patience < budget
        budget = action.patience


# ---- sending before the node has joined


def test_send_before_joining_waits_for_the_join() -> None:
    worker, ask = router("Worker/0/0"), Caller()
    messages = [frame("Mgr", "Worker/0/0", uuid=str(i), sync=i != 1) for i in range(3)]
    broadcast = frame("Worker/All/All", "Worker/0/0", uuid="all")
    for message in (*messages, broadcast):
        assert worker.send(0.0, message, ask, 2.0) == []
    assert worker.next_deadline() == 2.0
    # In order, and with what is left of each one's time. The first one shows that the others can follow.
    assert join(worker, "Proxy/0", now=0.5) == [Forward(UP, message, 1.5) for message in (messages[0], broadcast)]
    assert answers(worker.accepted(0.5, UP, ["0"])) == [(Code.OK, "Mgr/0")]
    assert worker.tick(0.5) == [Forward(UP, message, 1.5) for message in messages[1:]]
    assert worker.statistics.sent == 4


def test_send_that_waits_for_the_join_longer_than_its_timeout_is_6002() -> None:
    worker = router("Worker/0/0")
    worker.send(0.0, frame("Mgr", "Worker/0/0", uuid="long"), Caller(), 2.0)
    worker.send(0.0, frame("Mgr", "Worker/0/0", uuid="short"), Caller(), 1.0)
    assert answers(worker.tick(1.0)) == [(Code.NET_STREAM_NOT_INITED, "Worker/0/0")]
    assert worker.next_deadline() == 2.0
    assert hops(join(worker, now=1.5)) == [UP]


@pytest.mark.parametrize("bounds", [{"link_messages": 2}, {"link_bytes": 29}])
def test_sends_that_wait_for_the_join_are_bounded(bounds: dict[str, int]) -> None:
    worker = router("Worker/0/0", **bounds)
    for uuid in "ab":
        assert worker.send(0.0, frame("Mgr", "Worker/0/0", uuid=uuid), Caller(), 1.0) == []
    full = frame("Mgr", "Worker/0/0", uuid="c")
    assert answers(worker.send(0.0, full, Caller(), 1.0)) == [(Code.RECV_BUF_BUSY, "Worker/0/0")]
    worker.tick(1.0)
    assert worker.send(1.0, full, Caller(), 1.0) == []


def test_send_to_somebody_below_does_not_wait_for_the_join() -> None:
    proxy = router("Proxy/0")
    child = add_child(proxy, "Worker/0/0")
    assert hops(proxy.send(0.0, frame("Worker/0/0", "Proxy/0"), Caller(), 1.0)) == [child.id]
    assert proxy.send(0.0, frame("Worker/All/All", "Proxy/0", uuid="all"), Caller(), 1.0) == []


# ---- streams that end (6000 and 6001)


@pytest.mark.parametrize("side", ["child", "upstream", "replaced"])
def test_stream_that_ends_answers_everything_that_was_on_it(side: str) -> None:
    """6000 for what was never written, 6001 for what was; `sync=false` in passing is counted, own is answered."""
    node = joined("Proxy/0")
    to = "Mgr" if side == "upstream" else "Worker/0/0"
    child = add_child(node, "Worker/0/0")
    link_id, session = (UP, "up") if side == "upstream" else (child.id, "Worker/0/0")
    asked = {name: Caller(name) for name in ("written", "unwritten", "own async", "own async written")}
    node.send(0.0, frame(to, "Proxy/0", uuid="written"), asked["written"], 9.0)
    node.send(0.0, frame(to, "Proxy/0", uuid="own async written", sync=False), asked["own async written"], 9.0)
    node.written(link_id, session, 2, 20)
    unwritten = [
        frame(to, "Worker/9/9", uuid="unwritten"),
        frame(to, "Proxy/0", uuid="own async", sync=False),
        frame(to, "Worker/9/9", uuid="passed", sync=False),
        frame(to, "Worker/9/9", uuid="nobody waits"),
    ]
    came_from = STRANGER if side == "upstream" else UP
    node.frame_arrived(0.0, came_from, unwritten[0], asked["unwritten"])
    node.send(0.0, unwritten[1], asked["own async"], 9.0)
    node.frame_arrived(0.0, came_from, unwritten[2], None)
    node.frame_arrived(0.0, came_from, unwritten[3], None)
    if side == "upstream":
        actions = node.upstream_down(1.0, "up", unwritten)
    elif side == "child":
        actions = node.link_down(1.0, child, "Worker/0/0", unwritten)
    else:
        ended, *actions = node.link_up(1.0, child, "newer", unwritten)
        assert ended == EndStream("Worker/0/0", Reason.POSITION_TAKEN)
    answered = {
        (repr(action.reply), int(action.ack.code), str(action.ack.src))
        for action in actions
        if isinstance(action, Answer)
    }
    silent = "Mgr/0" if side == "upstream" else "Worker/0/0"
    assert answered == {
        ("written", 6001, silent),
        ("own async written", 6001, silent),
        ("unwritten", 6000, silent),
        ("own async", 6000, silent),
    }
    lost = [action for action in actions if isinstance(action, Lost)]
    actions = [action for action in actions if not isinstance(action, Joined)]
    assert [(action.frame.uuid, action.code, str(action.src)) for action in lost] == [("passed", 6000, silent)]
    assert len(actions) == 5
    assert node.statistics.lost == 1
    link = node.children.by_id[child.id]
    assert (link.queued_messages, link.queued_bytes, link.in_flight.count) == (0, 0, 0)


def test_of_several_copies_with_one_uuid_the_newest_was_not_written() -> None:
    mgr, first, second = router("Mgr"), Caller("first"), Caller("second")
    child = add_child(mgr, "Worker/0/0")
    mgr.send(0.0, frame("Worker/0/0"), first, 1.0)
    mgr.written(child.id, "Worker/0/0", 1, 10)
    again = frame("Worker/0/0")
    mgr.send(0.0, again, second, 1.0)
    actions = mgr.link_down(0.5, child, "Worker/0/0", [again])
    assert [(action.reply, action.ack.code) for action in actions if isinstance(action, Answer)] == [
        (second, Code.NETWORK_SEND_LOST),
        (first, Code.NETWORK_ACK_LOST),
    ]


def test_senders_of_what_was_not_written_are_answered_in_the_order_of_their_messages() -> None:
    """Senders that resend on the answer keep their order; of copies, the newest were not written."""
    mgr = router("Mgr")
    child = add_child(mgr, "Worker/0/0")
    copies = [Caller(f"copy {number}") for number in range(3)]
    posts = [Caller(f"post {number}") for number in range(3)]
    for copy in copies:
        mgr.send(0.0, frame("Worker/0/0"), copy, 1.0)
    for number, post in enumerate(posts):
        mgr.send(0.0, frame("Worker/0/0", uuid=str(number), sync=False), post, 1.0)
    mgr.written(child.id, "Worker/0/0", 1, 10)
    unwritten = [frame("Worker/0/0") for _ in copies[1:]]
    unwritten += [frame("Worker/0/0", uuid=str(number), sync=False) for number in range(3)]
    actions = mgr.link_down(0.5, child, "Worker/0/0", unwritten)
    assert [(action.reply, action.ack.code) for action in actions if isinstance(action, Answer)] == [
        *((sender, Code.NETWORK_SEND_LOST) for sender in (*copies[1:], *posts)),
        (copies[0], Code.NETWORK_ACK_LOST),
    ]


def test_broadcast_over_a_stream_that_breaks_fails_with_the_position_that_is_gone() -> None:
    mgr = router("Mgr")
    one, two = add_child(mgr, "Worker/0/0"), add_child(mgr, "Worker/0/1")
    mgr.send(0.0, frame("Worker/All/All"), Caller(), 1.0)
    assert mgr.link_down(0.1, one, "Worker/0/0", []) == []
    assert answers(mgr.accepted(0.2, two.id, ["u"])) == [(Code.NETWORK_ACK_LOST, "Worker/0/0")]


def test_news_of_a_replaced_stream_changes_nothing() -> None:
    mgr = router("Mgr")
    child = add_child(mgr, "Worker/0/0")
    assert mgr.link_up(1.0, child, "newer") == [EndStream("Worker/0/0", Reason.POSITION_TAKEN)]
    message = frame("Worker/0/0")
    assert hops(mgr.send(1.0, message, Caller(), 9.0)) == [child.id]
    # What the old stream still had: a sync one has been answered; the other kind is counted.
    passed = frame("Worker/0/0", "Worker/9/9", sync=False)
    lost = Lost(passed, Code.NETWORK_SEND_LOST, at("Worker/0/0"), "the stream was replaced")
    assert mgr.link_down(2.0, child, "Worker/0/0", [message, passed]) == [lost]
    assert child.up
    assert answers(mgr.accepted(3.0, child.id, ["u"])) == [(Code.OK, "Worker/0/0")]


def test_stream_of_the_upstream_has_to_be_the_one_that_stands() -> None:
    proxy = joined("Proxy/0")
    with pytest.raises(AssertionError, match="one session at a time"):
        proxy.upstream_down(0.0, "older", [])
    with pytest.raises(AssertionError, match="no upstream"):
        join(router("Mgr"))


def test_before_the_parent_says_who_it_is_it_is_taken_for_the_mgr_then_by_its_name() -> None:
    worker = router("Worker/0/0")
    join(worker, "Proxy/0")
    worker.send(0.0, frame("Mgr", "Worker/0/0"), Caller(), 1.0)
    assert answers(worker.tick(1.0)) == [(Code.NETWORK_ACK_LOST, "Proxy/0")]


# ---- registering


def test_registering_beyond_the_maximum_is_5003() -> None:
    mgr = router("Mgr", max_children=2)
    add_child(mgr, "Proxy/0"), add_child(mgr, "Proxy/1")
    with pytest.raises(Refusal) as refused:
        mgr.register(0.0, at("Proxy/2"))
    assert refused.value.code == Code.EXCEED_MAX_REGISTRY_NUM
    assert at("Proxy/2") not in mgr.routes
    assert mgr.register(0.0, at("Proxy/1/newer")).id == 2  # known: has its place


def test_registration_without_a_stream_holds_its_place_for_10_seconds() -> None:
    mgr = router("Mgr")
    link = mgr.register(100.0, at("Worker/0/0"))
    assert mgr.next_deadline() == 110.0
    assert mgr.tick(109.9) == []
    assert mgr.tick(110.0) == [Forgot(link.id, at("Worker/0/0"), 1)]
    assert (len(mgr.children), len(mgr.routes), mgr.next_deadline()) == (0, 0, INF)


def test_registration_without_a_stream_is_renewed_by_each_announcement() -> None:
    mgr = router("Mgr")
    link = mgr.register(100.0, at("Worker/0/0"))
    announced = mgr.announced(109.0, link, Kind.ADD, everybody("Worker/0/0"), Caller(), "a")
    assert answers(announced) == [(Code.OK, "Mgr/0")]
    assert mgr.tick(110.0) == []
    assert mgr.next_deadline() == 119.0
    assert [type(action) for action in mgr.tick(119.0)] == [Forgot]


def test_child_whose_stream_is_gone_is_forgotten_after_30_seconds_with_everything_behind_it() -> None:
    mgr = router("Mgr")
    child = add_child(mgr, "Proxy/0", "Worker/0/0", "Worker/0/1")
    assert mgr.tick(100.0) == []
    mgr.link_down(100.0, child, "Proxy/0", [])
    assert mgr.next_deadline() == 130.0
    assert mgr.tick(129.9) == []
    assert answers(mgr.send(129.9, frame("Worker/0/0"), Caller(), 0.1)) == [(Code.NET_STREAM_NOT_INITED, "Mgr/0")]
    assert mgr.tick(130.0) == [Forgot(child.id, at("Proxy/0"), 3)]
    assert answers(mgr.send(130.0, frame("Worker/0/0"), Caller(), 0.1)) == [(Code.NO_ROUTE, "Mgr/0")]


def test_routes_outlive_a_re_registration_and_a_short_loss_of_the_stream() -> None:
    mgr = router("Mgr")
    child = add_child(mgr, "Proxy/0", "Worker/0/0")
    mgr.link_down(100.0, child, "Proxy/0", [])
    assert mgr.register(129.0, at("Proxy/0")) is child
    assert mgr.tick(131.0) == []
    mgr.link_up(131.0, child, "newer")
    assert mgr.tick(1e9) == []
    assert hops(mgr.send(1e9, frame("Worker/0/0"), Caller(), 1.0)) == [child.id]


# ---- announcing


@pytest.mark.parametrize(
    ("position", "code"),
    [
        ("Boss/0", 4003),
        ("Worker/x/0", 4004),
        ("Worker/0/x", 4005),
        ("Worker/0/All", 4005),
        ("Worker/0,1/0", 4004),
    ],
)
def test_announcement_of_what_is_no_node_is_refused_whole(position: str, code: int) -> None:
    proxy = joined("Proxy/1")
    child = add_child(proxy, "Proxy/2")
    path = everybody("Worker/2/2", position)
    assert answers(proxy.announced(0.0, child, Kind.ADD, path, Caller(), "a")) == [(code, "Proxy/1")]
    assert at("Worker/2/2") not in proxy.routes


def test_announcement_of_somebody_who_has_not_registered_is_refused() -> None:
    mgr = router("Mgr")
    actions = mgr.announced(0.0, None, Kind.ADD, everybody("Worker/0/0"), Caller(), "a")
    assert answers(actions) == [(Code.CLIENT_ERR, "Mgr/0")]


def test_proxy_answers_an_announcement_when_its_own_upstream_has() -> None:
    proxy, ask = joined("Proxy/0"), Caller()
    child = add_child(proxy, "Worker/0/0")
    actions = proxy.announced(0.0, child, Kind.ADD, everybody("Worker/0/0"), ask, "a")
    assert actions == [Announce(Kind.ADD, everybody("Worker/0/0", "Proxy/0"))]
    for code in (Code.OK, Code.NO_ROUTE):
        assert proxy.announce_answered("up", code, at("Mgr")) == [Answer(ask, Ack("a", code, at("Mgr")))]
        proxy.announced(0.0, child, Kind.ADD, everybody("Worker/0/0"), ask, "a")


def test_announcement_while_there_is_no_upstream_is_4999_and_the_route_is_known_all_the_same() -> None:
    proxy = router("Proxy/0")
    child = add_child(proxy, "Worker/0/0")
    announced = proxy.announced(0.0, child, Kind.ADD, everybody("Worker/0/0"), Caller(), "a")
    assert answers(announced) == [(Code.CLIENT_ERR, "Proxy/0")]
    assert at("Worker/0/0") in proxy.routes


def test_announcement_waits_for_an_upstream_as_long_as_the_child_does() -> None:
    proxy, ask = router("Proxy/0"), Caller()
    child = add_child(proxy, "Worker/0/0")
    assert proxy.announced(5.0, child, Kind.ADD, everybody("Worker/0/0"), ask, "a", 2.5) == []
    assert proxy.next_deadline() == 7.5
    assert proxy.tick(7.4) == []
    assert answers(proxy.tick(7.5)) == [(Code.CLIENT_ERR, "Proxy/0")]
    assert proxy.announced(8.0, child, Kind.ADD, everybody("Worker/0/0"), ask, "b", 2.5) == []
    stand(proxy)
    assert proxy.announce_all(Caller(), "c") == [Announce(Kind.COMPLETE, everybody("Worker/0/0", "Proxy/0"))]
    assert proxy.announce_answered("up", Code.OK, at("Mgr"))[0] == Answer(ask, Ack("b", Code.OK, at("Mgr")))


def test_stream_that_goes_on_as_another_one_loses_nothing() -> None:
    mgr, ask = router("Mgr"), Caller()
    child = add_child(mgr, "Worker/0/0")
    mgr.send(0.0, frame("Worker/0/0"), ask, 1.0)
    mgr.renewed(child.id, "second")
    assert mgr.link_down(0.1, child, "Worker/0/0", []) == []
    assert mgr.accepted(0.2, child.id, ["u"]) == [Answer(ask, Ack("u", Code.OK, at("Worker/0/0"), receivers=1))]


def test_one_announcement_is_under_way_at_a_time_and_the_next_says_what_came_up_meanwhile() -> None:
    proxy = joined("Proxy/0")
    asked = [Caller(str(i)) for i in range(4)]
    children = [add_child(proxy, f"Worker/0/{i}") for i in range(4)]
    actions = []
    for i, child in enumerate(children):
        actions += proxy.announced(0.0, child, Kind.ADD, everybody(f"Worker/0/{i}"), asked[i], str(i))
    assert actions == [Announce(Kind.ADD, everybody("Worker/0/0", "Proxy/0"))]
    assert proxy.announce_answered("up", Code.OK, at("Mgr")) == [
        Answer(asked[0], Ack("0", Code.OK, at("Mgr"))),
        Announce(Kind.ADD, everybody("Worker/0/1", "Proxy/0", "Worker/0/2", "Worker/0/3")),
    ]
    assert proxy.announce_answered("up", Code.OK, at("Mgr")) == [
        Answer(asked[i], Ack(str(i), Code.OK, at("Mgr"))) for i in (1, 2, 3)
    ]


def test_everything_below_is_announced_in_requests_of_a_bounded_size() -> None:
    proxy, ask = joined("Proxy/0"), Caller()
    workers = [f"Worker/0/{i}" for i in range(2 * limits.ANNOUNCE_POSITIONS)]
    child = proxy.register(0.0, at("Proxy/1"))
    proxy.link_up(0.0, child, "s")
    proxy._topology.learn(0.0, child, Kind.ADD, everybody(*workers))
    said: list[str] = []
    actions = proxy.announce_all(ask, "all")
    for kind in (Kind.ADD, Kind.ADD, Kind.COMPLETE):
        (announce,) = actions
        assert isinstance(announce, Announce)
        assert announce.kind is kind
        assert len(announce.positions) <= limits.ANNOUNCE_POSITIONS
        said += map(str, announce.positions)
        actions = proxy.announce_answered("up", Code.OK, at("Mgr"))
    assert actions == [Answer(ask, Ack("all", Code.OK, at("Mgr")))]
    assert sorted(said) == sorted([*workers, "Proxy/0", "Proxy/1"])


def test_announcing_everything_without_a_stream_is_6002() -> None:
    for node in (router("Proxy/0"), router("Mgr")):
        assert answers(node.announce_all(Caller(), "a")) == [(Code.NET_STREAM_NOT_INITED, str(node.position))]


def test_answer_to_an_announcement_on_an_older_stream_is_ignored() -> None:
    proxy = joined("Proxy/0")
    proxy.announce_all(Caller(), "a")
    assert proxy.announce_answered("older", Code.OK, at("Mgr")) == []
    assert router("Mgr").announce_answered("older", Code.OK, at("Mgr")) == []
    assert answers(proxy.announce_answered("up", Code.OK, at("Mgr"))) == [(Code.OK, "Mgr/0")]


def test_losing_the_upstream_answers_whoever_waits_for_an_announcement_with_4999() -> None:
    proxy = joined("Proxy/0")
    child = add_child(proxy, "Worker/0/0")
    for uuid in "ab":
        proxy.announced(0.0, child, Kind.ADD, everybody("Worker/0/0"), Caller(), uuid)
    *told, left = proxy.upstream_down(1.0, "up", [])
    assert (answers(told), left) == ([(Code.CLIENT_ERR, "Proxy/0")] * 2, Joined(False))
    stand(proxy)
    assert proxy.announce_all(Caller(), "c") == [Announce(Kind.COMPLETE, everybody("Worker/0/0", "Proxy/0"))]


def test_complete_forgets_what_an_earlier_life_announced() -> None:
    """And what is gone is withdrawn further up before what is there is announced."""
    proxy, ask = joined("Proxy/0"), Caller()
    child = add_child(proxy, "Proxy/1", "Worker/1/1", "Worker/1/2")
    assert proxy.register(1.0, at("Proxy/1")) is child
    actions = proxy.announced(1.0, child, Kind.COMPLETE, everybody("Worker/1/2", "Proxy/1"), ask, "a")
    assert actions == [Announce(Kind.WITHDRAW, everybody("Worker/1/1"))]
    assert proxy.announce_answered("up", Code.OK, at("Mgr")) == [
        Announce(Kind.ADD, everybody("Worker/1/2", "Proxy/1", "Proxy/0"))
    ]
    assert proxy.announce_answered("up", Code.OK, at("Mgr")) == [Answer(ask, Ack("a", Code.OK, at("Mgr")))]
    assert set(proxy.routes) == {at("Proxy/1"), at("Worker/1/2")}


def test_withdrawal_is_passed_on_and_answered_at_once() -> None:
    proxy, ask = joined("Proxy/0"), Caller()
    child = add_child(proxy, "Proxy/1", "Worker/1/1")
    path = everybody("Worker/1/1", "Worker/7/7")
    assert proxy.announced(1.0, child, Kind.WITHDRAW, path, ask, "a") == [
        Announce(Kind.WITHDRAW, everybody("Worker/1/1")),
        Answer(ask, Ack("a", Code.OK, at("Proxy/0"))),
    ]
    assert proxy.announce_answered("up", Code.OK, at("Mgr")) == []


def test_withdrawal_by_a_child_that_no_longer_leads_there_changes_nothing() -> None:
    mgr = router("Mgr")
    old, new = add_child(mgr, "Proxy/0", "Worker/0/0"), add_child(mgr, "Proxy/1", "Worker/0/0")
    mgr.announced(0.0, old, Kind.WITHDRAW, everybody("Worker/0/0"), Caller(), "a")
    assert hops(mgr.send(0.0, frame("Worker/0/0"), Caller(), 1.0)) == [new.id]


@pytest.mark.parametrize("understands", [True, False])
def test_forgotten_child_is_withdrawn_from_a_parent_that_understands_it(understands: bool) -> None:
    proxy = router("Proxy/0")
    join(proxy, withdraws=understands)
    child = add_child(proxy, "Worker/0/0")
    proxy.link_down(0.0, child, "Worker/0/0", [])
    forgot = Forgot(child.id, at("Worker/0/0"), 1)
    withdraw = Announce(Kind.WITHDRAW, everybody("Worker/0/0"))
    assert proxy.tick(30.0) == ([forgot, withdraw] if understands else [forgot])


def test_forgotten_child_is_not_withdrawn_while_the_upstream_is_away() -> None:
    """COMPLETE says it when the node joins again."""
    proxy = joined("Proxy/0")
    child = add_child(proxy, "Worker/0/0")
    proxy.link_down(0.0, child, "Worker/0/0", [])
    proxy.upstream_down(1.0, "up", [])
    assert [type(action) for action in proxy.tick(30.0)] == [Forgot]
    join(proxy, now=31.0)
    assert proxy.announce_all(Caller(), "a") == [Announce(Kind.COMPLETE, everybody("Proxy/0"))]


# ---- closing, counters


def test_closing_answers_everything_that_waits() -> None:
    proxy = router("Proxy/0", inbox=1)
    child = add_child(proxy, "Worker/0/0")
    asked = {name: Caller(name) for name in ("held", "line", "in flight")}
    proxy.send(0.0, frame("Mgr", "Proxy/0"), asked["held"], 9.0)
    proxy.frame_arrived(0.0, child.id, frame("Proxy/0", "Worker/0/0", uuid="in"), Caller())
    proxy.frame_arrived(0.0, child.id, frame("Proxy/0", "Worker/0/0", uuid="line"), asked["line"])
    proxy.send(0.0, frame("Worker/0/0", "Proxy/0"), asked["in flight"], 9.0)
    actions = proxy.close()
    assert [(repr(action.reply), action.ack.code) for action in actions if isinstance(action, Answer)] == [
        ("held", Code.NET_STREAM_NOT_INITED),
        ("line", Code.RECV_BUF_NIL),
        ("in flight", Code.NETWORK_ACK_LOST),
    ]
    assert proxy.close() == []
    assert proxy.tick(1e9) == []


def test_closing_answers_who_waits_for_an_announcement() -> None:
    proxy = joined("Proxy/0")
    proxy.announce_all(Caller(), "a")
    proxy.send(0.0, frame("Mgr", "Proxy/0"), Caller(), 9.0)
    assert answers(proxy.close()) == [(Code.CLIENT_ERR, "Proxy/0"), (Code.NETWORK_ACK_LOST, "Mgr/0")]


def test_counters() -> None:
    proxy = joined("Proxy/0", inbox=1, link_messages=1)
    child = add_child(proxy, "Worker/0/0")
    assert proxy.statistics == Statistics()
    proxy.send(0.0, frame("Mgr", "Proxy/0"), Caller(), 1.0)
    assert proxy.statistics == Statistics(sent=1, forwarded=1)
    proxy.frame_arrived(0.0, child.id, frame("Proxy/0", "Worker/0/0"), Caller())
    proxy.frame_arrived(0.0, child.id, frame("Proxy/0", "Worker/0/0"), Caller())
    assert proxy.statistics == Statistics(sent=1, forwarded=1, delivered=1, duplicates=1)
    proxy.ack_arrived(0.0, UP, "unheard of", 0, at("Mgr"))
    for uuid in "ab":
        proxy.frame_arrived(0.0, UP, frame("Worker/0/0", uuid=uuid, sync=False), None)
    assert proxy.statistics == Statistics(1, forwarded=2, delivered=1, duplicates=1, late_acks=1, lost=1)


def test_tick_before_its_time_does_nothing_and_time_out_of_the_blue_is_harmless() -> None:
    mgr = router("Mgr")
    assert mgr.next_deadline() == INF
    assert mgr.tick(1e12) == []
    add_child(mgr, "Worker/0/0")
    mgr.send(0.0, frame("Worker/0/0"), Caller(), 1.0)
    assert mgr.tick(0.5) == []
    assert mgr.tick(-1.0) == []
    assert answers(mgr.tick(1e12)) == [(Code.NETWORK_ACK_LOST, "Worker/0/0")]


def test_position_has_to_name_one_node() -> None:
    for position in ("Boss/0", "Proxy/All", "Worker/0/1,2"):
        with pytest.raises(Refusal):
            router(position)


def test_own_message_to_nobody_is_not_held() -> None:
    assert LOCAL not in (UP, STRANGER)
    mgr = router("Mgr")
    assert answers(mgr.send(0.0, frame("Worker/0/0", sync=False), Caller(), 1.0)) == [(Code.NO_ROUTE, "Mgr/0")]
    assert mgr.next_deadline() == INF


# ---- a stream that goes on as another one


def test_a_stream_that_goes_on_as_another_keeps_what_is_in_flight_and_queued() -> None:
    mgr = router("Mgr")
    child = add_child(mgr, "Worker/0/0")
    written, queued = Caller("written"), Caller("queued")
    mgr.send(0.0, frame("Worker/0/0", uuid="a"), written, 9.0)
    waiting = frame("Worker/0/0", uuid="b")
    mgr.send(0.0, waiting, queued, 9.0)
    mgr.written(child.id, "Worker/0/0", 1, len(waiting.data))
    mgr.renewed(child.id, "newer")
    assert (child.queued_messages, child.in_flight.count) == (1, 2)
    # The old stream's end is no news any more; what is written is written on the new one.
    assert mgr.link_down(1.0, child, "Worker/0/0", []) == []
    mgr.written(child.id, "newer", 1, len(waiting.data))
    assert child.queued_messages == 0
    assert answers(mgr.accepted(1.0, child.id, ["a", "b"])) == [(Code.OK, "Worker/0/0")] * 2


def test_the_stream_to_the_parent_goes_on_as_another() -> None:
    worker = joined("Worker/0/0")
    worker.send(0.0, frame("Mgr", uuid="a"), Caller(), 9.0)
    worker.renewed(UP, "newer")
    assert answers(worker.accepted(1.0, UP, ["a"])) == [(Code.OK, "Mgr/0")]
    worker.upstream_down(2.0, "newer", [])
