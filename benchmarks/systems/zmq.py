"""ZeroMQ: a ROUTER that relays between DEALERs, with end-to-end acknowledgements, in asyncio."""

from __future__ import annotations

import asyncio
from itertools import count

import zmq
import zmq.asyncio

from benchmarks.systems.member import SEND_S, Member, NotAcknowledged, Spec

MESSAGE, ACK = b"M", b"A"


class ZmqRelay(Member):
    """The relay. A message's first part is its destination."""

    def __init__(self) -> None:
        super().__init__()
        self._context = zmq.asyncio.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> str:
        """Listen."""
        # Without it, a ROUTER drops undeliverable messages.
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        port = self._socket.bind_to_random_port("tcp://127.0.0.1")
        self._task = asyncio.create_task(self._relay())
        return f"127.0.0.1:{port}"

    async def close(self) -> None:
        """Close the socket."""
        if self._task is not None:
            self._task.cancel()
        self._context.destroy(linger=0)

    async def _relay(self) -> None:
        router = self._socket
        while True:
            src, dst, kind, ident, body = await router.recv_multipart()
            await router.send_multipart((dst, src, kind, ident, body))


class ZmqClient(Member):
    """A DEALER that acknowledges every message, and keeps a future for each message it sends."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self._name = spec["positions"][0].encode()
        self._relay = spec["upstream"]
        self._context = zmq.asyncio.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.IDENTITY, self._name)
        self._waiting: dict[bytes, asyncio.Future[None]] = {}
        self._count = count()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> str:
        """Connect."""
        self._socket.connect(f"tcp://{self._relay}")
        self._task = asyncio.create_task(self._read())
        return ""

    async def ready(self) -> None:
        """Send a message to itself, because the relay learns a client from its first message."""
        await self.send(self._name.decode(), b"")
        self.received = 0

    async def send(self, to: str, body: str | bytes) -> None:
        """Send a message and wait for its acknowledgement."""
        assert isinstance(body, bytes)
        ident = b"%d" % next(self._count)
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[ident] = answer
        await self._socket.send_multipart((to.encode(), MESSAGE, ident, body))
        try:
            async with asyncio.timeout(SEND_S):
                await answer
        except TimeoutError:
            raise NotAcknowledged(f"{to} did not answer") from None

    async def close(self) -> None:
        """Close the socket."""
        if self._task is not None:
            self._task.cancel()
        self._context.destroy(linger=0)

    async def _read(self) -> None:
        dealer, waiting = self._socket, self._waiting
        while True:
            src, kind, ident, _ = await dealer.recv_multipart()
            if kind == MESSAGE:
                self.received += 1
                await dealer.send_multipart((src, ACK, ident, b""))
            else:
                waiting.pop(ident).set_result(None)
