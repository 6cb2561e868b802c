"""Probes in trees of any shape: they find what a message would find, and are never given to who knows none."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from taskd_net.base.codes import Code
from taskd_net.base.position import Position
from taskd_net.core.frame import FOREIGN
from taskd_net.net.links.batched import PROBED as BATCHED
from taskd_net.net.links.tasknet import PROBED as TASKNET
from tests.simulation.mesh import Mesh, Node
from tests.simulation.trees import destinations, missing_rank, receivers, trees


def joined(data: DataObject, *, mixed: bool) -> Mesh:
    """A mesh in which everybody has joined; if mixed, some of its nodes know no probes."""
    tree = data.draw(trees(), label="tree")
    some = st.sets(st.sampled_from(list(tree)))
    batched = data.draw(some, label="children with a batched link")
    without = data.draw(some, label="who knows no probes") if mixed else set()
    mesh = Mesh(tree, batched=lambda position: position in batched, probes=lambda position: position not in without)
    mesh.settle(1.0)
    mesh.check()
    return mesh


def way(sender: Node, receiver: Node) -> list[Node]:
    """The nodes from one to another, without the first."""
    up, down = above(sender), above(receiver)
    meet = next(node for node in up if node in down)
    return [*up[1 : up.index(meet) + 1], *reversed(down[: down.index(meet)])]


def above(node: Node | None) -> list[Node]:
    found = []
    while node is not None:
        found.append(node)
        node = node.parent
    return found


def settled(mesh: Mesh) -> None:
    """Nothing is under way any more, and nobody's inbox has been touched."""
    mesh.run()
    mesh.check()
    assert not any(node.received or node.inbox or node.lost for node in mesh.nodes.values())


@given(st.data())
def test_ping_is_answered_as_a_message_would_be(data: DataObject) -> None:
    mesh = joined(data, mixed=False)
    sender = data.draw(st.sampled_from(list(mesh.nodes.values())), label="sender")
    dst = data.draw(destinations(mesh.tree), label="destination")
    mesh.crossings = Counter()
    asked = mesh.ping(sender, dst)
    settled(mesh)
    assert max(mesh.crossings.values(), default=1) == 1
    nobody = not receivers(mesh.tree, sender.position, asked.dst) or missing_rank(mesh.tree, asked.dst)
    assert asked.ack is not None and asked.ack.code == (Code.NO_ROUTE if nobody else Code.OK)
    if asked.ack.ok and asked.dst.unicast:
        assert asked.ack.src == asked.dst.position
    mesh.check_idle()


@given(st.data())
def test_trace_names_every_node_on_the_way(data: DataObject) -> None:
    mesh = joined(data, mixed=True)
    sender, receiver = (data.draw(st.sampled_from(list(mesh.nodes.values())), label=end) for end in ("from", "to"))
    here = sender
    for number, node in enumerate(way(sender, receiver), 1):
        asked = mesh.ping(sender, receiver.position, number)
        settled(mesh)
        assert asked.ack is not None and asked.ack.src == node.position
        if not (mesh.probes(here.position) and mesh.probes(node.position)):
            assert asked.ack.code == FOREIGN
            return
        child = here if here.parent is node else node
        assert asked.ack.code == (BATCHED if mesh.batched(child.position) else TASKNET)
        here = node


@given(st.data())
def test_broadcast_is_answered_for_everybody_or_says_who_was_not_asked(data: DataObject) -> None:
    mesh = joined(data, mixed=True)
    sender = data.draw(st.sampled_from(list(mesh.nodes.values())), label="sender")
    role = data.draw(st.sampled_from(["Worker", "Agent", "Proxy"]), label="to all")
    asked = mesh.ping(sender, Position(role, "All", "All"))
    settled(mesh)
    wanted = [mesh.nodes[position] for position in receivers(mesh.tree, sender.position, asked.dst)]
    # Only the Mgr knows all receivers, so it is asked as well.
    ways = [[sender, *way(sender, node)] for node in (mesh.nodes[Position.mgr()], *wanted)]
    known = all(mesh.probes(node.position) for nodes in ways for node in nodes if len(nodes) > 1)
    assert asked.ack is not None
    assert asked.ack.code == (FOREIGN if not known else Code.OK if wanted else Code.NO_ROUTE)
