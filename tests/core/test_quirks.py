"""Deviations of a peer from the contract: its limits, its turns, its counts and its announcements."""

from __future__ import annotations

import pytest

from taskd_net.base.codes import Code
from taskd_net.core.ready import Announce, Kind, Lost
from tests.core.odd import LEAF, add_odd_child, below_an_odd_parent, forwards, receivers, sent
from tests.core.routers import STRANGER, Caller, add_child, answers, at, everybody, frame, joined, router


def test_size_beyond_what_it_takes() -> None:
    mgr, ask = router("Mgr"), Caller()
    add_odd_child(mgr, at("Worker/0/0"), quirks=LEAF)
    assert sent(mgr.send(0.0, frame("Worker/0/0", size=100), ask, 3.0))
    assert answers(mgr.send(0.0, frame("Worker/0/0", size=101, uuid="v"), ask, 3.0)) == [(Code.CLIENT_ERR, "Mgr/0")]
    assert answers(mgr.send(0.0, frame("Worker/All/All", size=101), ask, 3.0)) == [(Code.CLIENT_ERR, "Mgr/0")]
    (lost,) = mgr.frame_arrived(0.0, STRANGER, frame("Worker/0/0", "Worker/1/1", size=101, sync=False), None)
    assert isinstance(lost, Lost) and lost.code == Code.CLIENT_ERR


def test_answer_of_a_leaf_or_to_a_copy_for_one_node_counts_one_receiver() -> None:
    """No other node lies behind a leaf, and a copy for one node has one receiver, whatever lies behind the link."""
    mgr = router("Mgr")
    leaf = add_child(mgr, "Worker/0/0")
    (forward,) = forwards(mgr.send(0.0, frame("Worker/All/All"), Caller(), 3.0))
    assert not forward.frame.dst.unicast
    assert receivers(mgr.accepted(0.1, leaf.id, ["u"])) == [1]
    mgr = router("Mgr")
    link = add_odd_child(mgr, at("Proxy/0"), *everybody("Worker/0/0", "Worker/0/1"))
    assert len(forwards(mgr.send(0.0, frame("Worker/0/0,1"), Caller(), 3.0))) == 2
    assert receivers(mgr.accepted(0.1, link.id, ["u", "u"])) == [2]


def test_branch_that_tells_no_count_has_an_unknown_number_of_receivers() -> None:
    mgr = router("Mgr")
    link = add_child(mgr, "Proxy/0", "Worker/0/0", "Worker/0/1")
    assert len(forwards(mgr.send(0.0, frame("Worker/All/All"), Caller(), 3.0))) == 1
    assert receivers(mgr.accepted(0.1, link.id, ["u"])) == [None]


def test_turn_begins_when_the_message_before_was_answered() -> None:
    mgr, ask = router("Mgr"), Caller()
    link = add_odd_child(mgr, at("Proxy/0"), *everybody("Worker/0/0", "Worker/0/1"))
    for uuid in "abc":
        message = frame("Worker/0/0", "Worker/9/9", uuid=uuid)
        ((_, _, patience),) = sent(mgr.frame_arrived(0.0, STRANGER, message, ask, 20.0))
        assert patience == (4.0 if uuid == "a" else 19.0)
    assert mgr.next_deadline() == 4.0
    assert answers(mgr.ack_arrived(3.0, link.id, "a", 0, at("Worker/0/0"))) == [(0, "Worker/0/0")]
    assert mgr.tick(6.9) == []
    assert answers(mgr.tick(7.0)) == [(Code.NETWORK_ACK_LOST, "Proxy/0")]
    assert mgr.tick(10.9) == [] and mgr.next_deadline() == 11.0
    assert answers(mgr.tick(11.0)) == [(Code.NETWORK_ACK_LOST, "Proxy/0")]
    # The next one has nobody before it.
    assert mgr.ack_arrived(12.0, link.id, "c", 0, at("Worker/0/0")) == []
    ((_, _, patience),) = sent(mgr.frame_arrived(12.0, STRANGER, frame("Worker/0/0", uuid="d"), ask, 20.0))
    assert patience == 4.0


def test_sender_who_waits_less_is_answered_sooner() -> None:
    mgr, ask = router("Mgr"), Caller()
    add_odd_child(mgr, at("Proxy/0"), *everybody("Worker/0/0"))
    mgr.send(0.0, frame("Worker/0/0", uuid="a"), ask, 20.0)
    mgr.send(0.0, frame("Worker/0/0", uuid="b"), ask, 1.0)
    ((_, _, patience),) = sent(mgr.frame_arrived(0.0, STRANGER, frame("Worker/0/0", uuid="c"), ask))
    assert patience == pytest.approx(3.0)
    assert mgr.next_deadline() == 1.0
    assert answers(mgr.tick(1.0)) == [(Code.NETWORK_ACK_LOST, "Proxy/0")]


def test_everything_below_is_announced_in_as_few_requests_as_it_takes() -> None:
    proxy = below_an_odd_parent("Proxy/0")
    add_child(proxy, "Proxy/1", "Worker/1/1", "Worker/1/2", "Worker/1/3")
    requests: list[int] = []
    while actions := proxy.announce_answered("up", 0, at("Mgr")):
        assert actions
    actions = proxy.announce_all(Caller(), "a")
    while actions:
        requests += [len(action.positions) for action in actions if isinstance(action, Announce)]
        actions = proxy.announce_answered("up", 0, at("Mgr"))
    assert requests == [3, 2]


def test_pause_of_a_position_that_is_fought_for() -> None:
    mgr = router("Mgr")
    position = at("Worker/0/0")
    assert mgr.register_pause(0.0, position) == 0.0
    link = add_odd_child(mgr, position, quirks=LEAF)
    assert mgr.register_pause(1.0, position) == 0.0
    assert mgr.register(1.0, position, LEAF) is link
    assert len(mgr.link_up(1.0, link, "other")) == 1
    assert [mgr.register_pause(1.0 + i, position) for i in range(5)] == [1.0, 2.0, 4.0, 5.0, 5.0]
    # The last moment in which it counts as a fight, and the first in which it does not.
    assert mgr.register_pause(11.0, position) == 5.0
    assert mgr.register_pause(11.5, position) == 0.0
    mgr.link_up(12.0, link, "third")
    assert mgr.register_pause(12.0, position) == 1.0


def test_pending_announcement_renews_the_registration() -> None:
    proxy, ask = joined("Proxy/0", registration_hold=1.0), Caller()
    link = proxy.register(0.0, at("Worker/0/0"), LEAF)
    assert proxy.announced(0.0, link, Kind.ADD, [link.position], ask, "a")
    for now in (1.0, 2.0, 3.0):
        assert proxy.tick(now) == []
    assert answers(proxy.announce_answered("up", 0, at("Mgr"))) == [(0, "Mgr/0")]
    assert proxy.children.find(link.position) is link
    proxy.tick(4.0)
    assert proxy.children.find(link.position) is None
