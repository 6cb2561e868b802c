"""In any tree that stands still, any message from any node reaches exactly whom the contract names."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from taskd_net.base.codes import Code
from taskd_net.base.position import Destination, Position
from tests.simulation.mesh import Mesh
from tests.simulation.trees import destinations, missing_rank, receivers, trees


def joined(data: DataObject) -> Mesh:
    """A mesh of any shape in which everybody has joined."""
    tree = data.draw(trees(), label="tree")
    batched = data.draw(st.sets(st.sampled_from(list(tree))), label="children with a batched link")
    numbered = data.draw(st.sets(st.sampled_from(list(tree))), label="children with numbers on it")
    mesh = Mesh(tree, batched=lambda position: position in batched, numbered=lambda position: position in numbered)
    mesh.settle(1.0)
    mesh.check()
    mesh.check_idle()
    return mesh


def deliver_in_any_order(mesh: Mesh, data: DataObject) -> None:
    """Let everything under way go on, one lane after another as hypothesis likes."""
    choice = data.draw(st.randoms(use_true_random=True), label="order")
    while lanes := mesh.lanes():
        mesh.step(choice.choice(lanes))
    mesh.check()


@given(st.data())
def test_every_route_is_known_where_it_is_needed(data: DataObject) -> None:
    mesh = Mesh(data.draw(trees(), label="tree"))
    for _ in range(data.draw(st.integers(0, 60), label="steps in any order")):
        if lanes := mesh.lanes():
            mesh.step(data.draw(st.sampled_from(lanes), label="lane"))
            mesh.check()
    mesh.settle(10.0)
    mesh.check_idle()


@given(st.data())
def test_sync_message_reaches_exactly_its_receivers(data: DataObject) -> None:
    mesh = joined(data)
    sender = data.draw(st.sampled_from(list(mesh.nodes.values())), label="sender")
    dst = data.draw(destinations(mesh.tree), label="destination")
    mesh.crossings = Counter()
    sent = mesh.send(sender, dst)
    deliver_in_any_order(mesh, data)

    expected = receivers(mesh.tree, sender.position, sent.dst)
    got = Counter(node.position for node in mesh.nodes.values() for _ in node.received)
    assert got == Counter(expected)
    assert max(mesh.crossings.values(), default=1) == 1
    assert sent.ack is not None
    nobody = not expected or missing_rank(mesh.tree, sent.dst)
    assert sent.ack.code == (Code.NO_ROUTE if nobody else Code.OK)
    assert sent.ack.src in mesh.nodes


@given(st.data())
def test_async_message_reaches_exactly_its_receivers(data: DataObject) -> None:
    mesh = joined(data)
    sender = data.draw(st.sampled_from(list(mesh.nodes.values())), label="sender")
    dst = data.draw(destinations(mesh.tree), label="destination")
    mesh.crossings = Counter()
    sent = mesh.send(sender, dst, sync=False)
    deliver_in_any_order(mesh, data)

    expected = receivers(mesh.tree, sender.position, sent.dst)
    got = Counter(node.position for node in mesh.nodes.values() for _ in node.received)
    assert got == Counter(expected)
    assert max(mesh.crossings.values(), default=1) == 1
    assert sent.ack is not None
    if not expected:
        assert sent.ack.code == Code.NO_ROUTE or any(node.lost for node in mesh.nodes.values())


@given(st.data())
def test_sync_broadcast_says_who_did_not_take_it(data: DataObject) -> None:
    mesh = joined(data)
    dst = data.draw(destinations(mesh.tree).filter(lambda to: "All" in (to.server_rank, to.process_rank)))
    sender = mesh.nodes[Position.mgr()]
    matching = sorted(receivers(mesh.tree, sender.position, Destination.of(dst)), key=str)
    closed = set(data.draw(st.lists(st.sampled_from(matching), unique=True)) if matching else [])
    for position in closed:
        mesh.nodes[position].router.close_inbox()
    sent = mesh.send(sender, dst)
    mesh.run()
    assert sent.ack is not None
    got = {node.position for node in mesh.nodes.values() if node.received}
    assert got == set(matching) - closed
    if closed:
        assert sent.ack.code in (Code.RECV_BUF_NIL, Code.NO_ROUTE)
        assert sent.ack.code == Code.NO_ROUTE or sent.ack.src in closed


@given(st.data())
def test_messages_of_all_senders_with_one_uuid_arrive_and_none_is_answered_for_another(data: DataObject) -> None:
    mesh = joined(data)
    sent = []
    for sender in list(mesh.nodes.values()):
        dst = data.draw(st.sampled_from(list(mesh.nodes)), label="destination")
        if data.draw(st.booleans(), label="and its inbox is closed"):
            mesh.nodes[dst].router.close_inbox()
        sent.append(mesh.send(sender, dst, uuid="the same", timeout=60.0))
    deliver_in_any_order(mesh, data)
    mesh.settle(1.0)
    for one in sent:
        receiver = mesh.nodes[one.dst.position]
        arrived = one.sender.position in {frame.src for frame in receiver.received}
        refused = Code.RECV_BUF_BUSY if receiver.router.gate.open else Code.RECV_BUF_NIL
        assert one.ack is not None
        assert one.ack.code == (Code.OK if arrived else refused)
