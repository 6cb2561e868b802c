"""Connections to the parent: the same steps lead to the first one, and to one that takes its place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol
from uuid import uuid4

import grpc

from taskd_net.base import limits
from taskd_net.base.address import Address
from taskd_net.base.codes import Code, NodeError, Refusal, describe
from taskd_net.base.position import Position
from taskd_net.base.untrusted import shown
from taskd_net.net.joining import channel as channels
from taskd_net.net.joining.approach import Approach, approach_of
from taskd_net.net.links import peer as peers
from taskd_net.net.links import registry
from taskd_net.net.links.grpc_calls import GrpcRequests, unary_call
from taskd_net.net.links.kind import Failed, LinkKind, Opened, Requests, Unreachable, Way
from taskd_net.net.links.session import Host, Session
from taskd_net.net.wire import codec, requests

if TYPE_CHECKING:
    from taskd_net.net.tls.rotation import Rotation

UNKNOWN_MAX_S: Final = 14.0
"""Seconds that Register gets at most at a parent that has never answered: two pings. A parent that permits none, like
the original's, closes the connection at the third."""

TRIED_AGAIN: Final = ", tried again every minute"
"""The end of the reason for a link that moves to a better kind when that can be reached."""


class Reports(Protocol):
    """Reports to the parent."""

    async def run(self, requests: Callable[[], Requests], parent: peers.Peer) -> None:
        """Report by the requests of the moment, until cancelled."""

    async def rest(self, requests: Requests, parent: peers.Peer) -> None:
        """Report what the parent does not know yet, before this node leaves."""


class NoPlace(Failed):
    """The parent has its maximum of children, or of connections from this address, or is of another job."""


class ParentConnection(NamedTuple):
    """A connection to the parent.

    Attributes:
        channel: gRPC's; None where the link carries the requests as well, so that the channel was closed.
        credentials: those that it was made with.
        better: the preferred kind that was offered, and could not be reached; None where it was, or none was.
        opened: the link on it.
        requests: carries announcements and reports.
    """

    channel: grpc.aio.Channel | None
    credentials: grpc.ChannelCredentials | None
    opened: Opened
    requests: Requests
    better: LinkKind | None = None

    @property
    def session(self) -> Session[Any]:
        """The session of the link."""
        return self.opened.session


@dataclass(eq=False)
class Stay:
    """One stay with the parent: from the link's opening to its end, or to the end of the one that it has moved to.

    Attributes:
        parent, peer: the parent's position and properties.
        connection: of the moment.
        tasks: the work that ends with the stay.
        renewing: it moves to a new connection.
        ended: the parent knows that this node leaves in good order.
        moving: held while the old link has ended, or may, and the new one does not stand yet.
    """

    connection: ParentConnection
    parent: Position
    peer: peers.Peer
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    renewing: bool = False
    ended: bool = False
    moving: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def session(self) -> Session[Any]:
        """The session of the moment."""
        return self.connection.session

    @property
    def requests(self) -> Requests:
        """Announcements and reports, over the connection of the moment."""
        return self.connection.requests

    def begins_to_move(self) -> bool:
        """Begin to move to a new connection. Returns False if it moves already."""
        begins, self.renewing = not self.renewing, True
        return begins

    def has_moved(self) -> None:
        """End a move, whether or not it has succeeded."""
        self.renewing = False

    def go_on(self, connection: ParentConnection) -> None:
        """Go on over a connection, whose session takes over what the old one has under way."""
        self.session.hand_over(connection.session)
        self.connection = connection

    def spawn(self, work: Coroutine[object, object, None]) -> None:
        """Do something for as long as the stay lasts."""
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)


