"""A TCP relay that does to a connection what networks do: delay, jitter, loss, little bandwidth, cuts, resets.

Any number of relays run in one process of their own (`python -m tests.faults.relay`), so that they take no time from
what is measured; the laboratory tells it what to do over its standard input, a JSON object a line.

A relay sees streams of bytes, not packets, so it does what a network's faults look like above TCP: a lost packet is a
stall, as everything behind it waits for the retransmission; a cut is a standstill after which everything that was sent
meanwhile arrives, as TCP sends it again; while a relay is cut new connections get no answer either.
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
from dataclasses import dataclass, replace
from typing import Any, Final

import uvloop

UP, DOWN = "up", "down"
"""From the one who connects to the one who listens, and back."""

SEGMENT: Final = 1448
"""Bytes that one packet of an Ethernet carries: loss is counted by packets."""

RETRANSMIT_S: Final = 0.2
"""Seconds until TCP sends a lost packet again, at least: what a loss costs where nothing after it asks for it."""

AHEAD: Final = 256 * 1024
"""Bytes a relay takes in before it has passed them on: about what a socket holds; beyond it the sender is slowed."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a relay does to what passes.

    Attributes:
        delay: seconds on the way, in each direction.
        jitter: seconds on top of that, at most, by chance. Nothing overtakes.
        loss: share of packets that are lost and sent again.
        reset: share of packets with which the connection is reset.
        rate: bytes a second in each direction, 0 without bound.
        cut: directions in which nothing passes.
    """

    delay: float = 0.0
    jitter: float = 0.0
    loss: float = 0.0
    reset: float = 0.0
    rate: float = 0.0
    cut: tuple[str, ...] = ()


class Relay:
    """One address in front of another.

    Args:
        host, port: where connections are passed on to.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = host, port
        self._shape = Shape()
        self._changed = asyncio.Event()
        self._connections: dict[Connection, asyncio.Task[None]] = {}
        self._server: asyncio.Server | None = None

    async def start(self) -> int:
        """Listen; the port."""
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def close(self) -> None:
        """End every connection, and listen no more."""
        assert self._server is not None
        self._server.close()
        tasks = list(self._connections.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def shape(self) -> Shape:
        """What is done at present."""
        return self._shape

    def change(self, shape: Shape) -> None:
        """From now on do this."""
        self._shape = shape
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def passable(self, direction: str) -> None:
        """Wait until nothing is cut in this direction."""
        while direction in self._shape.cut:
            await self._changed.wait()

    def reset(self) -> int:
        """Reset every connection; how many."""
        connections = list(self._connections)
        for connection in connections:
            connection.reset()
        return len(connections)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(self, reader, writer)
        # A task of its own: one of asyncio's that is cancelled is reported as a fault.
        running = self._connections[connection] = asyncio.create_task(connection.run(self._target))
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
            pass  # nobody listens there: whoever connected sees its connection end
        finally:
            for writer in self._writers:
                writer.close()

    def reset(self) -> None:
        """End the connection at both ends as a reset does it: at once, what is under way is gone."""
        for writer in self._writers:
            # uvloop raises RuntimeError for one that is closed already.
            with contextlib.suppress(OSError, RuntimeError):
                connection = writer.get_extra_info("socket")
                if connection is not None:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()


class Way:
    """One direction of a connection: a reader that stamps what comes, a writer that passes it on when it is due."""

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
        """Until the reader's end is gone and everything has been passed on, or a reset."""
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
        """When bytes that came now arrive. Not before what came earlier."""
        shape = self._relay.shape
        packets = -(-size // SEGMENT)
        on_the_way = shape.delay + random.uniform(0.0, shape.jitter)
        if random.random() > (1.0 - shape.loss) ** packets:
            # It is missed after a round trip, or by the clock.
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

    async def open(self, name: str, host: str, port: int) -> int:
        """Put a relay in front of an address; its port."""
        relay = self._relays[name] = Relay(host, port)
        return await relay.start()

    async def shape(self, name: str, **shape: Any) -> None:
        """Change what a relay does; what is not named stays."""
        relay = self._relays[name]
        if "cut" in shape:
            shape["cut"] = tuple(shape["cut"])
        relay.change(replace(relay.shape, **shape))

    async def clear(self, name: str) -> None:
        """Let everything pass."""
        self._relays[name].change(Shape())

    async def reset(self, name: str) -> int:
        """Reset every connection of a relay; how many."""
        return self._relays[name].reset()


async def main() -> None:
    """Be a switchboard until the input ends."""
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
