"""A TCP relay with the faults of networks: delay, jitter, loss, little bandwidth, cuts, resets.

Any number of relays run in one process of their own (`python -m tests.faults.relay`), so that they do
not slow down the nodes under test. The laboratory gives orders over its standard input, a JSON object a line.

A relay sees streams of bytes, not packets, so it imitates a network's faults as they look above TCP. A lost packet is a
stall, because everything behind it waits for the retransmission. A cut is a standstill after which the delayed data
arrives. A new connection gets no answer during a cut.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import socket
import struct
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import uvloop

UP, DOWN = "up", "down"
"""Directions: from the connecting end to the listening end, and back."""

SEGMENT: Final = 1448
"""Bytes of one Ethernet packet: loss is counted by packets."""

RETRANSMIT_S: Final = 0.2
"""Least seconds until TCP retransmits a lost packet, if no later packet triggers it."""

AHEAD: Final = 256 * 1024
"""Bytes that a relay buffers, about as many as a socket: beyond them the sender is slowed."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The faults of a relay.

    Attributes:
        delay: seconds in each direction.
        jitter: greatest random seconds on top. The order stays.
        loss: share of lost and retransmitted packets.
        reset: share of packets that reset the connection.
        rate: bytes a second in each direction, 0 without bound.
        cut: blocked directions.
    """

    delay: float = 0.0
    jitter: float = 0.0
    loss: float = 0.0
    reset: float = 0.0
    rate: float = 0.0
    cut: tuple[str, ...] = ()


class Relay:
    """One host in front of another, at the same ports: a child looks for direct links at the host of its upstream.

    Args:
        host: the target of connections.
        at: its own host.
        ports: of both.
    """

    def __init__(self, host: str, at: str, ports: Sequence[int]) -> None:
        self._host = host
        self._at = at
        self._ports = ports
        self._shape = Shape()
        self._changed = asyncio.Event()
        self._connections: dict[Connection, asyncio.Task[None]] = {}
        self._servers: list[asyncio.Server] = []

    async def start(self) -> None:
        """Listen."""
        for port in self._ports:
            self._servers.append(await asyncio.start_server(partial(self._accepted, port), self._at, port))

    async def close(self) -> None:
        """End every connection, and stop listening."""
        for server in self._servers:
            server.close()
        tasks = list(self._connections.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def shape(self) -> Shape:
        """The current faults."""
        return self._shape

    def change(self, shape: Shape) -> None:
        """Change the faults."""
        self._shape = shape
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def passable(self, direction: str) -> None:
        """Wait until nothing is cut in this direction."""
        while direction in self._shape.cut:
            await self._changed.wait()

    def lead_to(self, host: str) -> None:
        """Lead new connections to another host, as a virtual address that moves. The old ones are reset."""
        self._host = host
        self.reset()

    def reset(self) -> int:
        """Reset every connection. Returns their number."""
        connections = list(self._connections)
        for connection in connections:
            connection.reset()
        return len(connections)

    async def _accepted(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(self, reader, writer)
        # A task of its own, because asyncio reports a cancelled one of its own as a fault.
        running = self._connections[connection] = asyncio.create_task(connection.run((self._host, port)))
        try:
            await asyncio.wait([running])
        finally:
            del self._connections[connection]


class Connection:
    """One connection through a relay."""

    def __init__(self, relay: Relay, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._relay = relay
        self._near = reader, writer
        self._writers = [writer]

    async def run(self, target: tuple[str, int]) -> None:
        """Pass bytes on, both ways, until either end is gone."""
        try:
            # The first packet of a connection goes up, its answer comes down.
            await self._relay.passable(UP)
            far_reader, far_writer = await asyncio.open_connection(*target)
            self._writers.append(far_writer)
            await self._relay.passable(DOWN)
            near_reader, near_writer = self._near
            ways = [
                asyncio.create_task(Way(self._relay, UP, near_reader, far_writer, self.reset).run()),
                asyncio.create_task(Way(self._relay, DOWN, far_reader, near_writer, self.reset).run()),
            ]
            _, left = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in left:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
        except OSError:
            pass  # no listener there: the connecting end sees its connection end
        finally:
            for writer in self._writers:
                writer.close()

    def reset(self) -> None:
        """Reset the connection at both ends, and drop the data under way."""
        for writer in self._writers:
            # uvloop raises RuntimeError for a closed one.
            with contextlib.suppress(OSError, RuntimeError):
                connection = writer.get_extra_info("socket")
                if connection is not None:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()


class Way:
    """One direction of a connection: a reader that stamps data, a writer that passes it on when due."""

    def __init__(
        self,
        relay: Relay,
        direction: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        reset: Any,
    ) -> None:
        self._relay = relay
        self._direction = direction
        self._reader = reader
        self._writer = writer
        self._reset = reset
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[float, bytes]] = deque()
        self._bytes = 0
        self._moved = asyncio.Event()
        self._latest = 0.0

    async def run(self) -> None:
        """Pass data on until the reader's end is gone and all data has passed, or until a reset."""
        writing = asyncio.create_task(self._write())
        try:
            while data := await self._read():
                self._waiting.append((self._due(len(data)), data))
                self._bytes += len(data)
                self._moved.set()
                while self._bytes > AHEAD:
                    self._moved.clear()
                    await self._moved.wait()
            self._waiting.append((0.0, b""))
            self._moved.set()
            await writing
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)

    async def _read(self) -> bytes:
        try:
            return await self._reader.read(65536)
        except OSError:
            return b""

    def _due(self, size: int) -> float:
        """The arrival time of bytes received now, never before that of earlier bytes."""
        shape = self._relay.shape
        packets = -(-size // SEGMENT)
        on_the_way = shape.delay + random.uniform(0.0, shape.jitter)
        if random.random() > (1.0 - shape.loss) ** packets:
            # The loss is noticed after a round trip, or by the retransmission timer.
            on_the_way += max(RETRANSMIT_S, 2.0 * shape.delay) + shape.delay
        if random.random() > (1.0 - shape.reset) ** packets:
            self._loop.call_later(on_the_way, self._reset)
        due = max(self._loop.time() + on_the_way, self._latest)
        self._latest = due + (size / shape.rate if shape.rate else 0.0)
        return due

    async def _write(self) -> None:
        while True:
            while not self._waiting:
                self._moved.clear()
                await self._moved.wait()
            due, data = self._waiting.popleft()
            if due > self._loop.time():
                await asyncio.sleep(due - self._loop.time())
            await self._relay.passable(self._direction)
            if not data:
                return
            try:
                self._writer.write(data)
                await self._writer.drain()
            except OSError:
                return
            self._bytes -= len(data)
            self._moved.set()


class Switchboard:
    """All relays of the process, by name: one method for each order."""

    def __init__(self) -> None:
        self._relays: dict[str, Relay] = {}

    async def open(self, name: str, host: str, at: str, ports: list[int]) -> None:
        """Put a relay in front of a host."""
        relay = self._relays[name] = Relay(host, at, ports)
        await relay.start()

    async def shape(self, name: str, **shape: Any) -> None:
        """Change the named faults of a relay."""
        relay = self._relays[name]
        if "cut" in shape:
            shape["cut"] = tuple(shape["cut"])
        relay.change(replace(relay.shape, **shape))

    async def clear(self, name: str) -> None:
        """Let everything pass."""
        self._relays[name].change(Shape())

    async def reset(self, name: str) -> int:
        """Reset every connection of a relay. Returns their number."""
        return self._relays[name].reset()


async def main() -> None:
    """Run a switchboard until the input ends."""
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    switchboard = Switchboard()
    while line := await lines.readline():
        order = json.loads(line)
        number, what = order.pop("id"), order.pop("do")
        try:
            told = {"value": await getattr(switchboard, what)(**order)}
        except Exception as error:  # noqa: BLE001 - the laboratory raises it
            told = {"error": repr(error)}
        print(json.dumps({"id": number, **told}), flush=True)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
