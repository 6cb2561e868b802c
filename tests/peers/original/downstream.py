"""The behaviour of a node of the original towards its children."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc.aio

from tests.peers.original.forms import Died, Failed, Triple, check_ack, check_message, triple, wire
from tests.peers.stubs import pb, rpc

ACK_WAIT_S = 3.0
"""Seconds for the next Ack on a stream."""

LARGEST = 8_388_608
"""Greatest serialized message from below, and downwards."""


class _Down:
    """The stream to one child."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[Any] = asyncio.Queue()
        self.acks: asyncio.Queue[Any] = asyncio.Queue()
        self.turn = asyncio.Lock()
        self.stuck = False

    def end(self, text: str) -> None:
        self.queue.put_nowait(Failed(text))


class Downstream(rpc.TaskNetServicer):  # type: ignore[misc]  # generated, without types
    """One node's server.

    Args:
        me: its position.
        take: handles a message from below; returns the Ack or raises `Failed`.
        announce: passes an announcement on, or does nothing at the root.
        die: called with the cause of the process's death.

    Attributes:
        limit: children at most.
        wait: seconds for the next Ack.
        registered: registered children.
        routes: next hops by destination, by the exact fields.
        streams: by child.
        took_over: registrations during a standing stream.
        shifted: Acks taken for another message: its uuid and the Ack's.
        announcements: calls of PathDiscovery: proxyPos and path.
        registrations: calls of Register.
        unknown_acks: Acks without a waiting message.
    """

    def __init__(
        self,
        me: Triple,
        take: Callable[[Any], Awaitable[Any]],
        announce: Callable[[list[Triple]], Awaitable[None]],
        die: Callable[[str], None],
    ) -> None:
        self._me = me
        self._take = take
        self._announce = announce
        self._die = die
        self._server: grpc.aio.Server | None = None
        self.address = ""
        self.limit = 5000
        self.wait = ACK_WAIT_S
        self.registered: set[Triple] = set()
        self.routes: dict[Triple, Triple] = {}
        self.streams: dict[Triple, _Down] = {}
        self.took_over = 0
        self.shifted: list[tuple[str, str]] = []
        self.announcements: list[tuple[Triple, list[Triple]]] = []
        self.registrations: list[Triple] = []
        self.stays: list[Triple] = []
        self._blocked = asyncio.Lock()
        self.blocks_for = 1.0

    async def start(self, listen: str) -> None:
        """Listen. No setting permits pings: more than one in five minutes is answered with GOAWAY."""
        self._server = grpc.aio.server(
            options=[
                ("grpc.so_reuseport", 0),
                ("grpc.max_receive_message_length", LARGEST),
                ("grpc.max_send_message_length", -1),
                ("grpc.keepalive_time_ms", 5000),
                # A compressed call gets UNIMPLEMENTED.
                ("grpc.compression_enabled_algorithms_bitset", 1),
            ]
        )
        rpc.add_TaskNetServicer_to_server(self, self._server)
        port = self._server.add_insecure_port(listen)
        self.address = f"{listen.rpartition(':')[0]}:{port}"
        await self._server.start()

    async def stop(self) -> None:
        """Be gone, like a killed process."""
        if self._server is not None:
            server, self._server = self._server, None
            await server.stop(0)
            await server.wait_for_termination()

    async def Register(self, request: Any, context: Any) -> Any:
        if not request.HasField("pos"):
            self._die("Register without pos")
            await context.abort(grpc.StatusCode.UNAVAILABLE, "died")
        child = triple(request.pos)
        self.registrations.append(child)
        async with self._blocked:
            if child not in self.registered and len(self.registered) >= self.limit:
                await context.abort(grpc.StatusCode.UNKNOWN, "exceed max registry num")
            self.registered.add(child)
            if child in self.streams:
                # All others wait meanwhile.
                self.took_over += 1
                self.streams.pop(child).end("entry context done")
                await asyncio.sleep(self.blocks_for)
        return self.ack(request.uuid)

    async def PathDiscovery(self, request: Any, context: Any) -> Any:
        if not request.HasField("proxyPos"):
            self._die("PathDiscovery without proxyPos")
            await context.abort(grpc.StatusCode.UNAVAILABLE, "died")
        path = [triple(node) for node in request.path]
        self.announcements.append((triple(request.proxyPos), path))
        for node in path:
            self.routes[node] = triple(request.proxyPos)
        try:
            await self._announce(path)
        except Failed as failed:
            await context.abort(failed.status, failed.text)
        return self.ack(request.uuid)

    async def TransferMessage(self, request: Any, context: Any) -> Any:
        async with self._blocked:
            pass
        try:
            check_message(request, down=False)
            return await self._take(request)
        except Died as died:
            self._die(str(died))
            await context.abort(grpc.StatusCode.UNAVAILABLE, "died")
        except Failed as failed:
            await context.abort(failed.status, failed.text)

    async def InitServerDownStream(self, requests: Any, context: Any) -> AsyncIterator[Any]:
        """Open a stream. Its initial metadata leaves with the first message, not before."""
        said = dict(context.invocation_metadata())
        child = (said.get("role", ""), said.get("serverrank", ""), said.get("processrank", ""))
        if child not in self.registered:
            await context.abort(grpc.StatusCode.UNKNOWN, "un registry error")
        self.stays.append(child)
        if child in self.streams:
            self.streams[child].end("entry context done")
        down = self.streams[child] = _Down()
        reader = asyncio.create_task(self._read_acks(down, requests))
        try:
            while not isinstance(item := await down.queue.get(), Failed):
                yield item
            await context.abort(item.status, item.text)
        finally:
            reader.cancel()
            if self.streams.get(child) is down:
                del self.streams[child]

    async def _read_acks(self, down: _Down, requests: Any) -> None:
        async for ack in requests:
            try:
                check_ack(ack)
            except Died as died:
                self._die(str(died))
                return
            down.acks.put_nowait(ack)
        down.end("EOF")

    def below(self, dst: Triple, wants: Callable[[Triple, Triple], bool]) -> list[tuple[Triple, Triple]]:
        """The receivers of a broadcast below, each with its next hop."""
        return [(node, hop) for node, hop in self.routes.items() if wants(dst, node)]

    async def send(self, hop: Triple, message: Any) -> Any:
        """Send a message to a child. The next Ack on the stream counts as the answer to a sync one.

        Raises:
            Failed: no stream, or no Ack in time; then every later sync message fails until the stream is opened anew.
        """
        down = self.streams.get(hop)
        if down is None:
            raise Failed("stream not inited")
        if message.ByteSize() > LARGEST:
            down.end("EOF")
            raise Failed("EOF")
        if not message.header.sync:
            down.queue.put_nowait(message)
            return self.ack(message.header.uuid)
        async with down.turn:
            if down.stuck:
                raise Failed("ack time out")
            down.queue.put_nowait(message)
            try:
                async with asyncio.timeout(self.wait):
                    ack = await down.acks.get()
            except TimeoutError:
                down.stuck = True
                raise Failed("ack time out") from None
        if ack.uuid != message.header.uuid:
            self.shifted.append((message.header.uuid, ack.uuid))
        return ack

    @property
    def unread_acks(self) -> int:
        """Acks without a waiting message: each will answer a later one."""
        return sum(down.acks.qsize() for down in self.streams.values())

    def ack(self, uuid: str, code: int = 0) -> Any:
        """An Ack of this node."""
        return pb.Ack(uuid=uuid, code=code, src=wire(self._me))
