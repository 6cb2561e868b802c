"""The connections of a parent: the children that came over each, their kinds of peer, and whose streams stand there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from taskd_net.core.routes import LinkId
from taskd_net.net.links.peer import Peer
from taskd_net.net.links.remote import Remote

_NO_STREAMS: Mapping[LinkId, int] = {}


class Connections:
    """The connections of one parent.

    Of each child the newest is kept, and every other one for as long as a stream stands over it. A child that connects
    again and again so costs no memory each time.
    """

    def __init__(self) -> None:
        self._links: dict[Remote, set[LinkId]] = {}
        self._connection_of: dict[LinkId, Remote] = {}
        self._peers: dict[LinkId, Peer] = {}
        # Streams of each child: a child opens a new one before its old one has ended.
        self._streams: dict[Remote, Counter[LinkId]] = {}
        self._only: dict[Remote, LinkId] = {}  # by connection, where one child alone has streams
        self._of_host: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._links)

    def came_over(self, connection: Remote, link: LinkId, peer: Peer | None = None) -> None:
        """A child has registered, then with what kind of peer it is, or opened its stream."""
        self._leave(link)
        self._connection_of[link] = connection
        if connection not in self._links:
            self._links[connection] = set()
            self._of_host[connection.place] += 1
        self._links[connection].add(link)
        if peer is not None:
            self._peers[link] = peer

    def forget(self, link: LinkId) -> None:
        """A child is gone."""
        self._leave(link)
        self._peers.pop(link, None)

    def stream_stands(self, connection: Remote, link: LinkId) -> None:
        """A child's stream stands over this connection."""
        self._streams.setdefault(connection, Counter())[link] += 1
        self._look_for_one(connection)

    def stream_ended(self, connection: Remote, link: LinkId) -> None:
        """It has ended."""
        streams = self._streams[connection]
        streams[link] -= 1
        if not streams[link]:
            del streams[link]
        if not streams:
            del self._streams[connection]
        self._look_for_one(connection)

    def link(self, connection: Remote) -> LinkId | None:
        """The one child whose stream stands over a connection; None without one, or with several."""
        return self._only.get(connection)

    def streams(self, connection: Remote) -> AbstractSet[LinkId]:
        """The children whose streams stand over a connection."""
        return self._streams.get(connection, _NO_STREAMS).keys()

    def links(self, connection: Remote) -> AbstractSet[LinkId]:
        """The children that have registered over a connection, or opened their stream."""
        return self._links.get(connection, frozenset())

    def of_host(self, connection: Remote) -> int:
        """The number of other children's connections from this one's host."""
        return self._of_host[connection.place] - (connection in self._links)

    def peer(self, link: LinkId) -> Peer:
        """The profile of a child."""
        return self._peers[link]

    def known(self, link: LinkId) -> Peer | None:
        """The same; None for a child that has not registered over any connection."""
        return self._peers.get(link)

    def address(self, link: LinkId) -> str:
        """The source of a child's newest connection, as `host:port`; empty if unknown."""
        connection = self._connection_of.get(link)
        return "" if connection is None else connection.address

    def peer_over(self, connection: Remote) -> Peer | None:
        """The profile of the peer of a connection; None before it has registered."""
        # One process has one connection for all that it does, so its children are of one kind.
        link = next(iter(self._links.get(connection, ())), None)
        return None if link is None else self._peers[link]

    def _look_for_one(self, connection: Remote) -> None:
        # Kept, not looked for with each message: nearly every connection has one child's stream.
        streams = self._streams.get(connection, ())
        if len(streams) == 1:
            (self._only[connection],) = streams
        else:
            self._only.pop(connection, None)

    def _leave(self, link: LinkId) -> None:
        connection = self._connection_of.pop(link, None)
        if connection is not None:
            self._links[connection].discard(link)
            if not self._links[connection]:
                del self._links[connection]
                host = connection.place
                self._of_host[host] -= 1
                if not self._of_host[host]:
                    del self._of_host[host]
