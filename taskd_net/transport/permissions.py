"""Whose a call is: what its connection shows, and for which child it may speak."""

from __future__ import annotations

from taskd_net.codes import Code
from taskd_net.core.frame import Frame
from taskd_net.core.identity import Credentials, Violation
from taskd_net.core.links import Link
from taskd_net.core.router import Router
from taskd_net.core.routes import LinkId
from taskd_net.links.connections import Connections, host_of
from taskd_net.links.session import Context
from taskd_net.tls.credentials import peer_names


class Permissions:
    """The gate of one parent.

    A connection over which streams stand belongs to their children, and to whoever registered over it: one process may
    be several nodes. On any other the peer is known by its credentials: who reconnects in the middle of joining, or
    comes through a proxy that has one connection for each call, uses a connection without any.

    Args:
        router: the parent's.
        connections: of its children.
        certified: whether children take positions by their certificates.
    """

    def __init__(self, router: Router, connections: Connections, *, certified: bool) -> None:
        self._router = router
        self._connections = connections
        self._certified = certified

    def shown(self, context: Context) -> Credentials:
        """What a call's connection shows of the peer that makes it."""
        host = host_of(context.peer())
        shown = context.auth_context() if self._certified else {}
        # Over the plain address, which is of this machine alone, nothing is shown.
        if b"ssl" not in shown.get("transport_security_type", ()):
            return Credentials(host)
        return Credentials(host, frozenset(peer_names(shown)))

    def speaks_for(self, context: Context, link: Link) -> bool:
        """Whether a call is made by the peer that registered a child."""
        connection = context.peer()
        streams = self._connections.streams(connection)
        if streams:
            return link.id in streams or link.id in self._connections.links(connection)
        return link.credentials.same_peer(self.shown(context))

    def bringer(self, frame: Frame, context: Context) -> LinkId:
        """The child that brings a message: mostly the one whose stream stands over the connection.

        Raises:
            Violation: 4002, nobody who may bring messages of this sender uses the connection.
        """
        connection, children = context.peer(), self._router.children.by_id
        link_id = self._connections.link(connection)
        if link_id in children:
            return link_id
        route = self._router.routes.next_hop(frame.src.identity)
        streams = self._connections.streams(connection)
        candidates = [children[link] for link in streams if link in children]
        if not streams:
            credentials = self.shown(context)
            links = self._connections.links(connection) | ({route} if route is not None else set())
            candidates = [children[link] for link in links if children[link].credentials.same_peer(credentials)]
        if not candidates:
            text = f"src {frame.src} is nobody who has joined over this connection"
            raise Violation(Code.NIL_POSITION, text, frame.uuid)
        # The Router looks at the choice as at every message: first who leads to the sender, then who may do so.
        return min(candidates, key=lambda link: (link.id != route, link.is_leaf)).id
