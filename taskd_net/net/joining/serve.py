"""The parent's side: listens, registers children, takes their announcements, and serves their links."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import grpc

from taskd_net.base.address import Address
from taskd_net.base.codes import Code, ConfigError, Refusal
from taskd_net.base.position import Position
from taskd_net.core.frame import Ack, Frame
from taskd_net.core.identity import Violation
from taskd_net.core.links import Link
from taskd_net.core.membership import OtherJob
from taskd_net.core.quota import Quota
from taskd_net.core.ready import Forgot, Reason
from taskd_net.core.routes import LinkId
from taskd_net.net.joining import grpc_threads, standard
from taskd_net.net.joining.announcements import Announcements
from taskd_net.net.joining.channel import server_options
from taskd_net.net.joining.grpc_log_filter import filter_grpc_logs
from taskd_net.net.joining.other_jobs import OtherJobs
from taskd_net.net.joining.pending import PendingRegistrations
from taskd_net.net.joining.permissions import Permissions
from taskd_net.net.joining.streams import ChildObserver, ChildStreams, Services
from taskd_net.net.links import kind as link_kinds
from taskd_net.net.links import peer as peers
from taskd_net.net.links.grpc_calls import SERVICE, Context, Failures, Handler, Marker, Methods, Unary
from taskd_net.net.links.kind import End
from taskd_net.net.links.remote import Caller
from taskd_net.net.links.session import Host, Session
from taskd_net.net.links.unfinished import Receiver, Unfinished
from taskd_net.net.links.unfinished_calls import UnfinishedCalls
from taskd_net.net.tls.credentials import ServerCredentials
from taskd_net.net.tls.strangers import Strangers
from taskd_net.net.wire import requests
from taskd_net.net.wire.link_requests import Announcing

DRAIN_LOOKS: Final = 20
"""Looks that find no call held by gRPC, after which a draining node has all calls that had arrived: 200 ms. On a busy
machine, gRPC's threads may read nothing for 50 ms."""

DRAIN_LAST_LOOKS: Final = 5
"""Such looks before the server stops: the calls that came since have their codes then."""


class CannotListen(ConfigError):
    """An address cannot be bound.

    Attributes:
        address: the address.
    """

    def __init__(self, address: Address) -> None:
        super().__init__(f"cannot listen on {address}: in use, or not an address of this machine")
        self.address = address


