"""Children of each connection, and their streams."""

from taskd_net.net.links.connections import Connections
from taskd_net.net.links.peer import CONTRACT, ORIGINAL, Peer
from taskd_net.net.links.remote import remote_of

A, B, C = map(remote_of, ("ipv4:10.0.0.1:40001", "ipv4:10.0.0.2:40001", "ipv4:10.0.0.1:40003"))


def test_one_child_to_a_connection() -> None:
    connections = Connections()
    assert (connections.links(A), connections.peer_over(A), len(connections)) == (set(), None, 0)
    connections.came_over(A, 1, Peer(ORIGINAL))
    connections.came_over(B, 2, Peer(CONTRACT))
    assert (connections.links(A), connections.links(B)) == ({1}, {2})
    assert connections.peer_over(A) == connections.peer(1) == Peer(ORIGINAL)
    connections.came_over(C, 1)
    assert (connections.links(A), connections.links(C), len(connections)) == (set(), {1}, 2)
    assert connections.peer(1) == Peer(ORIGINAL)
    for _ in range(2):
        connections.forget(1)
    assert (connections.links(C), connections.peer_over(C), len(connections)) == (set(), None, 1)


def test_streams_of_a_connection() -> None:
    connections = Connections()
    assert (connections.link(A), connections.streams(A)) == (None, set())
    connections.stream_stands(A, 1)
    assert (connections.link(A), connections.streams(A)) == (1, {1})
    connections.stream_stands(A, 2)
    assert (connections.link(A), connections.streams(A)) == (None, {1, 2})
    # The same child's next stream, over another connection, while the first has not ended.
    connections.stream_stands(B, 1)
    connections.stream_ended(A, 1)
    assert (connections.link(A), connections.link(B)) == (2, 1)
    connections.stream_ended(A, 2)
    connections.stream_ended(B, 1)
    assert not connections._streams


def test_several_children_over_one_connection_are_of_one_kind() -> None:
    connections = Connections()
    for link in (1, 2):
        connections.came_over(A, link, Peer(CONTRACT))
    assert connections.peer_over(A) == Peer(CONTRACT)
    connections.forget(1)
    assert connections.links(A) == {2}


def test_connections_of_a_host() -> None:
    connections = Connections()
    for link, connection in enumerate((A, B, A, C)):
        connections.came_over(connection, link, Peer(CONTRACT))
    assert [
        connections.of_host(one) for one in (A, B, C, remote_of("ipv4:10.0.0.1:1"), remote_of("ipv4:10.0.0.9:1"))
    ] == [1, 0, 1, 2, 0]
    for link in range(4):
        connections.forget(link)
    assert (connections.of_host(A), len(connections._of_host)) == (0, 0)


def test_child_whose_next_stream_stands_before_the_older_one_has_ended() -> None:
    """Over one connection, as nodes of the original's do when they join again."""
    connections = Connections()
    connections.stream_stands(A, 1)
    connections.stream_stands(A, 1)
    connections.stream_ended(A, 1)
    assert (connections.link(A), connections.streams(A)) == (1, {1})
    connections.stream_ended(A, 1)
    assert (connections.link(A), connections.streams(A)) == (None, set())
