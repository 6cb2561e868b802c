"""The relay applies its faults, and loses no data that a network would deliver."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable

import pytest

from tests.faults.relay import DOWN, UP, Relay, Shape
from tests.peers.mesh import soon

RELAY = "127.0.1.1"


class Ends:
    """Both ends of a connection through a relay."""

    def __init__(self) -> None:
        self.far: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
        self.writers: list[asyncio.StreamWriter] = []
        self.relay: Relay | None = None

    async def start(self) -> int:
        """Listen behind a relay. Returns the port of both."""
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        self.relay = Relay("127.0.0.1", RELAY, [port])
        await self.relay.start()
        return port

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        self.far.put_nowait((reader, writer))

    async def connect(self, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the relay."""
        reader, writer = await asyncio.open_connection(RELAY, port)
        self.writers.append(writer)
        return reader, writer

    async def close(self) -> None:
        """Close everything."""
        for writer in self.writers:
            writer.close()
        assert self.relay is not None
        await self.relay.close()
        self._server.close()


@pytest.fixture
async def ends() -> AsyncIterator[Ends]:
    """Both ends, closed afterwards."""
    ends = Ends()
    yield ends
    await ends.close()


async def nothing(work: Awaitable[object]) -> None:
    """Check that no data passes a cut."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await work


async def test_bytes_pass_unchanged_in_both_directions(ends: Ends) -> None:
    reader, writer = await ends.connect(await ends.start())
    far_reader, far_writer = await soon(ends.far.get())
    sent = os.urandom(500_000)
    assert ends.relay is not None
    ends.relay.change(Shape(delay=0.01, jitter=0.01, loss=0.01))
    for from_here, to_there in ((writer, far_reader), (far_writer, reader)):
        from_here.write(sent)
        assert await soon(to_there.readexactly(len(sent))) == sent
    writer.close()
    assert await soon(far_reader.read()) == b""


async def test_delay(ends: Ends) -> None:
    _, writer = await ends.connect(await ends.start())
    far_reader, _ = await soon(ends.far.get())
    assert ends.relay is not None
    ends.relay.change(Shape(delay=0.2))
    loop = asyncio.get_running_loop()
    began = loop.time()
    writer.write(b"x")
    await soon(far_reader.readexactly(1))
    assert loop.time() - began >= 0.2


async def test_rate(ends: Ends) -> None:
    _, writer = await ends.connect(await ends.start())
    far_reader, _ = await soon(ends.far.get())
    assert ends.relay is not None
    ends.relay.change(Shape(rate=1_000_000))
    loop = asyncio.get_running_loop()
    began = loop.time()
    writer.write(b"x" * 300_000)
    await soon(far_reader.readexactly(300_000))
    # The last bytes are on the wire when they are passed on.
    assert loop.time() - began >= 0.2


@pytest.mark.parametrize("way", [UP, DOWN])
async def test_cut_one_way_and_healed(ends: Ends, way: str) -> None:
    port = await ends.start()
    reader, writer = await ends.connect(port)
    far_reader, far_writer = await soon(ends.far.get())
    relay = ends.relay
    assert relay is not None
    relay.change(Shape(cut=(way,)))
    writer.write(b"up")
    far_writer.write(b"down")
    cut, open_ = (far_reader.readexactly(2), reader.readexactly(4))
    if way == DOWN:
        cut, open_ = open_, cut
    await soon(open_)
    arriving = asyncio.ensure_future(cut)
    await nothing(asyncio.shield(arriving))
    relay.change(Shape())
    assert await soon(arriving)


async def test_no_new_connection_through_a_cut(ends: Ends) -> None:
    port = await ends.start()
    assert ends.relay is not None
    ends.relay.change(Shape(cut=(UP, DOWN)))
    await ends.connect(port)
    getting = asyncio.ensure_future(ends.far.get())
    await nothing(asyncio.shield(getting))
    ends.relay.change(Shape())
    await soon(getting)


async def test_reset(ends: Ends) -> None:
    reader, _ = await ends.connect(await ends.start())
    far_reader, _ = await soon(ends.far.get())
    assert ends.relay is not None
    assert ends.relay.reset() == 1
    for end in (reader, far_reader):
        with pytest.raises(ConnectionResetError):
            await soon(end.read())


async def test_loss_resets_now_and_then(ends: Ends) -> None:
    reader, writer = await ends.connect(await ends.start())
    await soon(ends.far.get())
    assert ends.relay is not None
    ends.relay.change(Shape(reset=1.0))
    writer.write(b"x")
    with pytest.raises(ConnectionResetError):
        await soon(reader.read())
