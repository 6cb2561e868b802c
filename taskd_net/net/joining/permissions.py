"""Permissions of calls: the children for which a connection may speak."""

from __future__ import annotations

from taskd_net.base.codes import Code
from taskd_net.core.frame import Frame
from taskd_net.core.identity import Credentials, Violation
from taskd_net.core.links import Link
from taskd_net.core.router import Router
from taskd_net.core.routes import LinkId
from taskd_net.net.links.connections import Connections
from taskd_net.net.links.remote import Caller


class Permissions:
    """The permissions at one parent.

    A connection over which streams stand belongs to their children and to every node that registered over it: one
    process may be several nodes. On any other connection the peer is known by its credentials. A child uses such a
    connection when it reconnects in the middle of joining, or comes through a proxy with one connection per call.

    Args:
        router: the parent's.
        connections: of its children.
        certified: whether children take positions by their certificates.
    """

    def __init__(self, router: Router, connections: Connections, *, certified: bool) -> None:
        self._router = router
        self._connections = connections
        self._certified = certified

    def shown(self, caller: Caller) -> Credentials:
        """The credentials that a connection shows of the peer at its far end."""
        names = caller.names() if self._certified else None
        # The plain address is of this machine alone, and shows no certificate.
        return Credentials(caller.remote.place, names, unproven=self._certified and names is None)

    def speaks_for(self, caller: Caller, link: Link) -> bool:
        """True if a call is made by the peer that registered a child."""
        connection = caller.remote
        streams = self._connections.streams(connection)
        if streams:
            return link.id in streams or link.id in self._connections.links(connection)
        return link.credentials.same_peer(self.shown(caller))

    def bringer(self, frame: Frame, caller: Caller) -> LinkId:
        """The child that brings a message: mostly the one whose stream stands over the connection.

        Raises:
            Violation: 4002, nobody who may bring messages of this sender uses the connection.
        """
        connection, children = caller.remote, self._router.children.by_id
        link_id = self._connections.link(connection)
        if link_id in children:
            return link_id
        route = self._router.routes.next_hop(frame.src.identity)
        streams = self._connections.streams(connection)
        candidates = [children[link] for link in streams if link in children]
        if not streams:
            credentials = self.shown(caller)
            links = self._connections.links(connection) | ({route} if route is not None else set())
            candidates = [children[link] for link in links if children[link].credentials.same_peer(credentials)]
        if not candidates:
            text = f"src {frame.src} is nobody who has joined over this connection"
            raise Violation(Code.NIL_POSITION, text, frame.uuid)
        # The Router checks the choice as for every message: first the route to the sender, then the permission.
        return min(candidates, key=lambda link: (link.id != route, link.is_leaf)).id
