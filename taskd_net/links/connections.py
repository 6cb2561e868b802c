"""Which children came over which connection, what kind of peer each of them is, and whose streams stand there."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Set as AbstractSet
from urllib.parse import unquote

from taskd_net.address import Address
from taskd_net.core.routes import LinkId
from taskd_net.links.peer import Peer


def host_of(connection: str) -> str:
    """The address that a connection comes from, of the name that gRPC has for it (`ipv4:127.0.0.1:40312`)."""
    return unquote(connection.rpartition(":")[0])


def is_of_this_machine(connection: str, listen: Address) -> bool:
    """Whether a connection comes from the machine of the node that listens there, as far as addresses show it."""
    family, _, host = host_of(connection).partition(":")
    if family not in ("ipv4", "ipv6"):
        return False
    address = ipaddress.ip_address(host.strip("[]").partition("%")[0])
    address = getattr(address, "ipv4_mapped", None) or address
    # Who connects to an address of its own machine comes from that address.
    return address.is_loopback or str(address) == listen.host


class Connections:
    """The connections of one parent, by the name that gRPC has for them.

    Only the newest of each child: one that connects again and again must not cost memory each time. Beside it every
    connection over which a stream stands, for as long as it does.
    """

    def __init__(self) -> None:
        self._links: dict[str, set[LinkId]] = {}
        self._connection_of: dict[LinkId, str] = {}
        self._peers: dict[LinkId, Peer] = {}
        # How many streams of each child: one opens a new one before its old one has ended.
        self._streams: dict[str, Counter[LinkId]] = {}
        self._only: dict[str, LinkId] = {}  # by connection, where one child alone has streams
        self._of_host: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._links)

    def came_over(self, connection: str, link: LinkId, peer: Peer | None = None) -> None:
        """A child has registered, then with what kind of peer it is, or opened its stream."""
        self._leave(link)
        self._connection_of[link] = connection
        if connection not in self._links:
            self._links[connection] = set()
            self._of_host[host_of(connection)] += 1
        self._links[connection].add(link)
        if peer is not None:
            self._peers[link] = peer

    def forget(self, link: LinkId) -> None:
        """A child is gone."""
        self._leave(link)
        self._peers.pop(link, None)

    def stream_stands(self, connection: str, link: LinkId) -> None:
        """A child's stream stands over this connection."""
        self._streams.setdefault(connection, Counter())[link] += 1
        self._look_for_one(connection)

    def stream_ended(self, connection: str, link: LinkId) -> None:
        """It has ended."""
        streams = self._streams[connection]
        streams[link] -= 1
        if not streams[link]:
            del streams[link]
        if not streams:
            del self._streams[connection]
        self._look_for_one(connection)

    def link(self, connection: str) -> LinkId | None:
        """The one child whose stream stands over a connection; None without one, or with several."""
        return self._only.get(connection)

    def streams(self, connection: str) -> AbstractSet[LinkId]:
        """The children whose streams stand over a connection."""
        return self._streams.get(connection, Counter()).keys()

    def links(self, connection: str) -> AbstractSet[LinkId]:
        """The children that have registered over a connection, or opened their stream."""
        return self._links.get(connection, frozenset())

    def of_host(self, connection: str) -> int:
        """How many connections children hold from the host of this one, itself not counted."""
        return self._of_host[host_of(connection)] - (connection in self._links)

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

    def _look_for_one(self, connection: str) -> None:
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
                host = host_of(connection)
                self._of_host[host] -= 1
                if not self._of_host[host]:
                    del self._of_host[host]
