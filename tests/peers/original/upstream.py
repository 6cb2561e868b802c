"""The behaviour of a node of the original towards its parent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

import grpc.aio

from tests.peers.original.forms import Died, Failed, Triple, check_ack, check_message, wire
from tests.peers.stubs import pb, rpc

RETRY_S = 1.0
"""Seconds between attempts at Register or PathDiscovery."""

LARGEST = 4_194_304
"""Greatest serialized message from above; a larger one costs the whole connection."""

PATIENCE_S = 20.0
"""Seconds for an answer to a call."""


class Upstream:
    """One node's way to its parent.

    Args:
        me: its position in all its calls.
        address: the parent's.
        handle: handles a message from above, one at a time; returns its Ack, or None.
        die: called with the cause of the process's death.
        is_leaf: announce itself before opening the stream; Proxies pass on their leaves' announcements only.

    Attributes:
        joins: streams opened so far.
        registers: calls of Register so far.
        refused: failures of Register.
        leaked: connections left behind by failed Registers.
        joined: set while the stream stands, as far as the node knows.
        largest: bytes of the largest message from above.
    """

    def __init__(
        self,
        me: Triple,
        address: str,
        handle: Callable[[Any], Awaitable[Any]],
        die: Callable[[str], None],
        *,
        is_leaf: bool,
        largest: int = LARGEST,
    ) -> None:
        self._me = me
        self._address = address
        self._handle = handle
        self._die = die
        self._is_leaf = is_leaf
        self._largest = largest
        self._channel: grpc.aio.Channel | None = None
        self._stub: Any = None
        self._task: asyncio.Task[None] | None = None
        self.joins = 0
        self.registers = 0
        self.refused: list[tuple[grpc.StatusCode, str]] = []
        self.leaked: list[grpc.aio.Channel] = []
        self.joined = asyncio.Event()

    def start(self) -> None:
        """Join, and rejoin without any pause whenever the stream ends."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Be gone, like a killed process."""
        if self._task is not None:
            # Repeated, because a cancellation is lost if the awaited result arrives at the same moment.
            while not self._task.done():
                self._task.cancel()
                await asyncio.wait([self._task], timeout=0.5)
        for channel in [*self.leaked, *([self._channel] if self._channel else [])]:
            await channel.close()
        self.leaked, self._channel = [], None

    async def transfer(self, message: Any) -> Any:
        """Send a message up. Returns the Ack.

        Raises:
            Failed: it was answered with a status.
        """
        if self._stub is None or not self.joined.is_set():
            raise Failed("client not inited")
        return await self._call(self._stub.TransferMessage, message)

    async def announce(self, path: list[Triple]) -> None:
        """Pass a leaf's announcement on. Checks the status only.

        Raises:
            Failed: it was answered with a status.
        """
        if self._stub is None:
            raise Failed("client not inited")
        request = pb.PathDiscoveryReq(uuid=str(uuid4()), proxyPos=wire(self._me), path=[wire(node) for node in path])
        await self._call(self._stub.PathDiscovery, request)

    async def _call(self, call: Any, request: Any) -> Any:
        try:
            ack = await call(request, timeout=PATIENCE_S)
        except grpc.aio.AioRpcError as error:
            raise Failed(error.details() or "", error.code()) from error
        self._checked(check_ack, ack)
        return ack

    async def _run(self) -> None:
        while True:
            await self._connect()
            while not await self._register():
                # Each failed Register leaves its connection behind.
                assert self._channel is not None
                self.leaked.append(self._channel)
                self._channel = None
                await asyncio.sleep(RETRY_S)
                await self._connect()
            if self._is_leaf:
                await self._announce_itself()
            await self._while_open()
            self.joined.clear()

    async def _connect(self) -> None:
        if self._channel is not None:
            await self._channel.close()
        options = [
            ("grpc.primary_user_agent", "grpc-go/1.57.0"),
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.max_receive_message_length", self._largest),
            ("grpc.max_send_message_length", -1),
            # Its keepalive is off, and it reconnects by itself.
            ("grpc.initial_reconnect_backoff_ms", 50),
        ]
        self._channel = grpc.aio.insecure_channel(self._address, options=options)
        self._stub = rpc.TaskNetStub(self._channel)

    async def _register(self) -> bool:
        self.registers += 1
        try:
            ack = await self._call(self._stub.Register, pb.RegisterReq(uuid=str(uuid4()), pos=wire(self._me)))
        except Failed as failed:
            self.refused.append((failed.status, failed.text))
            return False
        return bool(ack.code == 0)

    async def _announce_itself(self) -> None:
        while True:
            try:
                await self.announce([self._me])
            except Failed:
                await asyncio.sleep(RETRY_S)
            else:
                return

    async def _while_open(self) -> None:
        role, server_rank, process_rank = self._me
        metadata = (("role", role), ("serverrank", server_rank), ("processrank", process_rank))
        stream = self._stub.InitServerDownStream(metadata=metadata)
        self.joins += 1
        try:
            await stream.wait_for_connection()
            self.joined.set()
            while (message := await stream.read()) is not grpc.aio.EOF:
                self._checked(lambda form: check_message(form, down=True), message)
                ack = await self._handle(message)
                if ack is not None:
                    await stream.write(ack)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            pass  # also for a message that is too large, which costs the connection
        finally:
            # Also after a failed write, where the call's own `cancel` does nothing.
            stream._cython_call.cancel("the child has gone")

    def _checked(self, check: Callable[[Any], None], form: Any) -> None:
        try:
            check(form)
        except Died as died:
            self._die(str(died))
            raise asyncio.CancelledError from died
