"""The parent's side: serves the four calls to children, and writes what goes down to them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import grpc

from taskd_net import limits
from taskd_net.address import Address
from taskd_net.codes import Code, ConfigError, Refusal
from taskd_net.core.frame import Ack, Frame
from taskd_net.core.identity import Violation
from taskd_net.core.links import UP, Link
from taskd_net.core.quota import Quota
from taskd_net.core.ready import Forgot, Kind, Reason
from taskd_net.core.routes import LinkId
from taskd_net.links import grpc_status
from taskd_net.links import peer as peers
from taskd_net.links.batched import BatchedLink
from taskd_net.links.connections import host_of
from taskd_net.links.host import Host
from taskd_net.links.session import Context, ServerPipe, Session
from taskd_net.links.tasknet import ToChild
from taskd_net.links.traced import Tracer, batched_link
from taskd_net.links.transfers import Calls, Transfers
from taskd_net.position import Position
from taskd_net.tls.credentials import ServerCredentials
from taskd_net.tls.strangers import Strangers
from taskd_net.transport import standard
from taskd_net.transport.channel import LINK_SERVICE, server_options
from taskd_net.transport.grpc_log_filter import filter_grpc_logs
from taskd_net.transport.observer import Observer, Services
from taskd_net.transport.permissions import Permissions
from taskd_net.wire import codec, requests

_Call: TypeAlias = Callable[[bytes, Context], Awaitable[Ack]]
_Unary: TypeAlias = Callable[[bytes, Context], Awaitable[bytes]]

# What an unregistered child's stream, and every stream of a closing parent, is ended with. The first text is the
# original's own for that case.
_UNKNOWN = "un registry error"
_CLOSING = "the parent is closing"


class MeshServer:
    """The server of one node.

    Args:
        host: the node.
        observer: of the children.
        services: beside those of the links.
        listen: where; port 0 takes any free port, which `start` returns.
        plain_listen: a second address, without TLS; None for none.
        credentials: for `listen`; None for plain text.
        batched: whether children are offered the batched link.
        certified: whether children take positions by their certificates.
        tracer: of a node that traces messages.

    Attributes:
        plain_address: the second address, with the port that was bound.
    """

    def __init__(
        self,
        host: Host,
        observer: Observer,
        services: Services,
        listen: Address,
        plain_listen: Address | None = None,
        credentials: ServerCredentials | None = None,
        *,
        batched: bool,
        certified: bool,
        tracer: Tracer | None = None,
    ) -> None:
        self._host = host
        self._router = host.router
        self._listen = listen
        self._plain_listen = plain_listen
        self._credentials = credentials
        self.plain_address: Address | None = None
        self._strangers: Strangers | None = None
        self._watch: asyncio.Task[None] | None = None
        self._batched = batched
        self._tracer = tracer
        self._server: grpc.aio.Server | None = None
        self._calls = Calls({})
        # Streams that we end, and what the child is told.
        self._ends: dict[Session, tuple[grpc.StatusCode, str]] = {}
        self._observer = observer
        self._connections = observer.connections
        self._permissions = Permissions(host.router, self._connections, certified=certified)
        self._services = services
        self._limits = host.router.limits
        self._transfers = Transfers(host, self._permissions, self._quota, self._failed, self._end_failed)
        self._closing = False
        self.health = standard.Health(serving=host.router.upstream is None)
        self.depth = 0

    async def start(self) -> Address:
        """Listen. Returns the address with the port that was bound.

        Raises:
            ConfigError: an address cannot be bound (in use, not of this machine, no such host).
        """
        filter_grpc_logs()
        channelz = standard.has_channelz()
        server = grpc.aio.server(options=server_options(self._limits, channelz=channelz))
        unary = grpc.unary_unary_rpc_method_handler
        self._calls = Calls(
            {
                "Register": unary(self._open_to_new(self._guarded(self._register))),
                "PathDiscovery": unary(self._guarded(self._path_discovery)),
                "TransferMessage": unary(self._transfers.take),
                "InitServerDownStream": grpc.stream_stream_rpc_method_handler(self._down_stream),
            }
        )
        server.add_generic_rpc_handlers(
            (
                self._calls,
                grpc.method_handlers_generic_handler(
                    LINK_SERVICE, {"Exchange": grpc.stream_stream_rpc_method_handler(self._exchange)}
                ),
                *self._services.handlers(self._reporting),
            )
        )
        named = standard.by_name(server)
        await self.health.add_to(named)
        if not standard.add_reflection(named) or not self.health.known:
            self._host.log.info("services_missing", reason="install taskd-net[health] for health and reflection")
        if channelz:
            standard.add_channelz(named)
        address = _bind(server, self._listen, self._credentials)
        if self._plain_listen is not None:
            self.plain_address = _bind(server, self._plain_listen, None)
        if self._credentials is not None:
            self._strangers = strangers = Strangers(address.port, self._host.log)
            self._credentials.on_handshake = strangers.handshake
            self._watch = asyncio.create_task(strangers.watch(), name=f"strangers at {address}")
        await server.start()
        self._server = server
        return address

    async def turn_away(self) -> None:
        """Take no new children from now on, and say so. Connections, calls and streams go on until `close`."""
        self._closing = True
        self._services.close()
        await self.health.stop()

    async def catch_up(self, seconds: float) -> None:
        """The node has begun to drain: take in the messages that had arrived before, in this time at most.

        Over a batched link they have been; over the four calls gRPC hands them over one by one.
        """
        self._transfers.catching_up = True
        try:
            await self.at_rest(seconds)
        finally:
            self._transfers.catching_up = False

    async def at_rest(self, seconds: float) -> None:
        """Wait until gRPC has handed over every call that has arrived, for so many seconds at most.

        How many are left it does not tell, and it cancels them when its server is stopped.
        """
        if any(isinstance(session, ToChild) for session in self._host.links.values()):
            await self._calls.rest(seconds)

    async def close(self, grace: float) -> None:
        """End every stream, answer what is under way, stop listening."""
        self._closing = True
        self._transfers.decide()
        if self._watch is not None:
            self._watch.cancel()
        self._services.close()
        await self.health.stop()
        for link_id, session in list(self._host.links.items()):
            if link_id != UP:
                self._end(session, grpc.StatusCode.UNAVAILABLE, _CLOSING)
        if self._server is not None:
            await self._server.stop(grace)

    @property
    def busy(self) -> bool:
        """Whether messages have come in that are not decided on."""
        return self._transfers.busy

    def end_stream(self, session: object, reason: Reason) -> None:
        """End a stream whose position another one has taken."""
        assert isinstance(session, Session)
        self._host.log.info("child_replaced", child=str(session.peer), reason=reason.value)
        self._end(session, grpc.StatusCode.ALREADY_EXISTS, reason.value)

    def tell(self, joined: bool) -> None:
        """Tell the children that hear it, and whoever asks for this node's health, whether it has joined."""
        self.health.serving(joined)
        for link_id, session in self._host.links.items():
            if link_id != UP and self._connections.peer(link_id).hears:
                session.tell(joined)

    def forgot(self, forgot: Forgot) -> None:
        """A child was forgotten by the Router."""
        self._observer.child_forgotten(forgot.link, forgot.position)
        self._connections.forget(forgot.link)

    # ---- the calls

    def _guarded(self, call: _Call) -> _Unary:
        """A call whose failures are answered in the way that the peer understands."""

        async def guarded(data: bytes, context: Context) -> bytes:
            try:
                ack = await call(data, context)
            except Exception as error:  # noqa: BLE001 - a fault is answered and logged there
                ack = self._failed(call.__name__, error, context)
            if ack.code:
                await self._end_failed(ack, context)
            return codec.write_ack(ack)

        return guarded

    def _failed(self, call: str, error: Exception, context: Context) -> Ack:
        """The answer to a call that has failed: a refusal's code, 5999 for a fault.

        One bad request must not cost the others their node.
        """
        if not isinstance(error, Refusal):
            self._host.log.error("request_failed", call=call, peer=context.peer(), exc_info=error)
            return Ack("", Code.SERVER_ERR, self._router.position)
        if isinstance(error, Violation):
            self._host.perform(self._router.report_violation(host_of(context.peer()), error))
        self._host.log.debug("request_refused", call=call, code=int(error.code), detail=str(error))
        return Ack(error.uuid, error.code, self._router.position, str(error))

    async def _end_failed(self, ack: Ack, context: Context) -> None:
        """End a call that has failed by a status, where the peer understands nothing else."""
        if self._peer(context).profile.fails_by_status:
            await context.abort(grpc.StatusCode.UNKNOWN, grpc_status.text_for(ack.code))

    def _open_to_new(self, register: _Unary) -> _Unary:
        """A call that is turned away as soon as this node has begun to leave."""

        async def turned_away(data: bytes, context: Context) -> bytes:
            if self._closing:
                await context.abort(grpc.StatusCode.UNAVAILABLE, _CLOSING)
            return await register(data, context)

        return turned_away

    async def _register(self, data: bytes, context: Context) -> Ack:
        uuid, position = requests.read_register(data, self._limits)
        peer = self._said(context)
        if not peer.profile.pauses:
            pause = self._router.register_pause(self._host.now(), position)
            if pause:
                self._host.log.info("child_held", child=str(position), seconds=pause)
                await asyncio.sleep(pause)
        try:
            most = self._limits.connections_per_address
            if self._connections.of_host(context.peer()) >= most:
                host = host_of(context.peer())
                raise Refusal(Code.EXCEED_MAX_REGISTRY_NUM, f"{host} has {most} connections already", uuid)
            quirks, credentials = peer.profile.child_quirks(position), self._permissions.shown(context)
            ready = self._router.register(self._host.now(), position, quirks, credentials)
            if ready.refusal is not None:
                raise ready.refusal
        except Refusal as refusal:
            refusal.uuid = uuid
            if isinstance(refusal, Violation):
                raise
            self._host.log.warning("child_refused", child=str(position), code=int(refusal.code), detail=str(refusal))
            raise
        assert ready.link is not None
        self._host.perform(ready)
        self._connections.came_over(context.peer(), ready.link, peer)
        if self._strangers is not None:
            self._strangers.heard(context.peer())
        # Trailing: initial metadata would be a write of its own, and a parent may have thousands of children to answer.
        context.set_trailing_metadata(
            peers.parent_metadata(self.depth, batched=self._batched, pace=self._services.pace)
        )
        return Ack(uuid, Code.OK, self._router.position)

    async def _path_discovery(self, data: bytes, context: Context) -> Ack:
        request = requests.read_announcement(data, self._limits)
        link = self._router.children.find(request.proxy)
        if link is not None and not self._permissions.speaks_for(context, link):
            text = f"{request.proxy} announces over its own connection, not over this one"
            raise Violation(Code.DST_TYPE_ILLEGAL, text, request.uuid)
        understands = link is not None and self._connections.peer(link.id).profile.withdraws
        metadata = peers.read_metadata(context.invocation_metadata()) if understands else {}
        kind, end = peers.routes_kind(metadata), peers.end_of(metadata)
        if end is not None and link is not None:
            # Not of a child that somebody else has taken the place of since.
            if link.id in self._connections.streams(context.peer()):
                self._observer.child_ends(link, end)
            if kind is not Kind.WITHDRAW:
                return Ack(request.uuid, Code.OK, self._router.position)
        left = context.time_remaining()
        patience = limits.ACK_BUDGET_PER_HOP * left if understands and left is not None else 0.0
        answer: asyncio.Future[Ack] = asyncio.get_running_loop().create_future()
        token = self._host.request(lambda ack: None if answer.done() else answer.set_result(ack))
        link_id = None if link is None else link.id
        now = self._host.now()
        self._host.perform(self._router.announced(now, link_id, kind, request.path, token, request.uuid, patience))
        if link is not None and not understands:
            self._observer.child_leads_to(link, request.path)
        return await answer

    async def _down_stream(self, _: object, context: Context) -> None:
        """InitServerDownStream, for as long as the stream stands."""

        def session(link: Link) -> Session:
            profile = self._connections.peer(link.id).profile
            return ToChild(self._host, link.id, link.position, ServerPipe(context), profile)

        await self._serve(context, session)

    async def _exchange(self, _: object, context: Context) -> None:
        """The batched link, for as long as the stream stands."""
        pipe, tracer = ServerPipe(context), self._tracer

        def session(link: Link) -> Session:
            peer = self._connections.peer(link.id)
            numbered, counts = peer.numbers, peer.counts
            return batched_link(self._host, link.id, link.position, pipe, tracer, numbered=numbered, counts=counts)

        await self._serve(context, session)

    async def _serve(self, context: Context, make: Callable[[Link], Session]) -> None:
        host, router = self._host, self._router
        metadata = peers.read_metadata(context.invocation_metadata())
        position = peers.stream_position(metadata)
        link = self._joining(position, context)
        before = host.links.get(link.id) if link is not None and peers.stream_continues(metadata) else None
        if before is not None:
            quiet = await self._is_quiet(before)
            link = self._joining(position, context)
        else:
            quiet = False
        if link is None or self._closing:
            host.log.info("stream_refused", child=str(position), closing=self._closing)
            refusal = (grpc.StatusCode.UNAVAILABLE, _CLOSING) if self._closing else (grpc.StatusCode.UNKNOWN, _UNKNOWN)
            await context.abort(*refusal)
        connection = context.peer()
        self._connections.came_over(connection, link.id)
        self._connections.stream_stands(connection, link.id)
        session = make(link)
        # Nothing is awaited between the look for the link and this: a link that is up cannot be forgotten.
        moved = quiet and before is not None and self._move(before, session)
        if not moved:
            self._begin(link, session)
        try:
            # A child of ours announces itself when it sees this: it means that messages reach it from now on.
            hears = isinstance(session, BatchedLink) and self._connections.peer(link.id).hears
            await context.send_initial_metadata(peers.joined_metadata(self._router.joined) if hears else ())
            if moved and before is not None:
                # What comes in over the old stream is older. Its end is in the child's hands, so not for ever.
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(before.over.wait(), limits.RENEWAL_S)
                before.close()
            await session.run()
        finally:
            session.close()
            self._connections.stream_ended(connection, link.id)
            status, text = self._ends.pop(session, (None, "by the child"))
            if session.successor is None:
                if host.links.get(link.id) is session:
                    del host.links[link.id]
                host.perform(router.link_down(host.now(), link.id, session, session.unwritten()))
                self._observer.child_changed(link)
                host.log.info("child_lost", child=str(position), reason=text)
        if status is not None:
            await context.abort(status, text)

    def _joining(self, position: Position, context: Context) -> Link | None:
        """The child that opens a stream; None for one that is not registered here, or as somebody else."""
        link = self._router.children.find(position)
        if link is None or self._permissions.speaks_for(context, link):
            return link
        text = f"a stream for {position} is opened by another peer than the one that registered"
        self._host.perform(self._router.report_violation(host_of(context.peer()), Violation(Code.NIL_POSITION, text)))
        return None

    def _begin(self, link: Link, session: Session) -> None:
        """Let a stream be the one of its link, in place of any other."""
        host = self._host
        replaced = host.links.get(link.id)
        unwritten: list[tuple[Frame, int]] = []
        if replaced is not None:
            replaced.close()
            unwritten = replaced.unwritten()
        host.links[link.id] = session
        peer = self._connections.peer(link.id)
        terms = session.terms._replace(probes=peer.ended(batched=isinstance(session, BatchedLink)))
        host.perform(self._router.link_up(host.now(), link.id, session, unwritten, terms))
        self._observer.child_changed(link)
        host.log.info("child_joined", child=str(link.position), peer=peer.profile.name, link=type(session).__name__)

    async def _is_quiet(self, session: Session) -> bool:
        """Let a stream come to rest, for another one of the same child to go on with it."""
        try:
            await asyncio.wait_for(session.pause(), limits.RENEWAL_S)
        except TimeoutError:
            return False
        return True

    def _move(self, before: Session, session: Session) -> bool:
        """Let a stream go on where another one has come to rest; returns whether that is possible."""
        links, link_id = self._host.links, before.link
        if links.get(link_id) is not before or type(before) is not type(session) or not before.alive:
            return False
        before.hand_over(session)
        links[link_id] = session
        self._router.renewed(link_id, session)
        self._host.log.info("child_moved", child=str(session.peer))
        return True

    def _end(self, session: Session, status: grpc.StatusCode, text: str) -> None:
        self._ends.setdefault(session, (status, text))
        session.close()

    def _reporting(self, context: Context) -> Link:
        """The child that reports.

        Raises:
            Violation: 4002, this is another peer than the one that registered, or nobody has.
        """
        position = peers.stream_position(peers.read_metadata(context.invocation_metadata()))
        link = self._router.children.find(position)
        if link is None or not self._permissions.speaks_for(context, link):
            raise Violation(Code.NIL_POSITION, f"a report of {position} comes from somebody else")
        return link

    # ---- small things

    def _quota(self, link_id: LinkId) -> Quota:
        """A child's quota; that of all children for one that is forgotten."""
        link = self._router.children.by_id.get(link_id)
        quota = None if link is None else link.quota
        return self._router.quota if quota is None else quota

    def _said(self, context: Context) -> peers.Peer:
        """What kind of peer is calling, by what it says of itself."""
        return peers.of_child(peers.read_metadata(context.invocation_metadata()))

    def _peer(self, context: Context) -> peers.Peer:
        """What kind of peer is calling: as it was decided when it registered."""
        return self._connections.peer_over(context.peer()) or self._said(context)


def _bind(server: grpc.aio.Server, address: Address, credentials: ServerCredentials | None) -> Address:
    try:
        if credentials is None:
            port = server.add_insecure_port(str(address))
        else:
            port = server.add_secure_port(str(address), credentials.credentials)
    except RuntimeError as error:
        raise ConfigError(f"cannot listen on {address}: in use, or not an address of this machine") from error
    return Address(address.host, port)
