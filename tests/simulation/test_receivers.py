"""Receiver counts of answers: exact, or unknown."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from taskd_net.base import limits
from taskd_net.base.codes import Code
from taskd_net.base.position import Destination, Position, Role
from taskd_net.core import acks, router
from taskd_net.core.frame import Failure
from taskd_net.core.router import RouterConfig
from tests.simulation.mesh import Mesh, Session, Tree
from tests.simulation.test_any_message import deliver_in_any_order
from tests.simulation.trees import destinations, receivers, trees


def meshes(data: DataObject) -> Mesh:
    """A mesh of any shape with any links between nodes of any version, in which everybody has joined."""
    tree = data.draw(trees(), label="tree")
    nodes = list(tree)
    tasknet = data.draw(st.sets(st.sampled_from(nodes)), label="children with the four calls")
    older = data.draw(st.sets(st.sampled_from(nodes)), label="nodes that say nothing more")
    theirs = data.draw(st.sets(st.sampled_from(nodes)), label="the original's")
    mesh = Mesh(
        tree,
        config=lambda _: RouterConfig(inbox=1000),
        batched=lambda position: position not in tasknet,
        counts=lambda position: position not in older,
        original=lambda position: position in theirs,
    )
    mesh.settle(5.0)
    return mesh


def having(mesh: Mesh, uuid: str) -> set[Position]:
    """The nodes that have a message."""
    return {node.position for node in mesh.nodes.values() if any(frame.uuid == uuid for frame in node.received)}


def shut_some(mesh: Mesh, data: DataObject) -> set[Position]:
    """Let some applications take no more messages."""
    shut = data.draw(st.sets(st.sampled_from(list(mesh.nodes))), label="closed inboxes")
    for position in shut:
        mesh.nodes[position].router.close_inbox()
    return shut


@given(st.data())
def test_count_is_that_of_the_nodes_that_have_it(data: DataObject) -> None:
    """Between nodes that say so: for any destination, with any inboxes closed, and again when it is sent again."""
    tree = data.draw(trees(), label="tree")
    mesh = Mesh(tree)
    mesh.settle(1.0)
    shut = shut_some(mesh, data)
    sender = data.draw(st.sampled_from(list(mesh.nodes.values())), label="sender")
    dst = data.draw(destinations(tree), label="destination")
    uuid = "again"
    for _ in range(2):
        sent = mesh.send(sender, dst, uuid=uuid)
        deliver_in_any_order(mesh, data)
        ack = sent.ack
        assert ack is not None
        assert ack.receivers == len(having(mesh, uuid))
        refused = {Failure(node, Code.RECV_BUF_NIL) for node in receivers(tree, sender.position, sent.dst) & shut}
        named = {failure for failure in ack.failures if failure.code != Code.NO_ROUTE}
        if sent.dst.unicast:
            assert not ack.failures
        else:
            assert named <= refused and len(named) == min(len(refused), acks.FAILURES_TOLD)
            assert not (ack.ok and ack.failures)


@given(st.data())
def test_count_is_exact_or_unknown_in_any_mixture(data: DataObject) -> None:
    mesh = meshes(data)
    theirs = {position for position in mesh.nodes if mesh.original(position)}
    sender = data.draw(st.sampled_from([*mesh.nodes.values()]), label="sender")
    dst = data.draw(destinations(mesh.tree), label="destination")
    sent = mesh.send(sender, dst, uuid="once", timeout=20.0)
    mesh.settle(25.0)
    if sender.position in theirs or sent.ack is None:
        return
    assert sent.ack.receivers in (None, len(having(mesh, "once")))


@given(st.data())
def test_post_counts_nobody(data: DataObject) -> None:
    mesh = Mesh(data.draw(trees(), label="tree"))
    mesh.settle(1.0)
    sender = data.draw(st.sampled_from(list(mesh.nodes.values())), label="sender")
    sent = mesh.send(sender, data.draw(destinations(mesh.tree), label="destination"), sync=False)
    mesh.settle(1.0)
    assert sent.ack is not None
    assert sent.ack.receivers in ((None,) if sent.ack.ok else (None, 0))


def go_on_without(mesh: Mesh, session: Session) -> None:
    """Let everything go on but what goes over one stream."""
    while others := [lane for lane in mesh.lanes() if lane[0] is not session]:
        mesh.step(others[0])


def test_who_gave_no_answer_is_named_and_the_others_are_counted() -> None:
    """A Worker stands still: its Proxy gives it up in time for the Mgr to hear of it."""
    mgr, proxies = Position.mgr(), [Position.proxy(rank) for rank in range(3)]
    workers = [Position.worker(rank, 4 * rank + i) for rank in range(3) for i in range(4)]
    tree: Tree = {mgr: None, **dict.fromkeys(proxies, mgr), **{w: proxies[int(w.server_rank)] for w in workers}}
    mesh = Mesh(tree)
    mesh.settle(1.0)
    session = mesh.nodes[workers[0]].session
    assert session is not None
    sent = mesh.send(mesh.nodes[mgr], "Worker/All/All")
    go_on_without(mesh, session)
    assert sent.answered_at == float("inf")
    mesh.advance(limits.ACK_TIMEOUT_S * router.ACK_TIMEOUT_PER_LEVEL)
    go_on_without(mesh, session)
    assert sent.ack is not None
    assert (sent.ack.code, sent.ack.src) == (Code.NETWORK_ACK_LOST, workers[0])
    assert (sent.ack.receivers, sent.ack.failures) == (11, (Failure(workers[0], Code.NETWORK_ACK_LOST),))


def test_child_that_is_away_is_named_not_its_parent() -> None:
    """The code comes from the hop that found no stream; the failure is the child's."""
    mgr, proxy, workers = Position.mgr(), Position.proxy(0), [Position.worker(0, i) for i in range(3)]
    mesh = Mesh({mgr: None, proxy: mgr, **dict.fromkeys(workers, proxy)})
    mesh.settle(1.0)
    mesh.cut(mesh.nodes[workers[1]])
    mesh.settle()
    sent = mesh.send(mesh.nodes[mgr], "Worker/All/All")
    mesh.settle()
    assert sent.ack is not None
    assert (sent.ack.code, sent.ack.src, sent.ack.receivers) == (Code.NET_STREAM_NOT_INITED, proxy, 2)
    assert sent.ack.failures == (Failure(workers[1], Code.NET_STREAM_NOT_INITED),)


def test_list_names_the_rank_that_is_missing_beside_those_that_failed() -> None:
    mgr, worker = Position.mgr(), Position.worker(0, 0)
    mesh = Mesh({mgr: None, worker: mgr})
    mesh.settle(1.0)
    sent = mesh.send(mesh.nodes[mgr], "Worker/0/0,7")
    mesh.settle()
    assert sent.ack is not None and sent.dst == Destination.of(Position(Role.WORKER, "0", "0,7"))
    assert (sent.ack.code, sent.ack.receivers) == (Code.NO_ROUTE, 1)
    assert sent.ack.failures == (Failure(Position("Worker", "All", "7"), Code.NO_ROUTE),)
