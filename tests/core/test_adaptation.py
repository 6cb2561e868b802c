"""Messages in the form that a neighbour with quirks understands."""

from __future__ import annotations

import pytest

from taskd_net.base.codes import Code
from taskd_net.base.position import Position
from taskd_net.core.adaptation import Copies, copies, spelled
from taskd_net.core.frame import Adapted
from taskd_net.core.links import UP, Link
from taskd_net.core.quirks import Quirks
from taskd_net.core.ready import Kind
from taskd_net.core.routes import Routes
from tests.core.odd import LEAF, add_odd_child, below_an_odd_parent, forwards, sent, went_up
from tests.core.routers import STRANGER, Caller, add_child, answers, at, everybody, frame, router

HERE = at("Proxy/9")


def link_with(*behind: str) -> tuple[Link, Routes]:
    """A Proxy's link, with these nodes behind it."""
    link, routes = Link(1, at("Proxy/0")), Routes()
    for text in behind:
        routes.learn(at(text), link.id, 1)
    return link, routes


@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize("acks", [True, False])
def test_broadcast_asks_for_no_answer_that_never_comes(sync: bool, acks: bool) -> None:
    link, routes = link_with("Worker/0/0")
    message = frame("Worker/All/All", sync=sync)
    (copy,) = copies(link, Quirks(acks_broadcasts=acks), message, routes, HERE)
    assert copy.sync == (sync and acks)
    assert (copy is message) == (copy.sync == sync), "an unchanged message is not copied"
    assert (copy.uuid, copy.src, copy.dst, copy.data) == (message.uuid, message.src, message.dst, message.data)


def test_copies_of_a_list_keep_the_uuid_and_are_in_the_order_of_the_ranks() -> None:
    link, routes = link_with("Worker/0/2", "Worker/0/0", "Worker/0/1", "Worker/1/3")
    message = frame("Worker/0/0,1,2", "Worker/0/1")
    sent = copies(link, Quirks(reads_lists=False), message, routes, HERE)
    assert [str(copy.dst) for copy in sent] == ["Worker/0/0", "Worker/0/2"], "the sender has no copy"
    assert {(copy.uuid, copy.sync, copy.src, copy.data) for copy in sent} == {("u", True, message.src, message.data)}


@pytest.mark.parametrize("acks", [True, False])
def test_list_of_which_nobody_is_named_goes_as_one_message(acks: bool) -> None:
    link, routes = link_with("Worker/0/1")
    message = frame("Worker/0/1,2", "Worker/0/1")
    (copy,) = copies(link, Quirks(reads_lists=False, acks_lists=acks), message, routes, HERE)
    assert (copy.dst, copy.sync) == (message.dst, acks)


def test_receiver_is_addressed_by_the_fields_that_it_was_announced_with() -> None:
    link, _ = link_with("Agent/0")
    message = frame("Agent/0")
    assert spelled(link, message) is message
    link.spell(Position("Agent", "0", "77"))
    other = spelled(link, message)
    assert (other.dst.position, other.dst.unicast) == (Position("Agent", "0", "77"), True)
    assert (other.uuid, other.sync, other.src, other.data) == (message.uuid, True, message.src, message.data)
    assert spelled(link, frame("Agent/1")).dst.position == at("Agent/1")


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
    up = went_up(proxy.send(0.0, frame(to, "Proxy/0"), ask, 3.0))
    assert up and {copy.sync for copy in up} == {False}
    *others, last = up
    for copy in others:
        assert proxy.post_answered(0.0, UP, copy, 0, at("Mgr")) == []
    assert answers(proxy.post_answered(0.0, UP, last, Code.NO_ROUTE, at("Mgr"))) == [(Code.NO_ROUTE, "Mgr/0")]
    (alone,) = went_up(proxy.send(0.0, frame("Worker/1/8", "Proxy/0", uuid="v"), ask, 3.0))
    assert alone.sync


def test_list_goes_as_it_is_to_who_reads_it() -> None:
    mgr = router("Mgr")
    add_odd_child(mgr, at("Proxy/0"), *everybody("Worker/0/0", "Worker/0/1"), quirks=Quirks())
    assert [to for to, *_ in sent(mgr.send(0.0, frame("Worker/0/0,1"), Caller(), 3.0))] == ["Worker/0/0,1"]


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
    known = Copies(2, 10.0)
    one, two, three = (frame("Worker/All/All", uuid=str(i)) for i in range(3))
    assert known.add(0.0, one) and known.add(1.0, two)
    assert not known.add(2.0, two)
    assert known.add(3.0, one), "forgotten, as the window is full"
    assert known.add(3.0, three)
    assert known.add(13.0, three)


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
