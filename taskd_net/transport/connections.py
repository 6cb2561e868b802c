"""Which children came over which connection, and what kind of peer each of them is."""

from __future__ import annotations

from urllib.parse import unquote

from taskd_net.core.routes import LinkId
from taskd_net.transport.peer import Peer


class Connections:
    """The connections of one parent, by the name that gRPC has for them.

    Only the newest of each child: one that connects again and again must not cost memory each time.
    """

    def __init__(self) -> None:
        self._links: dict[str, set[LinkId]] = {}
        self._connection_of: dict[LinkId, str] = {}
        self._peers: dict[LinkId, Peer] = {}

    def __len__(self) -> int:
        return len(self._links)

    def came_over(self, connection: str, link: LinkId, peer: Peer | None = None) -> None:
        """A child has registered, then with what kind of peer it is, or opened its stream."""
        self._leave(link)
        self._connection_of[link] = connection
        self._links.setdefault(connection, set()).add(link)
        if peer is not None:
            self._peers[link] = peer

    def forget(self, link: LinkId) -> None:
        """A child is gone."""
        self._leave(link)
        self._peers.pop(link, None)

    def link(self, connection: str) -> LinkId | None:
        """The child that uses a connection; None where none is known, or several share it."""
        links = self._links.get(connection, ())
        return next(iter(links)) if len(links) == 1 else None

    def peer(self, link: LinkId) -> Peer:
        """What kind of peer a child is."""
        return self._peers[link]

    def known(self, link: LinkId) -> Peer | None:
        """The same; None for a child that has not registered over any connection."""
        return self._peers.get(link)

    def address(self, link: LinkId) -> str:
        """Where a child's newest connection comes from, as `host:port`; empty where that is not known."""
        # gRPC's name for it: ipv4:127.0.0.1:1234, ipv6:%5B::1%5D:1234, unix:
        family, _, address = self._connection_of.get(link, "").partition(":")
        return unquote(address) if family in ("ipv4", "ipv6") else ""

    def peer_over(self, connection: str) -> Peer | None:
        """What kind of peer is at the other end of a connection; None before it has registered."""
        # One process has one connection for all that it does, so its children are of one kind.
        link = next(iter(self._links.get(connection, ())), None)
        return None if link is None else self._peers[link]

    def _leave(self, link: LinkId) -> None:
        connection = self._connection_of.pop(link, None)
        if connection is not None:
            self._links[connection].discard(link)
            if not self._links[connection]:
                del self._links[connection]
