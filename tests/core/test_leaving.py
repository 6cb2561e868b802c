"""A Driven that is about to leave: what it still takes on, when it is done, and how its parent is told."""

from __future__ import annotations

import pytest

from taskd_net.base.codes import Code
from taskd_net.base.position import Position
from taskd_net.core.frame import Ack
from taskd_net.core.links import UP
from taskd_net.core.ready import Announce, Forgot, Kind
from tests.core.driven import Answer, Deliver
from tests.core.routers import Caller, add_child, answers, at, everybody, frame, hops, join, joined, router, stand


def test_draining_node_takes_on_nothing_new_whose_answer_is_awaited() -> None:
    proxy, ask = joined("Proxy/0"), Caller()
    child = add_child(proxy, "Worker/0/0", "Worker/0/0")
    assert not proxy.busy
    proxy.drain()
    assert answers(proxy.frame_arrived(0.0, UP, frame("Proxy/0"), ask)) == [(Code.RECV_BUF_NIL, "Proxy/0")]
    assert answers(proxy.frame_arrived(0.0, UP, frame("Worker/0/0"), ask)) == [(Code.RECV_BUF_BUSY, "Proxy/0")]
    assert answers(proxy.frame_arrived(0.0, child.id, frame("Mgr", "Worker/0/0"), ask)) == [
        (Code.RECV_BUF_BUSY, "Proxy/0")
    ]
    assert answers(proxy.send(0.0, frame("Mgr", "Proxy/0"), ask, 1.0)) == [(Code.RECV_BUF_BUSY, "Proxy/0")]
    assert not proxy.busy


def test_draining_node_takes_on_what_had_arrived_before() -> None:
    proxy, ask = joined("Proxy/0"), Caller()
    child = add_child(proxy, "Worker/0/0", "Worker/0/0")
    proxy.drain()
    own, up = frame("Proxy/0", "Worker/0/0", uuid="a"), frame("Mgr", "Worker/0/0", uuid="b")
    delivered, *answered = proxy.frame_had_arrived(0.0, child.id, own, ask)
    assert (delivered, answers(answered)) == (Deliver(own), [(Code.OK, "Proxy/0")])
    assert hops(proxy.frame_had_arrived(0.0, child.id, up, ask)) == [UP]
    late = frame("Mgr", "Worker/0/0", uuid="c")
    assert answers(proxy.frame_arrived(0.0, child.id, late, ask)) == [(Code.RECV_BUF_BUSY, "Proxy/0")]
    assert not proxy.gate.open


@pytest.mark.parametrize("before", [True, False])
def test_inbox_that_is_closed_stays_so_for_what_had_arrived(before: bool) -> None:
    proxy, ask = joined("Proxy/0"), Caller()
    child = add_child(proxy, "Worker/0/0", "Worker/0/0")
    steps = [proxy.close_inbox, proxy.drain]
    for step in steps if before else reversed(steps):
        step()
    own = frame("Proxy/0", "Worker/0/0")
    assert answers(proxy.frame_had_arrived(0.0, child.id, own, ask)) == [(Code.RECV_BUF_NIL, "Proxy/0")]


def test_draining_node_passes_on_what_others_have_taken() -> None:
    proxy = joined("Proxy/0")
    child = add_child(proxy, "Worker/0/0", "Worker/0/0")
    proxy.drain()
    message = frame("Worker/0/0", sync=False)
    assert hops(proxy.frame_arrived(0.0, UP, message, None)) == [child.id]
    assert proxy.busy
    proxy.written(child.id, "Worker/0/0", 1, len(message.data))
    assert not proxy.busy


def test_draining_node_is_busy_until_the_last_answer_is_there() -> None:
    proxy, ask = joined("Proxy/0"), Caller()
    child = add_child(proxy, "Worker/0/0", "Worker/0/0")
    message = frame("Worker/0/0")
    proxy.frame_arrived(0.0, UP, message, ask)
    proxy.drain()
    proxy.written(child.id, "Worker/0/0", 1, len(message.data))
    assert proxy.busy
    assert answers(proxy.accepted(0.1, child.id, ["u"])) == [(Code.OK, "Worker/0/0")]
    assert not proxy.busy


def test_draining_node_lets_the_line_before_its_inbox_in() -> None:
    worker = joined("Worker/0/0", inbox=1)
    first, second = (frame("Worker/0/0", uuid=uuid, sync=False) for uuid in "ab")
    worker.frame_arrived(0.0, UP, first, None)
    worker.frame_arrived(0.0, UP, second, None)
    worker.drain()
    assert worker.busy
    assert worker.inbox_taken(0.0) == [Deliver(second)]
    assert not worker.busy


