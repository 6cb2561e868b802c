"""Trees of any shape in which any node may be one of the original's."""

from __future__ import annotations

from collections import Counter

from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from taskd_net.base.codes import Code
from taskd_net.base.position import Position, Role
from taskd_net.core.frame import Frame
from taskd_net.core.router import RouterConfig
from tests.simulation.mesh import Mesh, Node
from tests.simulation.trees import trees

ROOMY = RouterConfig(inbox=10_000)


def mixed(data: DataObject) -> tuple[Mesh, set[Position]]:
    """A mesh in which everybody has joined, and who in it is one of the original's."""
    tree = data.draw(trees(), label="tree")
    theirs = data.draw(st.sets(st.sampled_from(list(tree))), label="the original's")
    mesh = Mesh(tree, config=lambda _: ROOMY, original=lambda position: position in theirs)
    mesh.settle(5.0)
    mesh.check()
    assert all(node.in_mesh for node in mesh.nodes.values())
    return mesh, theirs


def known(node: Node, theirs: set[Position]) -> bool:
    """True if somebody has announced it: a Proxy of theirs is known by what lies below it."""
    if node.position.role != Role.PROXY or node.position not in theirs:
        return True
    return any(known(child, theirs) for child in node.children)


def climb(sender: Node, theirs: set[Position]) -> Node:
    """The topmost node that hears of what a node sends to others than the Mgr."""
    node = sender
    while node.parent is not None and (node.position not in theirs or node.position.role != Role.PROXY):
        node = node.parent
    return node


def below(top: Node) -> list[Node]:
    return [top, *(node for child in top.children for node in below(child))]


@given(st.data())
def test_unicast_arrives_where_their_design_lets_it(data: DataObject) -> None:
    mesh, theirs = mixed(data)
    sender, receiver = (data.draw(st.sampled_from(list(mesh.nodes.values())), label=end) for end in ("from", "to"))
    sync = data.draw(st.booleans(), label="sync")
    assume(sender is not receiver and known(receiver, theirs))
    sent = mesh.send(sender, receiver.position, sync=sync)
    mesh.settle(3.5)
    mesh.check()
    reached = receiver.position.role == Role.MGR or receiver in below(climb(sender, theirs))
    got = [node.position for node in mesh.nodes.values() for _ in node.received]
    assert got == ([receiver.position] if reached else [])
    assert sent.ack is not None
    if sync or reached:
        assert sent.ack.code == (Code.OK if reached else Code.NO_ROUTE)
    # A post is answered by the first hop: who gives it up later counts it.
    elif sent.ack.ok:
        assert any(node.lost for node in mesh.nodes.values()) or theirs


@given(st.data())
def test_broadcast_comes_once_to_each_of_ours(data: DataObject) -> None:
    mesh, theirs = mixed(data)
    sender = data.draw(st.sampled_from(list(mesh.nodes.values())), label="from")
    role = data.draw(st.sampled_from([Role.WORKER, Role.AGENT, Role.PROXY]), label="to all")
    sync = data.draw(st.booleans(), label="sync")
    sent = mesh.send(sender, Position(role, "All", "All"), sync=sync)
    mesh.settle(3.5)
    mesh.check()
    matching = {node for node in below(climb(sender, theirs)) if node.position.role == role}
    wanted = {node for node in matching if known(node, theirs)} - {sender}
    copies = Counter({node: len(node.received) for node in mesh.nodes.values() if node.received})
    assert wanted <= set(copies) <= matching
    for node, count in copies.items():
        assert node is not sender or node.position in theirs
        hops = []
        hop = node.parent
        while hop is not None and hop is not climb(sender, theirs).parent:
            hops.append(hop.position in theirs)
            hop = hop.parent
        if node.position not in theirs or not any(hops):
            assert count == 1, node
    assert sent.ack is not None and (sent.ack.ok or not copies), sent.ack


@given(st.data())
def test_no_ack_is_taken_for_anothers(data: DataObject) -> None:
    """Much at once, in any order, with time passing: what is acknowledged has arrived, and nothing twice at ours."""
    mesh, theirs = mixed(data)
    chance = data.draw(st.randoms(use_true_random=True), label="chance")
    got: set[tuple[str, Position]] = set()

    def note(node: Node, frame: Frame) -> None:
        assert node.position in theirs or (frame.uuid, node.position) not in got
        got.add((frame.uuid, node.position))

    mesh.delivered = note
    nodes = list(mesh.nodes.values())
    sends = []
    for _ in range(data.draw(st.integers(1, 40), label="events")):
        match chance.choices(["send", "steps", "wait"], [3, 6, 1])[0]:
            case "send":
                sender, receiver = chance.choice(nodes), chance.choice(nodes)
                sends.append(mesh.send(sender, receiver.position, sync=chance.random() < 0.8))
            case "steps":
                for _ in range(6):
                    if lanes := mesh.lanes():
                        mesh.step(chance.choice(lanes))
            case "wait":
                mesh.advance(chance.choice([0.1, 1.0, 2.0]))
        mesh.check()
    mesh.settle(30.0)
    mesh.check()
    for sent in sends:
        assert sent.ack is not None or sent.sender.position in theirs, sent
        if sent.sync and sent.ack is not None and sent.ack.ok:
            assert (sent.uuid, sent.dst.position) in got