class MeshServer:
    """The server of one node.

    Args:
        host: the node.
        observer: of the children.
        services: beside those of the links.
        listen: its address; port 0 takes any free port, which `start` returns.
        plain_listen: a second address, without TLS; None for none.
        credentials: for `listen`; None for plain text.
        kinds: the kinds of link that children are offered.
        certified: whether children take positions by their certificates.
        sockets: as in `links.kind.Parent`.
        standby: as in `stand_by`, from the start.

    Attributes:
        connections: of its children.
        unfinished: messages of gRPC and frames of direct links that have not come whole.
        plain_address: the second address, with the port that was bound.
    """

    def __init__(
        self,
        host: Host,
        observer: ChildObserver,
        services: Services,
        listen: Address,
        plain_listen: Address | None = None,
        credentials: ServerCredentials | None = None,
        *,
        kinds: Sequence[link_kinds.LinkKind],
        certified: bool,
        sockets: link_kinds.Sockets | None = None,
        standby: str = "",
    ) -> None:
        self.host = host
        self.sockets = sockets
        self._router = host.router
        self._listen = listen
        self._plain_listen = plain_listen
        self._credentials = credentials
        self.plain_address: Address | None = None
        self._strangers: Strangers | None = None
        self._watch: asyncio.Task[None] | None = None
        self._server: grpc.aio.Server | None = None
        self.connections = observer.connections
        self._observer = observer
        self.failures = Failures(host, self.connections)
        self._permissions = Permissions(host.router, self.connections, certified=certified)
        self._announcements = Announcements(host, observer, self._permissions)
        self._pending = PendingRegistrations(lambda: host.router.children.free_places)
        self._other_jobs = OtherJobs()
        self._streams = ChildStreams(host, observer, self._permissions, self._pending)
        self._services = services
        self._limits = host.router.limits
        self._acceptors = [kind.acceptor(self) for kind in kinds]
        self._methods = Methods({})
        self.unfinished = Unfinished[Receiver](self._limits.total_bytes)
        self._calls: UnfinishedCalls | None = None
        self.health = standard.Health(serving=host.router.upstream is None and not standby)
        self.depth = 0
        self._standby = standby
        self._streams.refuse(End.ELSEWHERE if standby else None)

    async def start(self) -> Address:
        """Listen. Returns the address with the port that was bound.

        Raises:
            CannotListen: an address cannot be bound (in use, not of this machine, no such host).
        """
        for acceptor in self._acceptors:
            await acceptor.start()
        try:
            return await self._start_grpc()
        except BaseException:
            await self._stop_acceptors()
            raise

    async def _start_grpc(self) -> Address:
        filter_grpc_logs()
        channelz = standard.has_channelz()
        grpc_threads.require_room()
        server = grpc.aio.server(options=server_options(self._limits, channelz=channelz, times=self.host.times))
        grpc_threads.note(server)
        unary, guarded = grpc.unary_unary_rpc_method_handler, self.failures.guarded
        methods: dict[str, Handler] = {
            f"/{SERVICE}/Register": unary(self._open_to_new(guarded(self._register))),
            f"/{SERVICE}/PathDiscovery": unary(guarded(self._announcements.path_discovery)),
        }
        for acceptor in self._acceptors:
            methods |= acceptor.handlers()
        calls = self._calls = UnfinishedCalls(self.host, self.failures, self.unfinished, self.connections.streams)
        # The stream of a link has messages one after the other, and belongs to a child.
        self._methods = Methods(
            {name: method if method.request_streaming else calls.bounded(method) for name, method in methods.items()}
        )
        self._methods.refuse(self._standby)
        services = self._services.handlers(self._calling)
        server.add_generic_rpc_handlers((self._methods, *map(calls.all_bounded, services)))
        named = standard.by_name(server, calls.all_bounded)
        await self.health.add_to(named)
        if not standard.add_reflection(named) or not self.health.known:
            self.host.log.info("services_missing", reason="install taskd-net[health] for health and reflection")
        if channelz:
            standard.add_channelz(named)
        address = _bind(server, self._listen, self._credentials)
        if self._plain_listen is not None:
            self.plain_address = _bind(server, self._plain_listen, None)
        if self._credentials is not None:
            self._strangers = strangers = Strangers(address.port, self.host.log, self.host.times)
            self._credentials.on_handshake = strangers.handshake
            self._watch = asyncio.create_task(strangers.watch(), name=f"strangers at {address}")
        await server.start()
        self._server = server
        return address

    def stand_by(self, standby: str) -> None:
        """End the links of the children, and refuse every call of a child with UNAVAILABLE, so that it tries the next
        address. Status, probes and the health of `liveness` are still served.

        Args:
            standby: the text for those who call; empty to take children again.
        """
        began, self._standby = bool(standby) and not self._standby, standby
        self._methods.refuse(standby)
        self.health.serving(not standby)
        self._streams.refuse(End.ELSEWHERE if standby else None)
        if began:
            self.send_elsewhere()

    def send_elsewhere(self) -> None:
        """End the links of the children, which try their other addresses first."""
        self._streams.end_all(End.ELSEWHERE)

    async def turn_away(self) -> None:
        """Take no new children from now on, and say so. Connections, calls and streams go on until `close`."""
        self._streams.refuse(End.CLOSING)
        self._services.close()
        await self.health.stop()

    async def catch_up(self, seconds: float) -> None:
        """Take in the messages that had arrived before the node began to drain, for `seconds` at most.

        Over a stream they have been; calls gRPC hands over one by one.
        """
        for acceptor in self._acceptors:
            acceptor.catching_up = True
        try:
            await self.at_rest(seconds, DRAIN_LOOKS)
        finally:
            for acceptor in self._acceptors:
                acceptor.catching_up = False

    async def at_rest(self, seconds: float, looks: int = DRAIN_LAST_LOOKS) -> None:
        """Wait until gRPC has handed over every call that has arrived; see `Methods.rest`.

        gRPC cancels the calls that are left when its server is stopped.
        """
        if any(session.by_calls for session in self.host.links.values()):
            marker = Marker()
            try:
                await self._methods.rest(seconds, looks, marker.passes)
            finally:
                await marker.close()

    async def close(self, grace: float) -> None:
        """End every stream, answer what is under way, stop listening."""
        self._streams.refuse(End.CLOSING)
        for acceptor in self._acceptors:
            acceptor.close()
        if self._watch is not None:
            self._watch.cancel()
        self._services.close()
        await self.health.stop()
        self._streams.end_all(End.CLOSING)
        if self._server is not None:
            await self._server.stop(grace)
        if self._calls is not None:
            self._calls.close()
        await self._stop_acceptors()

    async def _stop_acceptors(self) -> None:
        for acceptor in self._acceptors:
            acceptor.close()
            await acceptor.stop()

    @property
    def busy(self) -> bool:
        """True while received messages are not decided on."""
        return any(acceptor.busy for acceptor in self._acceptors)

    def end_stream(self, session: Session[Any], reason: Reason) -> None:
        """End the stream of a child."""
        if reason is Reason.POSITION_TAKEN:
            self.host.log.info("child_replaced", child=str(session.peer), reason=reason.value)
        self._streams.end(session, End(reason.value))

    def tell(self, joined: bool) -> None:
        """Tell the children that hear it, and the callers that ask for this node's health, whether it has joined."""
        self.health.serving(joined)
        self._streams.tell(joined)

    def forgot(self, forgot: Forgot) -> None:
        """A child was forgotten by the Router."""
        self._observer.child_forgotten(forgot.link, forgot.position)
        self.connections.forget(forgot.link)
        self._pending.over(forgot.link)
        for acceptor in self._acceptors:
            acceptor.forget(forgot.link)

    def signs_of_life(self, link_id: LinkId) -> None:
        """A child gives no sign of life, or gives one again."""
        link = self._router.children.by_id.get(link_id)
        if link is not None:
            self._observer.child_changed(link)

    def _calling(self, context: Context, caller: Caller) -> Link:
        """The child that makes a call of a service; raises as `_reporting`."""
        position = peers.stream_position(peers.read_metadata(context.invocation_metadata()))
        return self._reporting(position, caller)

    def _reporting(self, position: Position, caller: Caller) -> Link:
        """The child that reports.

        Raises:
            Refusal: 4999, nobody has registered: an honest child may have been forgotten meanwhile.
            Violation: 4002, this is another peer than the one that registered.
        """
        link = self._router.children.find(position)
        if link is None:
            raise Refusal(Code.CLIENT_ERR, "the reporting child is not registered here")
        if not self._permissions.speaks_for(caller, link):
            raise Violation(Code.NIL_POSITION, f"a report of {position} comes from somebody else")
        return link

    def bringer(self, frame: Frame, caller: Caller) -> LinkId:
        """The child that brings a message over a connection.

        Raises:
            Violation: 4002, nobody who may bring messages of this sender uses the connection.
        """
        return self._permissions.bringer(frame, caller)

    def quota(self, link_id: LinkId) -> Quota:
        """A child's quota; that of all children for one that is forgotten."""
        link = self._router.children.by_id.get(link_id)
        quota = None if link is None else link.quota
        return self._router.quota if quota is None else quota

    async def serve(self, incoming: link_kinds.Incoming) -> None:
        """Serve a link that a child opens, until its end."""
        await self._streams.serve(incoming)

    async def announced(self, announcing: Announcing, caller: Caller) -> Ack:
        """Take in an announcement."""
        return await self._announcements.take(announcing, caller)

    async def reported(self, report: bytes, position: Position, caller: Caller) -> bytes:
        """Take in a child's report of the state of the mesh."""
        return await self._services.report(report, partial(self._reporting, position, caller))

    def _open_to_new(self, register: Unary) -> Unary:
        """Turn a call away as soon as this node has begun to leave."""

        async def turned_away(data: bytes, context: Context) -> bytes:
            if self._streams.closing:
                await context.abort(grpc.StatusCode.UNAVAILABLE, End.CLOSING.value)
            return await register(data, context)

        return turned_away

    async def _register(self, data: bytes, context: Context, caller: Caller) -> Ack:
        uuid, position = requests.read_register(data)
        peer = peers.of_child(peers.read_metadata(context.invocation_metadata()))
        if not peer.profile.pauses:
            pause = self._router.register_pause(self.host.now(), position)
            if pause:
                self.host.log.info("child_held", child=str(position), seconds=pause)
                await asyncio.sleep(pause)
        link = self._router.children.find(position)
        try:
            most = self._limits.connections_per_address
            if self.connections.of_host(caller.remote) >= most:
                text = f"{caller.remote.place} has {most} connections already"
                raise Refusal(Code.EXCEED_MAX_REGISTRY_NUM, text, uuid)
            other_job = self._router.membership.excludes(peer.job_id)
            if other_job or (link is None and self._router.children.free_places <= 0):
                # A caller without a place is refused at once, and waits in no line.
                shown = self._permissions.shown(caller)
                ready = self._router.register(self.host.now(), position, None, shown, job_id=peer.job_id)
                assert ready.refusal is not None
                raise ready.refusal
            async with self._pending.place(caller.remote, None if link is None else link.id) as place:
                quirks, credentials = peer.profile.child_quirks(position), self._permissions.shown(caller)
                now, service = self.host.now(), peer.service
                ready = self._router.register(now, position, quirks, credentials, service=service, job_id=peer.job_id)
                if ready.refusal is not None:
                    raise ready.refusal
                assert ready.link is not None
                if not self._router.children.by_id[ready.link].up:
                    self._pending.keep(place, ready.link)
        except Refusal as refusal:
            refusal.uuid = uuid
            if isinstance(refusal, OtherJob):
                context.set_trailing_metadata(peers.refusing_metadata(self._router.membership.job_id))
                if not self._other_jobs.is_news(self.host.now(), (position.identity, caller.remote.host)):
                    raise
            self._observer.child_refused(position, refusal.detail)
            if isinstance(refusal, Violation):
                raise
            self.host.log.warning("child_refused", child=str(position), code=int(refusal.code), detail=str(refusal))
            raise
        self.host.perform(ready)
        self.connections.came_over(caller.remote, ready.link, peer)
        if self._strangers is not None:
            self._strangers.heard(caller.remote.host, caller.remote.port)
        # Trailing: initial metadata would be a write of its own, and a parent may have thousands of children to answer.
        offers = tuple(pair for acceptor in self._acceptors for pair in acceptor.offer(ready.link, caller))
        job = self._router.membership.job_id
        context.set_trailing_metadata(peers.parent_metadata(self.depth, offers, self._services.pace, job))
        return Ack(uuid, Code.OK, self._router.position)


def _bind(server: grpc.aio.Server, address: Address, credentials: ServerCredentials | None) -> Address:
    try:
        if credentials is None:
            port = server.add_insecure_port(str(address))
        else:
            port = server.add_secure_port(str(address), credentials.credentials)
    except RuntimeError as error:
        raise CannotListen(address) from error
    return Address(address.host, port)
