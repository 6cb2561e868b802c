"""Messages onto links: fan-out, bounds, deadlines, and streams that end (docs/contract.md, sections 4 and 5)."""

from __future__ import annotations

import pytest

from taskd_net.base import limits
from taskd_net.base.codes import Code
from taskd_net.core.frame import Ack
from taskd_net.core.links import UP
from taskd_net.core.ready import EndStream, Joined, Lost, Reason
from taskd_net.core.router import RouterConfig
from tests.core.driven import Answer, Deliver, Driven, Forward
from tests.core.invariants import check
from tests.core.routers import (
    STRANGER,
    Caller,
    add_child,
    answers,
    at,
    frame,
    hops,
    join,
    joined,
    router,
)

INF = float("inf")


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
    # Each check looks at all messages in flight.
    mgr = Driven(at("Mgr"), upstream=False, config=RouterConfig(), checked=False)
    link = add_child(mgr, child)
    for i in range(limit):
        mgr.send(0.0, frame(child, uuid=str(i)), Caller(), 1.0)
        mgr.written(link.id, child, 1, 10)
    mgr.check()
    assert answers(mgr.send(0.0, frame(child), Caller(), 1.0)) == [(Code.RECV_BUF_BUSY, "Mgr/0")]
    mgr.accepted(0.1, link.id, ["17"])
    assert hops(mgr.send(0.1, frame(child), Caller(), 1.0)) == [link.id]
    mgr.check()


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
    # The messages left on the old stream: a sync one has been answered; the other kind is counted.
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
