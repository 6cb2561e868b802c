"""Messages in the form that a neighbour with quirks understands."""

from __future__ import annotations

import pytest

from taskd_net.codes import Code
from taskd_net.core.adaptation import Copies
from taskd_net.core.frame import Adapted
from taskd_net.core.links import UP
from taskd_net.core.quirks import Quirks
from taskd_net.core.ready import Kind
from taskd_net.position import Position
from tests.core.odd import LEAF, add_odd_child, below_an_odd_parent, forwards, sent, went_up
from tests.core.routers import STRANGER, Caller, add_child, answers, at, everybody, frame, router

# ---- lists


def test_list_is_expanded_on_its_link_alone() -> None:
    mgr, ask = router("Mgr"), Caller()
    odd = add_odd_child(mgr, at("Proxy/0"), *everybody("Worker/0/0", "Worker/0/1", "Worker/0/2"))
    plain = add_child(mgr, "Proxy/1", "Worker/1/3", "Worker/1/4")
    actions = mgr.send(0.0, frame("Worker/All/0,2,3,4"), ask, 3.0)
    assert sent(actions) == [(to, True, 3.0) for to in ("Worker/0/0", "Worker/0/2", "Worker/All/0,2,3,4")]
    kinds = [(each.link, type(each.frame) is Adapted) for each in forwards(actions)]
    assert kinds == [(odd.id, True), (odd.id, True), (plain.id, False)]
    assert mgr.ack_arrived(1.0, odd.id, "u", 0, at("Worker/0/0")) == []
    assert mgr.ack_arrived(1.0, plain.id, "u", 0, at("Worker/1/3")) == []
    assert answers(mgr.ack_arrived(1.0, odd.id, "u", 5001, at("Worker/0/2"))) == [(5001, "Worker/0/2")]


def test_posted_list_is_expanded_too() -> None:
    mgr = router("Mgr")
    add_odd_child(mgr, at("Proxy/0"), *everybody("Worker/0/0", "Worker/0/1"))
    actions = mgr.frame_arrived(0.0, STRANGER, frame("Worker/0/0,1", "Worker/9/9", sync=False), None)
    assert sent(actions) == [("Worker/0/0", False, 0.0), ("Worker/0/1", False, 0.0)]


def test_sender_gets_no_copy_of_its_own_list() -> None:
    mgr = router("Mgr")
    near = add_odd_child(mgr, at("Worker/0/1"), quirks=LEAF)
    add_odd_child(mgr, at("Proxy/0"), *everybody("Worker/0/0"))
    actions = mgr.frame_arrived(0.0, near.id, frame("Worker/0/0,1", "Worker/0/1"), Caller())
    assert [to for to, *_ in sent(actions)] == ["Worker/0/0"]


@pytest.mark.parametrize(
    ("to", "up"),
    [
        ("Worker/1/8,9", ["Worker/1/8", "Worker/1/9"]),
        ("Worker/0,1/8", ["Worker/0/8", "Worker/1/8"]),
        ("Worker/All/0,1,8", ["Worker/All/8"]),
        ("Worker/0,1/All", ["Worker/0/All", "Worker/1/All"]),
        ("Worker/0,1/0,8", ["Worker/0,1/0,8"]),
        ("Proxy/0,1,2", ["Proxy/1", "Proxy/2"]),
        ("Agent/0,1", ["Agent/0", "Agent/1"]),
        ("Worker/All/All", ["Worker/All/All"]),
        ("Worker/1/8", ["Worker/1/8"]),
    ],
)
def test_list_that_goes_up(to: str, up: list[str]) -> None:
    proxy = below_an_odd_parent("Proxy/0")
    add_child(proxy, "Worker/0/0")
    add_child(proxy, "Worker/0/1")
    actions = proxy.send(0.0, frame(to, "Proxy/0"), Caller(), 3.0)
    assert [str(copy.dst) for copy in went_up(actions)] == up


