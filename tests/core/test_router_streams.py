"""Streams of a link at a Router: one that goes on as another one, and silent neighbours."""

from __future__ import annotations

from taskd_net.base.codes import Code
from taskd_net.core.links import UP
from taskd_net.core.ready import SignsOfLife
from tests.core.driven import Forward
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


def test_stream_of_another_kind_goes_on_and_answers_probes_as_that_kind() -> None:
    mgr = router("Mgr")
    child = add_child(mgr, "Worker/0/0")
    for before, after in ((None, None), (1, 4)):
        child.probes = before
        mgr.renewed(child.id, "newer", 4)
        assert child.probes == after


def test_messages_to_a_silent_neighbour_are_answered_6001_at_once_and_its_stream_stands() -> None:
    mgr = router("Mgr/0")
    child = add_child(mgr, "Worker/0/0")
    early, late, after = Caller("early"), Caller("late"), Caller("after")
    mgr.send(0.0, frame("Worker/0/0", uuid="early"), early, 100.0)
    notice, *told = mgr.signs_of_life(8.0, child.id, "Worker/0/0", seen=False)
    assert notice == SignsOfLife(child.id, child.position, seen=False)
    assert answers(told) == [(Code.NETWORK_ACK_LOST, "Worker/0/0")]
    told = mgr.send(9.0, frame("Worker/0/0", uuid="late"), late, 100.0)
    assert answers(told) == [(Code.NETWORK_ACK_LOST, "Worker/0/0")]
    assert child.in_flight.count == 0
    assert child.up
    assert mgr.signs_of_life(10.0, child.id, "Worker/0/0", seen=True) == [
        SignsOfLife(child.id, child.position, seen=True)
    ]
    assert hops(mgr.send(11.0, frame("Worker/0/0", uuid="after"), after, 100.0)) == [child.id]


def test_post_of_another_node_waits_for_a_silent_neighbour() -> None:
    mgr = router("Mgr/0")
    sender, child = add_child(mgr, "Worker/0/0"), add_child(mgr, "Worker/0/1")
    mgr.signs_of_life(8.0, child.id, "Worker/0/1", seen=False)
    message = frame("Worker/0/1", "Worker/0/0", sync=False)
    told = mgr.frame_arrived(9.0, sender.id, message, Caller())
    assert [action.link for action in told if isinstance(action, Forward)] == [child.id]


def test_broadcast_names_the_neighbour_that_is_silent() -> None:
    mgr = router("Mgr/0")
    add_child(mgr, "Worker/0/0")
    silent = add_child(mgr, "Worker/0/1")
    mgr.signs_of_life(8.0, silent.id, "Worker/0/1", seen=False)
    mgr.send(9.0, frame("Worker/All/All", uuid="all"), Caller(), 100.0)
    assert answers(mgr.accepted(9.5, mgr.children.find(at("Worker/0/0")).id, ["all"])) == [
        (Code.NETWORK_ACK_LOST, "Worker/0/1")
    ]


def test_next_stream_of_a_silent_neighbour_begins_with_a_sign_of_life() -> None:
    mgr = router("Mgr/0")
    child = add_child(mgr, "Worker/0/0")
    mgr.signs_of_life(8.0, child.id, "Worker/0/0", seen=False)
    assert child.silent
    mgr.signs_of_life(8.0, child.id, "an older stream", seen=True)
    mgr.signs_of_life(8.0, STRANGER, "of nobody", seen=True)
    assert child.silent
    mgr.link_up(9.0, child, "newer")
    assert not child.silent


def test_the_stream_to_the_parent_goes_on_as_another() -> None:
    worker = joined("Worker/0/0")
    worker.send(0.0, frame("Mgr", uuid="a"), Caller(), 9.0)
    worker.renewed(UP, "newer")
    assert answers(worker.accepted(1.0, UP, ["a"])) == [(Code.OK, "Mgr/0")]
    worker.upstream_down(2.0, "newer", [])
