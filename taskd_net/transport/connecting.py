"""The steps that lead to a connection with the parent: the same for the first one, and for one that takes its place."""

from __future__ import annotations

import asyncio
from typing import NamedTuple
from uuid import uuid4

import grpc

from taskd_net import limits
from taskd_net.address import Address
from taskd_net.codes import Refusal, TaskdNetError, describe
from taskd_net.core.links import UP
from taskd_net.links import peer as peers
from taskd_net.links.host import Host
from taskd_net.links.session import ClientPipe, Session
from taskd_net.links.tasknet import ToParent
from taskd_net.links.traced import Tracer, batched_link
from taskd_net.position import Position
from taskd_net.tls.explain import explain
from taskd_net.tls.rotation import Rotation
from taskd_net.transport import channel as channels
from taskd_net.wire import codec, requests


class Failed(TaskdNetError):
    """A step came to nothing; the text says why."""


class Connection(NamedTuple):
    """A connection to the parent: the channel, what it was made with, its stream, and what runs over that.

    `told`: whether the parent said, when it accepted the stream, that it has joined; None where it does not tell.
    """

    channel: grpc.aio.Channel
    credentials: grpc.ChannelCredentials | None
    stream: channels.Stream
    session: Session
    told: bool | None = None


class Connector:
    """Connects one node with its parent.

    Args:
        host: the node.
        upstream: the parent's address.
        ack_timeout: seconds for the parent's answer to each step.
        rotation: the certificates for TLS; None for plain text.
        tracer: of a node that traces messages.
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
        tracer: Tracer | None,
        *,
        service: bool,
    ) -> None:
        self._host = host
        self._router = host.router
        self._upstream = upstream
        self._ack_timeout = ack_timeout
        self._rotation = rotation
        self._tracer = tracer
        self._service = service
        self.pings = True
        # What gRPC has said last of a parent that is not there, and what it means.
        self._details = ("", "")

    def is_stale(self, connection: Connection) -> bool:
        """Whether there are other certificates than those that a connection was made with."""
        return self._rotation is not None and connection.credentials is not self._rotation.client

    def open_channel(self) -> tuple[grpc.ChannelCredentials | None, grpc.aio.Channel]:
        """A channel of its own for one attempt, and the credentials that it is made with."""
        credentials, server_name = None, None
        if self._rotation is not None:
            credentials, server_name = self._rotation.client, self._rotation.tls.server_name
        return credentials, channels.open_channel(self._upstream, credentials, server_name, pings=self.pings)

    async def register(self, channel: grpc.aio.Channel) -> tuple[Position, peers.Peer]:
        """Introduce this node. Returns who the parent is, and what kind of peer.

        Raises:
            Failed: it is not there, or refuses.
        """
        # The same three fields here, on the stream and in announcements: some parents look them up as they are. And
        # no longer than it takes until the first ping, as this parent may not permit one.
        call = channels.unary_call(channel, "Register")(
            requests.write_register(str(uuid4()), self._router.identity),
            metadata=peers.own_metadata(service=self._service),
            timeout=min(self._ack_timeout, limits.KEEPALIVE_TIME_S) if self.pings else self._ack_timeout,
        )
        try:
            ack = codec.read_ack(await call, Position.mgr())
            metadata = peers.read_metadata(await call.trailing_metadata())
        except grpc.aio.AioRpcError as error:
            raise Failed(f"Register: {error.code().name}: {await self._in_words(error)}") from error
        except Refusal as refusal:
            raise Failed(f"Register: {refusal}") from refusal
        if not ack.ok:
            raise Failed(f"Register was refused: {describe(ack.code)}")
        return ack.src, peers.of_parent(metadata)

    async def _in_words(self, error: grpc.aio.AioRpcError) -> str:
        details = error.details() or ""
        if error.code() is not grpc.StatusCode.UNAVAILABLE:
            return details
        if details != self._details[0]:  # it may take a connection to find out
            tls = self._rotation is not None and self._rotation.client is not None
            name = self._rotation.tls.server_name if self._rotation is not None else None
            words = await explain(details, self._upstream, tls=tls, name=name or self._upstream.host)
            self._details = (details, words)
        return self._details[1]

    async def open_stream(
        self, channel: grpc.aio.Channel, peer: peers.Peer, *, batched: bool, continues: bool = False
    ) -> tuple[channels.Stream, bool | None]:
        """Open the stream and wait until it stands, as far as this kind of parent lets one know.

        Returns:
            The stream, and whether the parent says that it has joined; None where it does not tell.

        Raises:
            Failed: it is refused, or not accepted in time.
        """
        metadata = peers.stream_metadata(self._router.identity, continues=continues)
        stream = channels.open_stream(channel, metadata, batched=batched)
        confirms, told = peer.profile.confirms_stream, None
        try:
            async with asyncio.timeout(self._ack_timeout):
                if confirms:
                    accepted = peers.read_metadata(await stream.initial_metadata())
                    told = peers.parent_joined(accepted) if batched else None
                else:
                    await stream.wait_for_connection()
            if confirms and stream.done():
                status, details = await stream.code(), await stream.details()
                raise Failed(f"opening the stream: {status.name}: {details}")
        except TimeoutError as error:
            stream.cancel()
            raise Failed("opening the stream: the parent did not accept the stream in time") from error
        except grpc.aio.AioRpcError as error:
            raise Failed(f"opening the stream: {error.code().name}: {error.details()}") from error
        except BaseException:
            stream.cancel()
            raise
        return stream, told

    def session(
        self, channel: grpc.aio.Channel, stream: channels.Stream, parent: Position, peer: peers.Peer, *, batched: bool
    ) -> Session:
        """What runs over a stream that stands."""
        pipe = ClientPipe(stream)
        if batched:
            numbered, counts = peer.numbers, peer.counts
            return batched_link(self._host, UP, parent, pipe, self._tracer, numbered=numbered, counts=counts)
        return ToParent(self._host, UP, parent, pipe, peer.profile, channel, self._ack_timeout)

    async def connected(self, channel: grpc.aio.Channel) -> None:
        """Wait until there is a connection.

        Raises:
            Failed: there is none in time.
        """
        try:
            await asyncio.wait_for(channel.channel_ready(), self._ack_timeout)
        except TimeoutError as error:
            raise Failed("there is no connection") from error