def test_draining_node_answers_sends_that_wait_for_the_join_at_once() -> None:
    """And none waits from then on, not even one that was on its way and comes back."""
    worker, ask = router("Worker/0/0"), Caller()
    stand(worker, "Proxy/0", told=False)
    assert hops(worker.send(0.0, frame("Mgr", "Worker/0/0", uuid="tried"), ask, 1.0)) == [UP]
    worker.written(UP, "up", 1, 10)
    assert worker.send(0.0, frame("Mgr", "Worker/0/0", uuid="waits"), ask, 1.0) == []
    assert worker.busy
    assert answers(worker.drain()) == [(Code.NET_STREAM_NOT_INITED, "Worker/0/0")]
    came_back = worker.ack_arrived(0.1, UP, "tried", Code.NET_STREAM_NOT_INITED, at("Proxy/0"))
    assert answers(came_back) == [(Code.NET_STREAM_NOT_INITED, "Proxy/0")]
    assert not worker.busy


def test_node_that_withdraws_takes_everything_below_it_along() -> None:
    proxy, ask = joined("Proxy/0"), Caller()
    add_child(proxy, "Worker/0/0", "Worker/0/0")
    assert proxy.withdraw(ask, "w") == [Announce(Kind.WITHDRAW, everybody("Worker/0/0", "Proxy/0"))]
    assert proxy.announce_answered("up", Code.OK, at("Mgr")) == [Answer(ask, Ack("w", Code.OK, at("Mgr")))]


def test_parent_that_would_not_understand_is_not_told() -> None:
    not_told = [(Code.NET_STREAM_NOT_INITED, "Worker/0/0")]
    worker, ask = router("Worker/0/0"), Caller()
    assert answers(worker.withdraw(ask, "w")) == not_told
    join(worker, withdraws=False)
    assert answers(worker.withdraw(ask, "w")) == not_told
    assert answers(router("Mgr").withdraw(ask, "w")) == [(Code.NET_STREAM_NOT_INITED, "Mgr/0")]


def test_withdrawn_child_is_in_no_broadcast_any_more() -> None:
    mgr, ask = router("Mgr"), Caller()
    leaving, staying = (add_child(mgr, worker, worker) for worker in ("Worker/0/0", "Worker/0/1"))
    mgr.announced(0.0, leaving, Kind.WITHDRAW, everybody("Worker/0/0"), ask, "w")
    mgr.link_down(0.0, leaving, "Worker/0/0", [])
    assert hops(mgr.send(0.0, frame("Worker/All/All"), ask, 1.0)) == [staying.id]
    assert answers(mgr.send(0.0, frame("Worker/0/0", uuid="v"), ask, 1.0)) == [(Code.NO_ROUTE, "Mgr/0")]


def test_withdrawal_that_failed_is_said_again_of_those_who_are_not_back() -> None:
    proxy = router("Proxy/0")
    proxy.upstream_up(0.0, "up", at("Mgr"), withdraws=True)
    add_child(proxy, "Worker/0/0", "Worker/0/0")
    again = proxy.withdraw_again(everybody("Worker/0/0", "Worker/0/1"))
    assert again == [Announce(Kind.WITHDRAW, everybody("Worker/0/1"))]
    proxy.announce_answered("up", Code.OK, at("Mgr"))
    assert proxy.withdraw_again(everybody("Worker/0/0")) == []


def test_nodes_own_withdrawal_is_not_repeated() -> None:
    proxy = router("Proxy/0")
    proxy.upstream_up(0.0, "up", at("Mgr"), withdraws=True)
    assert proxy.withdraw_again(everybody("Worker/0/1", "Proxy/0")) == []


def test_child_without_a_stream_is_forgotten_with_all_behind_it() -> None:
    proxy = joined("Proxy/0")
    child = add_child(proxy, "Proxy/1", "Worker/1/1")
    proxy.link_down(1.0, child, "Proxy/1", [])
    forgot, announce = proxy.forget(at("Proxy/1"))
    assert forgot == Forgot(child.id, at("Proxy/1"), 2)
    assert isinstance(announce, Announce) and announce.kind is Kind.WITHDRAW
    assert set(announce.positions) == set(everybody("Proxy/1", "Worker/1/1"))
    assert not proxy.routes and not len(proxy.children)
    # Its place is free: there is nothing to forget when its grace time is over.
    assert proxy.tick(1000.0) == []


def test_connected_child_is_not_forgotten() -> None:
    proxy = joined("Proxy/0")
    add_child(proxy, "Worker/0/0", "Worker/0/0")
    assert proxy.forget(at("Worker/0/0")) == []
    assert at("Worker/0/0") in proxy.routes


def test_routes_to_a_node_behind_others_are_forgotten_the_older_claims_too() -> None:
    mgr = router("Mgr")
    add_child(mgr, "Proxy/0", "Proxy/0", "Worker/0/0")
    add_child(mgr, "Proxy/1", "Proxy/1", "Worker/0/0")
    assert mgr.forget(at("Worker/0/0")) == []
    assert set(mgr.routes) == set(everybody("Proxy/0", "Proxy/1"))


def test_identity_is_what_is_forgotten() -> None:
    mgr = router("Mgr")
    child = add_child(mgr, "Agent/7", "Agent/7")
    mgr.link_down(1.0, child, "Agent/7", [])
    assert mgr.forget(Position("Agent", "7", "1234")) == [Forgot(child.id, at("Agent/7"), 1)]
    assert mgr.forget(at("Agent/7")) == []
