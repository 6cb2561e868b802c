"""The parent's side: serves the four calls to children, and writes what goes down to them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import grpc

from taskd_net.address import Address
from taskd_net.codes import Code, ConfigError, Refusal
from taskd_net.core.acks import Reply
from taskd_net.core.actions import Reason
from taskd_net.core.announcer import Kind
from taskd_net.core.frame import Ack, Frame
from taskd_net.core.links import Link
from taskd_net.core.routes import LinkId
from taskd_net.core.topology import STRANGER
from taskd_net.transport import peer as peers
from taskd_net.transport.channel import SERVICE, server_options
from taskd_net.transport.host import Host
from taskd_net.transport.link import StreamQueue
from taskd_net.wire import codec

Context: TypeAlias = "grpc.aio.ServicerContext[bytes, bytes]"
_Unary: TypeAlias = Callable[[bytes, Context], Awaitable[bytes]]

# What an unregistered child's stream, and every stream of a closing parent, is ended with. The first text is the
# original's own for that case.
_UNREGISTERED = "un registry error"
_CLOSING = "the parent is closing"


class _ChildStream:
    """One stream of one child: its queue, and why it ended if we ended it."""

    def __init__(self, link: Link, connection: str) -> None:
        self.link = link
        self.connection = connection
        self.queue: StreamQueue[Frame] = StreamQueue()
        self.end: tuple[grpc.StatusCode, str] | None = None

    def finish(self, status: grpc.StatusCode, text: str) -> None:
        """End the stream with a status, once the write under way is done."""
        if self.end is None:
            self.end = (status, text)
        self.queue.close()


class ParentSide:
    """The server of one node.

    Args:
        host: the node.
        listen: where; port 0 takes any free port, which `start` returns.
    """

    def __init__(self, host: Host, listen: Address) -> None:
        self._host = host
        self._router = host.router
        self._listen = listen
        self._server: grpc.aio.Server | None = None
        self._streams: dict[LinkId, _ChildStream] = {}
        self._peers: dict[LinkId, peers.Peer] = {}
        # Which children came over which connection: that tells where a message came from whose src is not known here.
        self._connections: dict[str, set[LinkId]] = {}
        self._closing = False
        self.depth = 0

    async def start(self) -> Address:
        """Listen. Returns the address with the port that was bound.

        Raises:
            ConfigError: the address cannot be bound (in use, not of this machine, no such host).
        """
        server = grpc.aio.server(options=server_options())
        server.add_generic_rpc_handlers(
            (
                grpc.method_handlers_generic_handler(
                    SERVICE,
                    {
                        "Register": grpc.unary_unary_rpc_method_handler(self._guarded(self._register)),
                        "PathDiscovery": grpc.unary_unary_rpc_method_handler(self._guarded(self._path_discovery)),
                        "TransferMessage": grpc.unary_unary_rpc_method_handler(self._guarded(self._transfer_message)),
                        "InitServerDownStream": grpc.stream_stream_rpc_method_handler(self._down_stream),
                    },
                ),
            )
        )
        try:
            port = server.add_insecure_port(str(self._listen))
        except RuntimeError as error:
            text = f"cannot listen on {self._listen}: in use, or not an address of this machine"
            raise ConfigError(text) from error
        await server.start()
        self._server = server
        return Address(self._listen.host, port)

    async def close(self, grace: float) -> None:
        """End every stream, answer what is under way, stop listening."""
        self._closing = True
        for stream in list(self._streams.values()):
            stream.finish(grpc.StatusCode.UNAVAILABLE, _CLOSING)
        if self._server is not None:
            await self._server.stop(grace)

    def forward(self, link_id: LinkId, frame: Frame) -> None:
        """Write a frame to a child. The Router only says so while the child's stream stands."""
        self._streams[link_id].queue.put(frame)

    def end_stream(self, session: object, reason: Reason) -> None:
        """End a stream whose position another one has taken."""
        assert isinstance(session, _ChildStream)
        self._host.log.info("child_replaced", child=str(session.link.position), reason=reason.value)
        session.finish(grpc.StatusCode.ALREADY_EXISTS, reason.value)

    def forgot(self, link_id: LinkId) -> None:
        """A child was forgotten by the Router."""
        self._peers.pop(link_id, None)
        for connection, links in list(self._connections.items()):
            links.discard(link_id)
            if not links:
                del self._connections[connection]

    # ---- the calls

    def _guarded(self, call: _Unary) -> _Unary:
        """A call whose every failure becomes an Ack: a refusal its code, a fault of ours 5999."""

        async def guarded(data: bytes, context: Context) -> bytes:
            try:
                return await call(data, context)
            except Refusal as refusal:
                ack = Ack(refusal.uuid, refusal.code, self._router.position, str(refusal))
                self._host.log.debug("request_refused", call=call.__name__, code=int(ack.code), detail=ack.detail)
                return codec.write_ack(ack)
            except Exception:
                # The gate: one bad request must not cost the others their node.
                self._host.log.exception("request_failed", call=call.__name__, peer=context.peer())
                return codec.write_ack(Ack("", Code.SERVER_ERR, self._router.position))

        return guarded

    async def _register(self, data: bytes, context: Context) -> bytes:
        uuid, position = codec.read_register(data)
        peer = peers.of_child(peers.read_metadata(context.invocation_metadata()))
        try:
            link = self._router.register(self._host.now(), position)
        except Refusal as refusal:
            self._host.log.warning("child_refused", child=str(position), code=int(refusal.code), detail=str(refusal))
            refusal.uuid = uuid
            raise
        self._host.perform(())
        self._peers[link.id] = peer
        self._came_over(context.peer(), link.id)
        await context.send_initial_metadata(peers.parent_metadata(self.depth))
        return codec.write_ack(Ack(uuid, Code.OK, self._router.position))

    async def _path_discovery(self, data: bytes, context: Context) -> bytes:
        request = codec.read_announcement(data)
        link = self._router.children.find(request.proxy)
        understands = link is not None and self._peers[link.id].profile.withdraws
        kind = peers.routes_kind(peers.read_metadata(context.invocation_metadata())) if understands else Kind.ADD
        answer, reply = _answer()
        self._host.perform(self._router.announced(self._host.now(), link, kind, request.path, reply, request.uuid))
        return codec.write_ack(await answer)

    async def _transfer_message(self, data: bytes, context: Context) -> bytes:
        frame = codec.read_frame(data)
        answer, reply = _answer()
        came_from = self._router.routes.next_hop(frame.src.identity)
        if came_from is None:
            came_from = self._link_of(context.peer())
        self._host.perform(
            self._router.frame_arrived(self._host.now(), came_from, frame, reply, context.time_remaining())
        )
        return codec.write_ack(await answer)

    async def _down_stream(self, _: object, context: Context) -> None:
        """The stream to one child, for as long as it stands: this coroutine writes, a second task reads the Acks."""
        position = peers.stream_position(peers.read_metadata(context.invocation_metadata()))
        link = self._router.children.find(position)
        if link is None or self._closing:
            self._host.log.info("stream_refused", child=str(position), closing=self._closing)
            await context.abort(*self._refusal(link))
        stream = _ChildStream(link, context.peer())
        self._came_over(stream.connection, link.id)
        # A child of ours announces itself when it sees this: it means that messages reach it from now on.
        await context.send_initial_metadata(())
        self._streams[link.id] = stream
        self._host.perform(self._router.link_up(self._host.now(), link, stream))
        self._host.log.info("child_joined", child=str(link.position), peer=self._peers[link.id].profile.name)
        reader = asyncio.create_task(self._read_acks(stream, context), name=f"acks from {link.position}")
        unwritten: list[Frame] = []
        try:
            await self._write_frames(stream, context, unwritten)
        finally:
            stream.queue.close()
            unwritten += stream.queue.drain()
            if self._streams.get(link.id) is stream:
                del self._streams[link.id]
            self._host.perform(self._router.link_down(self._host.now(), link, stream, unwritten))
            self._host.log.info(
                "child_lost", child=str(link.position), ended=stream.end[1] if stream.end else "by child"
            )
            reader.cancel()
        if stream.end is not None:
            await context.abort(*stream.end)

    # ---- the stream's two tasks

    async def _write_frames(self, stream: _ChildStream, context: Context, unwritten: list[Frame]) -> None:
        router, host, link_id = self._router, self._host, stream.link.id
        while (frame := await stream.queue.get()) is not None:
            try:
                await context.write(frame.data)
            except asyncio.CancelledError:
                # Written or not, nobody knows. A sync message is answered 6001; the other kind has only this to tell.
                if not frame.sync:
                    unwritten.append(frame)
                raise
            except (grpc.RpcError, asyncio.InvalidStateError, grpc.aio.UsageError, grpc.aio.InternalError):
                # The stream ended under the write; its end comes from the reader or as our own cancellation.
                unwritten.append(frame)
                return
            router.written(link_id, stream, 1, len(frame.data))
            if not frame.sync:
                # The wire has no answer to a `sync=false` message from above: written is taken.
                host.perform(router.post_answered(host.now(), link_id, frame, Code.OK, stream.link.position))

    async def _read_acks(self, stream: _ChildStream, context: Context) -> None:
        router, host, link = self._router, self._host, stream.link
        try:
            while isinstance(data := await context.read(), bytes):  # else EOF
                try:
                    ack = codec.read_ack(data, link.position)
                except Refusal as refusal:
                    host.log.warning("ack_unreadable", child=str(link.position), detail=str(refusal))
                    continue
                if link.session is stream:
                    host.perform(router.ack_arrived(host.now(), link.id, ack.uuid, ack.code, ack.src))
        except (grpc.RpcError, grpc.aio.UsageError, grpc.aio.InternalError) as error:
            host.log.debug("acks_ended", child=str(link.position), error=type(error).__name__)
        finally:
            stream.queue.close()

    # ---- small things

    def _refusal(self, link: Link | None) -> tuple[grpc.StatusCode, str]:
        if self._closing:
            return grpc.StatusCode.UNAVAILABLE, _CLOSING
        return grpc.StatusCode.UNKNOWN, _UNREGISTERED

    def _came_over(self, connection: str, link_id: LinkId) -> None:
        self._connections.setdefault(connection, set()).add(link_id)

    def _link_of(self, connection: str) -> LinkId:
        links: Sequence[LinkId] = tuple(self._connections.get(connection, ()))
        return links[0] if len(links) == 1 else STRANGER


def _answer() -> tuple[asyncio.Future[Ack], Reply]:
    """A place where one answer arrives; an answer that comes after the caller has gone is dropped."""
    future: asyncio.Future[Ack] = asyncio.get_running_loop().create_future()

    def reply(ack: Ack) -> None:
        if not future.done():
            future.set_result(ack)

    return future, reply
