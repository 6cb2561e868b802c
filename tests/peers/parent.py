"""A parent with the four calls of the contract and nothing else: a Mgr, or a Proxy below any parent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import grpc.aio

from tests.peers.child import PATIENCE_S, RawChild
from tests.peers.mesh import soon
from tests.peers.stubs import matches, name, pb, position, rpc
from tests.ports import free_address


@dataclass(eq=False)
class _Down:
    """The stream to one child."""

    child: str
    queue: asyncio.Queue[Any] = field(default_factory=asyncio.Queue)
    waiting: dict[str, asyncio.Future[Any]] = field(default_factory=dict)


class RawParent(rpc.TaskNetServicer):  # type: ignore[misc]  # generated, without types
    """One foreign Mgr or Proxy. The switches may be turned at any time.

    Args:
        position: its own.

    Attributes:
        refuse: by call name, a code or a gRPC status as the only reaction.
        hold: while set, an answer to this call (by name) waits for the event.
        confirm: send initial metadata when a stream is accepted.
        says: its own metadata in the answer to Register.
        drop_acks: never answer a TransferMessage.
        ignore_acks: ignore the Acks on streams.
        requests: every request, by call name.
        opened: the children of all standing streams, oldest first.
        received: messages for this node.
        delivered: uuids so far; a resend is acknowledged and not delivered again.
    """

    def __init__(self, position: str = "Mgr/0") -> None:
        self.position = position
        self.refuse: dict[str, int | grpc.StatusCode] = {}
        self.hold: dict[str, asyncio.Event] = {}
        self.confirm = True
        self.says: tuple[tuple[str, str], ...] = ()
        self.requests: dict[str, asyncio.Queue[Any]] = {
            call: asyncio.Queue()
            for call in ("Register", "PathDiscovery", "TransferMessage", "InitServerDownStream", "Ack")
        }
        self.opened: asyncio.Queue[str] = asyncio.Queue()
        self.received: asyncio.Queue[Any] = asyncio.Queue()
        self.delivered: set[str] = set()
        self.routes: dict[str, str] = {}
        self.streams: dict[str, _Down] = {}
        self.address = ""
        self._server: grpc.aio.Server | None = None

    async def start(self, listen: str = "", credentials: grpc.ServerCredentials | None = None) -> None:
        """Listen at a free address, unless told where."""
        listen = listen or free_address()
        limits = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        self._server = grpc.aio.server(options=[("grpc.so_reuseport", 0), *limits])
        rpc.add_TaskNetServicer_to_server(self, self._server)
        server = self._server
        port = server.add_secure_port(listen, credentials) if credentials else server.add_insecure_port(listen)
        self.address = f"{listen.rpartition(':')[0]}:{port}"
        await self._server.start()

    async def stop(self) -> None:
        """End everything at once, like a killed process."""
        if self._server is not None:
            await self._server.stop(0)
            await self._server.wait_for_termination()
            self._server = None

    async def __aenter__(self) -> RawParent:
        if self._server is None:
            await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def Register(self, request: Any, context: Any) -> Any:
        if (refused := await self._gate("Register", request, context)) is not None:
            return refused
        context.set_trailing_metadata(self.says)
        return self._ack(request.uuid)

    async def PathDiscovery(self, request: Any, context: Any) -> Any:
        if (refused := await self._gate("PathDiscovery", request, context)) is not None:
            return refused
        for node in request.path:
            self.routes[name(node)] = name(request.proxyPos)
        return await self.announced(request)

    async def TransferMessage(self, request: Any, context: Any) -> Any:
        if (refused := await self._gate("TransferMessage", request, context)) is not None:
            return refused
        return await self.pass_on(request, self.routes.get(name(request.header.src), ""))

    async def InitServerDownStream(self, requests: Any, context: Any) -> AsyncIterator[Any]:
        metadata = dict(context.invocation_metadata())
        child = name(
            pb.Position(role=metadata["role"], serverRank=metadata["serverrank"], processRank=metadata["processrank"])
        )
        await self._gate("InitServerDownStream", child, context)
        # Before the child knows that the stream stands: what is sent from then on goes this way.
        down = self.streams[child] = _Down(child)
        reader = asyncio.create_task(self._read_acks(down, requests))
        try:
            if self.confirm:
                await context.send_initial_metadata(())
            self.opened.put_nowait(child)
            while (message := await down.queue.get()) is not None:
                yield message
        finally:
            reader.cancel()
            if self.streams.get(child) is down:
                del self.streams[child]

    async def _read_acks(self, down: _Down, requests: Any) -> None:
        async for ack in requests:
            self.requests["Ack"].put_nowait(ack)
            answer = down.waiting.pop(ack.uuid, None)
            if answer is not None and not answer.done():
                answer.set_result(ack)

    async def _gate(self, call: str, request: Any, context: Any) -> Any:
        self.requests[call].put_nowait(request)
        if call in self.hold:
            await self.hold[call].wait()
        refusal = self.refuse.get(call)
        if refusal is None:
            return None
        if isinstance(refusal, grpc.StatusCode):
            await context.abort(refusal, "refused by a switch")
            raise AssertionError("abort does not return")
        return self._ack(request.header.uuid if call == "TransferMessage" else request.uuid, refusal)

    async def pass_on(self, message: Any, came_from: str) -> Any:
        """Deliver a message to all its receivers. Returns the Ack of the last failed branch, or 0."""
        header, dst = message.header, message.header.dst
        sender = name(header.src)
        answers: list[Any] = []
        if matches(dst, self.position) and sender != self.position:
            if header.uuid not in self.delivered:
                self.delivered.add(header.uuid)
                self.received.put_nowait(message)
            answers.append(self._ack(header.uuid))
        hops = {hop for node, hop in self.routes.items() if matches(dst, node) and node != sender}
        answers += await asyncio.gather(*(self.write(hop, message) for hop in sorted(hops - {came_from})))
        several = any("All" in rank or "," in rank for rank in (dst.serverRank, dst.processRank))
        if came_from != "up" and (several or not answers):
            answers += await self.above(message)
        failed = [answer for answer in answers if answer.code]
        if not answers:
            return self._ack(header.uuid, 0 if hops else 5002)
        return (failed or answers)[0]

    async def send(self, to: str, body: str = "", *, sync: bool = True, uuid: str = "") -> Any:
        """Send a message of this node."""
        header = pb.MessageHeader(
            uuid=uuid or str(uuid4()), mtype="raw", sync=sync, src=position(self.position), dst=position(to)
        )
        return await self.pass_on(pb.Message(header=header, body=body), "")

    async def write(self, hop: str, message: Any) -> Any:
        """Send a message down to a child and wait for its Ack if it is a sync one."""
        uuid = message.header.uuid
        down = self.streams.get(hop)
        if down is None:
            return self._ack(uuid, 6002)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if message.header.sync:
            down.waiting[uuid] = answer
        else:
            answer.set_result(self._ack(uuid))
        down.queue.put_nowait(message)
        try:
            return await soon(answer, PATIENCE_S)
        except TimeoutError:
            return pb.Ack(uuid=uuid, code=6001, src=position(hop))

    def end_stream(self, child: str) -> None:
        """End the stream to a child with status OK."""
        self.streams[child].queue.put_nowait(None)

    async def take(self) -> Any:
        """The next message for this node."""
        return await soon(self.received.get(), PATIENCE_S)

    async def requested(self, call: str) -> Any:
        """The next request of a call (`Ack`: an Ack on a stream)."""
        return await soon(self.requests[call].get(), PATIENCE_S)

    async def announced(self, request: Any) -> Any:
        """Answer an announcement."""
        return self._ack(request.uuid)

    async def above(self, message: Any) -> list[Any]:
        """The answers of all nodes that are not below."""
        return []

    def _ack(self, uuid: str, code: int = 0) -> Any:
        return pb.Ack(uuid=uuid, code=code, src=position(self.position))


class RawProxy(RawParent):
    """A foreign Proxy: a parent whose upstream side is a foreign child."""

    def __init__(self, position: str) -> None:
        super().__init__(position)
        self.upstream = RawChild(position)
        self.upstream.relay = lambda message: self.pass_on(message, "up")

    async def join(self, address: str) -> None:
        """Listen, and join the parent at this address."""
        await self.start()
        await self.upstream.join(address)

    async def stop(self) -> None:
        """End everything at once."""
        await self.upstream.cut()
        await super().stop()

    async def announced(self, request: Any) -> Any:
        """Pass the announcement on, and its answer back."""
        path = [name(node) for node in request.path]
        return await self.upstream.announce(*path, self.position)

    async def above(self, message: Any) -> list[Any]:
        """All nodes that are not below are above."""
        return [await self.upstream.transfer(message)]
