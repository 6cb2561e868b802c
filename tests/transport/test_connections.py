"""Which children came over which connection."""

from taskd_net.transport.connections import Connections
from taskd_net.transport.peer import CONTRACT, ORIGINAL, Peer


def test_one_child_to_a_connection() -> None:
    connections = Connections()
    assert (connections.link("a"), connections.peer_over("a"), len(connections)) == (None, None, 0)
    connections.came_over("a", 1, Peer(ORIGINAL))
    connections.came_over("b", 2, Peer(CONTRACT))
    assert (connections.link("a"), connections.link("b")) == (1, 2)
    assert connections.peer_over("a") == connections.peer(1) == Peer(ORIGINAL)
    connections.came_over("c", 1)
    assert (connections.link("a"), connections.link("c"), len(connections)) == (None, 1, 2)
    assert connections.peer(1) == Peer(ORIGINAL)
    for _ in range(2):
        connections.forget(1)
    assert (connections.link("c"), connections.peer_over("c"), len(connections)) == (None, None, 1)


def test_several_children_over_one_connection_are_not_told_apart() -> None:
    connections = Connections()
    for link in (1, 2):
        connections.came_over("a", link, Peer(CONTRACT))
    assert connections.link("a") is None
    assert connections.peer_over("a") == Peer(CONTRACT)
    connections.forget(1)
    assert connections.link("a") == 2
