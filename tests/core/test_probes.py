"""Probes: where they go, who answers them, and whom they are never handed to."""

import pytest

from taskd_net.base.codes import Code
from taskd_net.base.position import Destination
from taskd_net.core.frame import FOREIGN, Probe
from taskd_net.core.links import UP, Link
from taskd_net.core.ready import Lost
from tests.core.driven import Action, Driven, Forward
from tests.core.routers import STRANGER, Caller, answers, at, frame, hops, router

BATCHED, TASKNET = 1, 2  # the answers of two kinds of link


def probe(to: str, src: str = "Mgr", *, hops: int | None = None, uuid: str = "u") -> Probe:
    """A probe, with so many links left."""
    return Probe(uuid, True, at(src), Destination.of(at(to)), bytes(10), hops)


def child(parent: Driven, position: str, probes: int | None = BATCHED) -> Link:
    """A child that joins; by default over a batched link."""
    link = parent.register(0.0, at(position))
    parent.link_up(0.0, link, position, (), probes)
    return link


def below(position: str, probes: int | None = BATCHED, **settings: float) -> Driven:
    """A node that has joined its parent."""
    node = router(position, **settings)
    node.upstream_up(0.0, "up", at("Mgr"), 1, True, None, probes)
    return node


def arrives(node: Driven, link: int, question: Probe, caller: Caller | None = None) -> list[Action]:
    """A probe comes in, whose answer is awaited for a second."""
    return node.frame_arrived(0.0, link, question, caller or Caller(), 1.0)


@pytest.mark.parametrize("inbox", [0, 1])
def test_answered_without_the_inbox_however_often_and_however_full(inbox: int) -> None:
    node = below("Worker/0/0", inbox=inbox)
    for _ in range(3):
        assert answers(arrives(node, UP, probe("Worker/0/0"))) == [(0, "Worker/0/0")]
    assert node.gate.held == 0
    assert node.statistics.delivered == node.statistics.duplicates == 0


def test_closed_inbox_answers_too() -> None:
    node = below("Worker/0/0")
    node.close_inbox()
    assert answers(arrives(node, UP, probe("Worker/0/0"))) == [(0, "Worker/0/0")]


def test_goes_the_way_of_a_message_and_its_answer_comes_back() -> None:
    mgr = router("Mgr")
    one, two = child(mgr, "Worker/0/1"), child(mgr, "Worker/0/2")
    caller = Caller()
    (forward,) = arrives(mgr, one.id, probe("Worker/0/2", src="Worker/0/1"), caller)
    assert isinstance(forward, Forward) and forward.link == two.id
    assert forward.patience == pytest.approx(0.95)
    (answer,) = mgr.accepted(0.1, two.id, ["u"], sync=True)
    assert (answer.reply, answer.ack.code, str(answer.ack.src)) == (caller, 0, "Worker/0/2")  # type: ignore[union-attr]


def test_sent_by_this_node_itself() -> None:
    mgr = router("Mgr")
    one = child(mgr, "Worker/0/1")
    assert answers(mgr.probe(0.0, probe("Mgr"), Caller(), 1.0)) == [(0, "Mgr/0")]
    assert hops(mgr.probe(0.0, probe("Worker/0/1"), Caller(), 1.0)) == [one.id]
    assert answers(mgr.tick(1.0)) == [(Code.NETWORK_ACK_LOST, "Worker/0/1")]
    assert answers(mgr.probe(0.0, probe("Worker/0/9"), Caller(), 1.0)) == [(Code.NO_ROUTE, "Mgr/0")]
    assert mgr.statistics.sent == 0


def test_does_not_wait_for_the_join() -> None:
    assert answers(router("Worker/0/0").probe(0.0, probe("Mgr"), Caller(), 1.0)) == [(6002, "Worker/0/0")]


def test_child_whose_stream_is_gone_is_6002_whatever_it_is() -> None:
    mgr = router("Mgr")
    for number, kind in enumerate((BATCHED, None)):
        link = child(mgr, f"Worker/0/{number}", kind)
        mgr.link_down(0.0, link, link.session, ())
        assert answers(mgr.probe(0.0, probe(f"Worker/0/{number}"), Caller(), 1.0)) == [(6002, "Mgr/0")]


@pytest.mark.parametrize("kind", [BATCHED, TASKNET])
def test_trace_ends_at_its_last_link_or_at_its_destination(kind: int) -> None:
    proxy = below("Proxy/0", kind)
    leaf = child(proxy, "Worker/0/0")
    assert answers(arrives(proxy, UP, probe("Worker/0/0", hops=0))) == [(kind, "Proxy/0")]
    assert answers(arrives(proxy, UP, probe("Worker/9/9", hops=0))) == [(kind, "Proxy/0")]
    assert answers(arrives(proxy, UP, probe("Proxy/0", hops=5))) == [(kind, "Proxy/0")]
    assert hops(arrives(proxy, UP, probe("Worker/0/0", hops=1))) == [leaf.id]


def test_probe_that_ended_has_failed_nobody() -> None:
    mgr = router("Mgr")
    link = child(mgr, "Proxy/0")
    mgr.routes.learn(at("Worker/0/0"), link.id, link.epoch)
    for number, ended in enumerate((BATCHED, TASKNET, FOREIGN, Code.NO_ROUTE)):
        mgr.probe(0.0, probe("Worker/0/0", hops=1, uuid=str(number)), Caller(), 1.0)
        assert answers(mgr.ack_arrived(0.1, link.id, str(number), ended, at("Proxy/0"))) == [(ended, "Proxy/0")]
    assert mgr.counters.outcomes["down"].by_code == {0: 3, Code.NO_ROUTE: 1}
    assert link.counters.failed == 1


