"""The batched kind of link: its offer, and both ends of its stream.

`batched` has the session, `traced` the session of a node that traces messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from taskd_net.base.position import Position
from taskd_net.core.links import UP, Link
from taskd_net.core.routes import LinkId
from taskd_net.net.links import peer as peers
from taskd_net.net.links.batched import NAME, PROBED, BatchedLink
from taskd_net.net.links.grpc_calls import Handler
from taskd_net.net.links.grpc_stream import ServerPipe, open_stream, stream_handler
from taskd_net.net.links.kind import Acceptor, LinkKind, Opened, Parent, Way
from taskd_net.net.links.peer import Metadata, Peer
from taskd_net.net.links.remote import Caller
from taskd_net.net.links.session import Host, Pipe
from taskd_net.net.links.traced import TracedLink

OFFER: Final = "batched/2"
STREAM: Final = "/taskd_net.link.TaskLink/Exchange"


class _Acceptor(Acceptor):
    """The parent's end."""

    def offer(self, link: LinkId, caller: Caller) -> Metadata:
        """The stream, and answers by number on it."""
        return ((peers.LINKS_KEY, OFFER), peers.NUMBERS)

    def handlers(self) -> Mapping[str, Handler]:
        """The stream."""
        parent = self._parent

        def make(link: Link, pipe: ServerPipe) -> BatchedLink:
            peer = parent.connections.peer(link.id)
            return _session(parent.host, link.id, link.position, pipe, peer)

        return {STREAM: stream_handler(parent, make, tells=True)}


class Batched(LinkKind):
    """One stream of batches, both ways, between two nodes of ours."""

    name, probed = NAME, PROBED

    def offered(self, peer: Peer) -> bool:
        """True if a parent offers this version of the batched link."""
        return peer.said.get(peers.LINKS_KEY) == OFFER

    async def open(self, way: Way) -> Opened:
        """Open the stream; the parent says with it whether it has joined."""
        pipe, accepted = await open_stream(way, STREAM)
        return Opened(_session(way.host, UP, way.parent, pipe, way.peer), pipe, peers.parent_joined(accepted))

    def acceptor(self, parent: Parent) -> Acceptor:
        """The parent's end."""
        return _Acceptor(parent)


def _session(host: Host, link: LinkId, position: Position, pipe: Pipe[bytes], peer: Peer) -> BatchedLink:
    numbered, counts, tracer = peer.numbers, peer.counts, host.tracer
    if tracer is None:
        return BatchedLink(host, link, position, pipe, numbered=numbered, counts=counts)
    return TracedLink(host, link, position, pipe, tracer, numbered=numbered, counts=counts)


KIND: Final = Batched()