class Connector:
    """Connects one node with its parent.

    Args:
        host: the node.
        upstream: the parent's address.
        ack_timeout: seconds for the parent's answer to each step.
        rotation: the certificates for TLS; None for plain text.
        kinds: the kinds of link that the node uses, the preferred first.
        choice: gives, for reports, the address among several and the reasons against others; empty with a single one.
        service: whether the node is a tool or a service, and no rank of the job.

    Attributes:
        pings: whether channels ping the parent: a setting of the channel, which exists before the parent has said
            whether it permits them.
    """

    def __init__(
        self,
        host: Host,
        upstream: Address,
        ack_timeout: float,
        rotation: Rotation | None,
        kinds: Sequence[LinkKind],
        choice: Callable[[], str],
        *,
        service: bool,
    ) -> None:
        self._host = host
        self._router = host.router
        self._upstream = upstream
        self._ack_timeout = ack_timeout
        self._rotation = rotation
        self._kinds = kinds
        self._service = service
        self.pings = True
        self._choice = choice
        self._known = False
        self._unreachable = ""
        # The last text of gRPC about an unreachable parent, and its meaning.
        self._details = ("", "")

    @property
    def approach(self) -> Approach:
        """The approach to this parent that the nodes of the running event loop share."""
        return approach_of(self._upstream)

    def is_stale(self, connection: ParentConnection) -> bool:
        """True if the certificates have changed since a connection was made."""
        return self._rotation is not None and connection.credentials is not self._rotation.client

    def adapts_to(self, permits_pings: bool) -> bool:
        """Ping as a parent permits. Returns True if channels were opened otherwise until now."""
        before, self.pings = self.pings, permits_pings
        return before != permits_pings

    def open_channel(self) -> tuple[grpc.ChannelCredentials | None, grpc.aio.Channel]:
        """A channel of its own for one attempt, and the credentials that it is made with.

        Raises:
            Failed: the process is at its limit of threads.
        """
        credentials, server_name = None, None
        if self._rotation is not None:
            credentials, server_name = self._rotation.client, self._rotation.tls.server_name
        try:
            return credentials, channels.open_channel(
                self._upstream, credentials, server_name, pings=self.pings, times=self._host.times
            )
        except NodeError as error:
            raise Failed(str(error)) from None

    async def answers(self) -> bool:
        """True as soon as somebody answers there, with TLS and HTTP/2. It registers nothing, and may wait for ever."""
        _, channel = self.open_channel()
        try:
            await channel.channel_ready()
        finally:
            await channel.close()
        return True

    async def accepts(self) -> bool:
        """True if a parent there takes this node now. The place that it gives ends by itself."""
        try:
            _, channel = self.open_channel()
            try:
                await self.register(channel)
            finally:
                await channel.close()
        except Failed:
            return False
        return True

    async def register(self, channel: grpc.aio.Channel) -> tuple[Position, peers.Peer]:
        """Introduce this node. Returns who the parent is, and what kind of peer.

        Raises:
            Failed: it is not there, or refuses.
        """
        approach, usual = self.approach, self._ack_timeout
        limit = approach.limit(usual)
        if not self._known:
            limit = min(limit, UNKNOWN_MAX_S)
        began = self._host.now()
        # The same three fields here, on the stream and in announcements: some parents look them up as they are.
        call = unary_call(channel, "Register")(
            requests.write_register(str(uuid4()), self._router.identity),
            metadata=peers.own_metadata(service=self._service, job=self._router.membership.job_id),
            timeout=limit,
        )
        try:
            ack = codec.read_ack(await call, Position.mgr())
            metadata = peers.read_metadata(await call.trailing_metadata())
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                approach.ran_out(usual, limit)
            raise Failed(f"Register: {await self._in_words(error)}") from error
        except Refusal as refusal:
            raise Failed(f"Register: {refusal}") from refusal
        self._known = True
        approach.answered(usual, self._host.now() - began)
        peer = peers.of_parent(metadata)
        own = self._router.membership
        # It does not say so where it has taken its job's id a moment ago.
        if own.excludes(peer.job_id):
            theirs = f"{ack.src} at {self._upstream} is of job {shown(peer.job_id)}"
            raise NoPlace(f"this node is of job {shown(own.job_id)}, and {theirs}")
        if not ack.ok:
            refused = NoPlace if ack.code == Code.EXCEED_MAX_REGISTRY_NUM else Failed
            unnamed = f"; or the parent proves claims, and the certificate names no {self._router.position}"
            why = unnamed if ack.code == Code.NIL_POSITION else ""
            raise refused(f"Register was refused: {describe(ack.code)}{why}")
        return ack.src, peer

    async def _in_words(self, error: grpc.aio.AioRpcError) -> str:
        if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
            return f"{self._upstream} has not answered in time"
        details = error.details() or ""
        said = f"{error.code().name}: {details}"
        if error.code() is not grpc.StatusCode.UNAVAILABLE:
            return said
        if details != self._details[0]:  # it may take a connection to find out
            from taskd_net.net.tls.explain import explain

            tls = self._rotation is not None and self._rotation.client is not None
            name = self._rotation.tls.server_name if self._rotation is not None else None
            words = await explain(details, self._upstream, tls=tls, name=name or self._upstream.host)
            self._details = (details, said if words == details else words)
        return self._details[1]

    async def open(
        self,
        channel: grpc.aio.Channel,
        credentials: grpc.ChannelCredentials | None,
        parent: Position,
        peer: peers.Peer,
        *,
        continues: bool = False,
        of_kind: str = "",
    ) -> ParentConnection:
        """Open a link to a parent at which this node has registered: the first offered kind that can be reached.

        `of_kind`: the name of the only kind to try; empty for all.

        Raises:
            Failed: there is none.
        """
        way = self._way(channel, parent, peer, continues=continues)
        failed = Failed("the parent offers no kind of link that this node uses")
        better = None
        first = self._kinds[0].name
        configured = "" if first == registry.best() else f"this node is configured for {first} links at best"
        # The reason against the first kind explains the link best, so it stays.
        reasons: list[str] = []
        for kind in self._kinds:
            if of_kind and kind.name != of_kind:
                continue
            if not kind.offered(peer):
                offers = f"the parent offers no {kind.name} link"
                reasons.append(offers if peer.version else "the parent knows the four calls alone")
            else:
                try:
                    opened = await kind.open(way)
                except Unreachable as unreachable:
                    failed = unreachable
                    better = better or kind
                    reasons.append(f"{unreachable}{TRIED_AGAIN}")
                    self._not_there(kind, unreachable)
                else:
                    why = reasons[0] if reasons else configured
                    opened.session.upstream = self._choice()
                    opened.session.why = why.encode()[: limits.STATUS_REASON_BYTES].decode(errors="ignore")
                    if opened.requests is not None:
                        await channel.close()
                        return ParentConnection(None, credentials, opened, opened.requests, better)
                    calls = GrpcRequests(channel, self._router.identity, parent, peer)
                    return ParentConnection(channel, credentials, opened, calls, better)
        raise failed

    async def better_answers(self, connection: ParentConnection, parent: Position, peer: peers.Peer) -> bool:
        """True if a kind that is preferred to that of a connection, and could not be reached, can be reached now."""
        better, channel = connection.better, connection.channel
        if better is None or channel is None:
            return False
        return await better.answers(self._way(channel, parent, peer))

    def _way(self, channel: grpc.aio.Channel, parent: Position, peer: peers.Peer, *, continues: bool = False) -> Way:
        context, server_name = None, None
        if self._rotation is not None:
            server_name = self._rotation.tls.server_name
            context = self._rotation.client_context if self._rotation.tls.connects else None
        upstream = self._upstream
        return Way(
            self._host,
            parent,
            peer,
            channel,
            self.approach.limit(self._ack_timeout),
            upstream,
            context,
            server_name or upstream.host,
            continues,
        )

    def _not_there(self, kind: LinkKind, reason: Unreachable) -> None:
        """Log that a kind of link cannot be reached, once for each reason."""
        if str(reason) != self._unreachable:
            self._unreachable = str(reason)
            self._host.log.warning(
                "link_unreachable", upstream=str(self._upstream), link=kind.name, reason=self._unreachable
            )

    async def connected(self, channel: grpc.aio.Channel) -> None:
        """Wait until there is a connection.

        Raises:
            Failed: there is none in time.
        """
        try:
            async with asyncio.timeout(self._ack_timeout):
                await channel.channel_ready()
        except TimeoutError as error:
            raise Failed("there is no connection") from error