def test_never_forwarded_to_a_neighbour_that_knows_no_probes() -> None:
    mgr = router("Mgr")
    child(mgr, "Worker/0/0", None)
    assert answers(mgr.probe(0.0, probe("Worker/0/0"), Caller(), 1.0)) == [(FOREIGN, "Worker/0/0")]
    orphan = below("Worker/0/1", None)
    assert answers(orphan.probe(0.0, probe("Worker/0/0"), Caller(), 1.0)) == [(FOREIGN, "Mgr/0")]


@pytest.mark.parametrize("question", [probe("Mgr", "Worker/0/0"), probe("Worker/0/1", "Worker/0/0", hops=0)])
def test_never_believed_from_a_neighbour_that_knows_none(question: Probe) -> None:
    mgr = router("Mgr")
    foreign = child(mgr, "Worker/0/0", None)
    child(mgr, "Worker/0/1")
    for link in (foreign.id, STRANGER, 99):
        assert answers(arrives(mgr, link, question)) == [(Code.CLIENT_ERR, "Mgr/0")]
    leaf = below("Worker/0/1", None)
    assert answers(arrives(leaf, UP, probe("Worker/0/1"))) == [(Code.CLIENT_ERR, "Worker/0/1")]
    assert leaf.gate.held == 0


def test_one_whose_answer_nobody_awaits_is_given_up_aloud() -> None:
    node = below("Worker/0/0")
    (lost,) = node.frame_arrived(0.0, UP, probe("Worker/0/0"), None)
    assert isinstance(lost, Lost)


def test_neighbour_that_joins_again_as_another_kind() -> None:
    """The node that opened the standing stream counts."""
    mgr = router("Mgr")
    link = child(mgr, "Worker/0/0")
    mgr.link_up(0.0, link, "another", (), None)
    assert answers(mgr.probe(0.0, probe("Worker/0/0"), Caller(), 1.0)) == [(FOREIGN, "Worker/0/0")]


def test_bounds_of_a_link_hold_for_probes() -> None:
    mgr = router("Mgr", link_messages=1)
    link = child(mgr, "Worker/0/0")
    assert hops(mgr.send(0.0, frame("Worker/0/0"), Caller(), 1.0)) == [link.id]
    assert answers(mgr.probe(0.0, probe("Worker/0/0", uuid="v"), Caller(), 1.0)) == [(Code.RECV_BUF_BUSY, "Mgr/0")]


def test_broadcast_is_answered_when_everybody_has_answered() -> None:
    mgr = router("Mgr")
    links = [child(mgr, f"Worker/0/{rank}") for rank in range(2)]
    assert hops(mgr.probe(0.0, probe("Worker/All/All"), Caller(), 1.0)) == [link.id for link in links]
    assert mgr.accepted(0.1, links[0].id, ["u"], sync=True) == []
    assert answers(mgr.accepted(0.1, links[1].id, ["u"], sync=True)) == [(0, "Worker/0/0")]


def test_broadcast_names_who_was_not_asked() -> None:
    mgr = router("Mgr")
    ours = child(mgr, "Worker/0/0")
    child(mgr, "Worker/0/1", None)
    assert hops(mgr.probe(0.0, probe("Worker/All/All"), Caller(), 1.0)) == [ours.id]
    assert answers(mgr.accepted(0.1, ours.id, ["u"], sync=True)) == [(FOREIGN, "Worker/0/1")]


def test_broadcast_that_includes_this_node_and_a_list_with_a_gap() -> None:
    proxy = below("Proxy/0")
    assert answers(arrives(proxy, UP, probe("Proxy/All"))) == [(0, "Proxy/0")]
    mgr = router("Mgr")
    one = child(mgr, "Worker/0/0")
    assert hops(mgr.probe(0.0, probe("Worker/0/0,9"), Caller(), 1.0)) == [one.id]
    assert answers(mgr.accepted(0.1, one.id, ["u"], sync=True)) == [(Code.NO_ROUTE, "Mgr/0")]
    assert answers(mgr.probe(0.0, probe("Worker/9/All"), Caller(), 1.0)) == [(Code.NO_ROUTE, "Mgr/0")]


def test_everybody_asked_lies_where_it_came_from() -> None:
    mgr = router("Mgr")
    one = child(mgr, "Proxy/0")
    child(mgr, "Proxy/1")
    mgr.routes.learn(at("Worker/0/0"), one.id, one.epoch)
    assert answers(arrives(mgr, one.id, probe("Worker/All/All", src="Proxy/0"))) == [(0, "Mgr/0")]
    proxy = below("Proxy/0")
    leaf = child(proxy, "Worker/0/0")
    assert hops(arrives(proxy, leaf.id, probe("Worker/All/All", src="Worker/0/0"))) == [UP]


def test_each_part_of_a_list_waits_as_long_as_its_own_way_takes() -> None:
    node = below("Proxy/0", ack_timeout=3.0)
    own = child(node, "Worker/0/1")
    asks = child(node, "Worker/0/9")
    actions = node.frame_arrived(0.0, asks.id, probe("Worker/0,1/1,2", src="Worker/0/9"), Caller(), 1000.0)
    patience = {action.link: action.patience for action in actions if isinstance(action, Forward)}
    assert patience == pytest.approx({own.id: 2.4, UP: 2.85})
