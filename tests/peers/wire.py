"""The cable between a child and its parent, and servers that are no parent."""

from __future__ import annotations

import asyncio
import socket
from functools import partial
from typing import Any

_LAID: dict[str, Wire] = {}


def wire_to(address: str) -> Wire | None:
    """The wire whose connection to the parent has this address at the parent; None for a child without a wire."""
    return _LAID.get(address)


class Wire:
    """A TCP relay on loopback that can be cut, frozen and restored.

    Args:
        target: `127.0.0.1:port` of the parent.
        source: the child's address, as the parent sees it.

    Attributes:
        connections: to the parent's own port, so far.
        cuts: breaks so far.
        flowing_up, flowing_down: whether data passes in a direction.
    """

    def __init__(self, target: str, *, source: str | None = None) -> None:
        self.target = target
        self._source = (source, 0) if source else None
        self.address = ""
        self.plugged = True
        self.connections = 0
        self.cuts = 0
        self.flowing_up, self.flowing_down = asyncio.Event(), asyncio.Event()
        self.thaw()
        self._servers: list[asyncio.Server] = []
        self._writers: set[asyncio.StreamWriter] = set()
        self._children: set[asyncio.StreamWriter] = set()
        self._severed: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._also: dict[int, int] = {}

    async def __aenter__(self) -> Wire:
        host, port = (await self._listen(self.target)).sockets[0].getsockname()
        self.address = f"{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.plugged = False
        for server in self._servers:
            await _close(server)
        self.cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for server in self._servers:
            await server.wait_closed()

    def also(self, port: int) -> int:
        """Lead to another port of the parent as well. Returns the port at this end."""
        if port not in self._also:
            listener = socket.create_server(("127.0.0.1", 0))
            host = self.target.rpartition(":")[0]
            task = asyncio.create_task(self._listen_too(f"{host}:{port}", listener))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            self._also[port] = listener.getsockname()[1]
        return self._also[port]

    async def _listen_too(self, target: str, listener: socket.socket) -> None:
        await self._listen(target, sock=listener)

    async def _listen(self, target: str, **where: Any) -> asyncio.Server:
        server = await asyncio.start_server(
            partial(self._connected, target), **(where or {"host": "127.0.0.1", "port": 0})
        )
        self._servers.append(server)
        return server

    def cut(self) -> None:
        """Break every connection now; new ones are accepted while the cable is plugged in."""
        self.cuts += 1
        for writer in self._writers:
            writer.transport.abort()
        for task in self._tasks:
            task.cancel()

    def cut_below(self) -> None:
        """Break the child's half of every connection; to the parent they still stand."""
        self.cuts += 1
        self._severed |= self._children
        for writer in self._children:
            writer.transport.abort()

    def freeze(self, *, up: bool = True, down: bool = True) -> None:
        """Block one direction or both, and keep every connection, like a suspended machine."""
        if up:
            self.flowing_up.clear()
        if down:
            self.flowing_down.clear()

    def thaw(self) -> None:
        """Unblock, and pass the waiting data."""
        self.flowing_up.set()
        self.flowing_down.set()

    async def _connected(self, target: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        self._children.add(writer)
        try:
            if not self.plugged:
                return
            self.connections += target == self.target
            host, _, port = target.rpartition(":")
            up_reader, up_writer = await asyncio.open_connection(host.strip("[]"), int(port), local_addr=self._source)
            self._writers.add(up_writer)
            near, near_port = up_writer.get_extra_info("sockname")[:2]
            _LAID[f"{near}:{near_port}"] = self
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._carry(reader, up_writer, writer, self.flowing_up))
                    group.create_task(self._carry(up_reader, writer, writer, self.flowing_down))
            finally:
                # The port may be that of the next connection already, which is on the same wire or another.
                _LAID.pop(f"{near}:{near_port}", None)
                self._writers.discard(up_writer)
                up_writer.transport.abort()
        except (OSError, asyncio.CancelledError, ExceptionGroup):
            pass  # cut, or one end has gone: both connections end
        finally:
            self._writers.discard(writer)
            self._children.discard(writer)
            self._severed.discard(writer)
            self._tasks.discard(task)
            writer.transport.abort()

    async def _carry(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        child: asyncio.StreamWriter,
        flowing: asyncio.Event,
    ) -> None:
        while data := await reader.read(65536):
            await flowing.wait()
            if child not in self._severed:
                writer.write(data)
                await writer.drain()
        if child not in self._severed:
            writer.transport.abort()


async def _close(server: asyncio.Server) -> None:
    """Stop listening. asyncio loses a connection that it accepts in the turn of `close`, and never closes it."""
    for listener in server.sockets:
        asyncio.get_running_loop().remove_reader(listener.fileno())
    await asyncio.sleep(0)
    server.close()


class NotAParent:
    """A TCP server that is no gRPC server.

    Args:
        answer: sent to each connection; empty for silence.
        hang_up: close each connection after that.
    """

    def __init__(self, answer: bytes = b"", *, hang_up: bool = False) -> None:
        self._answer = answer
        self._hang_up = hang_up
        self.address = ""
        self.connections: asyncio.Queue[None] = asyncio.Queue()
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> NotAParent:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        self.address = f"{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        await _close(self._server)
        for writer in self._writers:
            writer.transport.abort()
        await self._server.wait_closed()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert self._server is not None
        if not self._server.is_serving():  # connected while the test ended
            writer.transport.abort()
            return
        self.connections.put_nowait(None)
        self._writers.append(writer)
        writer.write(self._answer)
        if self._hang_up:
            writer.close()