@pytest.mark.parametrize("to", ["Worker/All/All", "Worker/1/8,9", "Worker/All/0,1,8", "Worker/0,1/0,8", "Proxy/0,1"])
def test_nothing_but_unicasts_goes_up_as_sync(to: str) -> None:
    """Such a parent awaits an Ack for each copy, and its other children pay for it."""
    proxy, ask = below_an_odd_parent("Proxy/0"), Caller()
    copies = went_up(proxy.send(0.0, frame(to, "Proxy/0"), ask, 3.0))
    assert copies and {copy.sync for copy in copies} == {False}
    *others, last = copies
    for copy in others:
        assert proxy.post_answered(0.0, UP, copy, 0, at("Mgr")) == []
    assert answers(proxy.post_answered(0.0, UP, last, Code.NO_ROUTE, at("Mgr"))) == [(Code.NO_ROUTE, "Mgr/0")]
    (alone,) = went_up(proxy.send(0.0, frame("Worker/1/8", "Proxy/0", uuid="v"), ask, 3.0))
    assert alone.sync


def test_list_goes_as_it_is_to_who_reads_it() -> None:
    mgr = router("Mgr")
    add_odd_child(mgr, at("Proxy/0"), *everybody("Worker/0/0", "Worker/0/1"), quirks=Quirks())
    assert [to for to, *_ in sent(mgr.send(0.0, frame("Worker/0/0,1"), Caller(), 3.0))] == ["Worker/0/0,1"]


# ---- broadcasts


def test_broadcast_that_is_never_acknowledged_counts_as_taken_when_it_is_written() -> None:
    mgr, ask = router("Mgr"), Caller()
    link = add_odd_child(mgr, at("Proxy/0"), *everybody("Worker/0/0"))
    actions = mgr.send(0.0, frame("Worker/All/All"), ask, 3.0)
    assert sent(actions) == [("Worker/All/All", False, 3.0)]
    (forward,) = forwards(actions)
    assert answers(mgr.post_answered(0.0, link.id, forward.frame, 0, link.position)) == [(0, "Proxy/0")]
    assert mgr.statistics.lost == 0


def test_broadcast_of_which_the_stream_breaks_before_it_is_written() -> None:
    mgr, ask = router("Mgr"), Caller()
    link = add_odd_child(mgr, at("Proxy/0"), *everybody("Worker/0/0"))
    (forward,) = forwards(mgr.send(0.0, frame("Worker/All/All"), ask, 3.0))
    assert answers(mgr.link_down(1.0, link, link.session or "", [forward.frame])) == [
        (Code.NETWORK_SEND_LOST, "Proxy/0")
    ]


def test_posted_broadcast_goes_as_it_is() -> None:
    mgr = router("Mgr")
    add_odd_child(mgr, at("Proxy/0"), *everybody("Worker/0/0"))
    (forward,) = forwards(mgr.send(0.0, frame("Worker/All/All", sync=False), Caller(), 3.0))
    assert type(forward.frame) is not Adapted


def test_copies_are_remembered_within_bounds() -> None:
    copies = Copies(2, 10.0)
    one, two, three = (frame("Worker/All/All", uuid=str(i)) for i in range(3))
    assert copies.add(0.0, one) and copies.add(1.0, two)
    assert not copies.add(2.0, two)
    assert copies.add(3.0, one), "forgotten, as the window is full"
    assert copies.add(3.0, three)
    assert copies.add(13.0, three)


# ---- spellings


def test_any_process_rank_is_used_on_its_link_alone() -> None:
    mgr = router("Mgr")
    add_odd_child(mgr, Position("Proxy", "0", "17"), Position("Agent", "0", "99"), at("Worker/0/0"))
    for to, rank in (("Agent/0", "99"), ("Proxy/0", "17"), ("Worker/0/0", "0")):
        for sync in (True, False):
            (forward,) = forwards(mgr.send(0.0, frame(to, uuid=f"{to}{sync}", sync=sync), Caller(), 3.0))
            assert forward.frame.dst.position.process_rank == rank
            assert (type(forward.frame) is Adapted) == (rank != "0")
    mgr.announced(1.0, mgr.children.find(at("Proxy/0")), Kind.ADD, [at("Agent/0")], Caller(), "a")
    (forward,) = forwards(mgr.send(1.0, frame("Agent/0", uuid="again"), Caller(), 3.0))
    assert type(forward.frame) is not Adapted
