"""The port of direct links, and the bytes of a child on its socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from itertools import count
from typing import Final, Self

from taskd_net.net.links import direct_acceptor
from taskd_net.net.wire import socket_frames
from taskd_net.net.wire.socket_frames import FrameKind, Greeting, write_frame, write_greeting
from tests.peers.direct_child import DirectChild
from tests.peers.direct_parent import DirectParent
from tests.security.attacks import batches, unread
from tests.security.attacks.attack import Attack, Strikes
from tests.security.bystander.stand import Stand

GREETINGS: Final = 64
SILENT: Final = direct_acceptor.GREETINGS_PER_ADDRESS + 64
"""Connections of one address, more than may wait without a greeting."""

_WRONG: Final = write_greeting(Greeting(b"?" * socket_frames.TOKEN_BYTES, False))
_PINGS: Final = write_frame(FrameKind.PING) * 20_000
_4_GIB: Final = b"\xff\xff\xff\xff" + bytes([FrameKind.BATCH])
_PATIENCE_S: Final = 60.0


def _bomb(kind: FrameKind) -> bytes:
    return write_frame(kind, b"\x1a\x00" * batches.PAIRS)


class _Unread(DirectChild):
    """A child that joins, and reads nothing any more."""

    async def join(self, address: str) -> Self:
        await super().join(address)
        assert self._reader is not None and self.writer is not None
        self._reader.cancel()
        self.writer.transport.pause_reading()  # type: ignore[attr-defined]
        return self


async def _port(stand: Stand) -> int:
    """The port of the target, as it offers it to a child."""
    async with DirectChild("Worker/79/0") as child:
        await child.register(stand.address)
        return child.offer[0]


async def _answer(port: int, data: bytes, *, pause: float = 0.0) -> bytes:
    """The words of the target to somebody who writes this at once, or byte by byte, until it hangs up."""
    loop = asyncio.get_running_loop()
    with socket.create_connection(("127.0.0.1", port)) as stranger:
        stranger.setblocking(False)
        try:
            async with asyncio.timeout(_PATIENCE_S):
                for piece in (data,) if not pause else (bytes([byte]) for byte in data):
                    await loop.sock_sendall(stranger, piece)
                    await asyncio.sleep(pause)
                return await loop.sock_recv(stranger, 1000)
        except ConnectionError:
            return b""


async def _wrong_tokens(stand: Stand) -> AsyncGenerator[None, None]:
    """Each strike is many greetings at once, with a token that nobody has got."""
    port = await _port(stand)
    yield
    while True:
        assert set(await asyncio.gather(*(_answer(port, _WRONG) for _ in range(GREETINGS)))) == {b""}
        assert stand.log().count("a direct link:") == 1, "one line for an address"
        yield


async def _slow_greetings(stand: Stand) -> AsyncGenerator[None, None]:
    """Each strike is many greetings at once, a byte at a time."""
    port = await _port(stand)
    yield
    while True:
        slow = (_answer(port, _WRONG, pause=0.1) for _ in range(GREETINGS))
        assert set(await asyncio.gather(*slow)) == {b""}
        yield


async def _silent(stand: Stand) -> AsyncGenerator[None, None]:
    """Each strike is more connections than may wait, which say nothing: the last one is closed at once."""
    port, loop = await _port(stand), asyncio.get_running_loop()
    yield
    while True:
        with ExitStack() as stack:
            strangers = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(SILENT)]
            strangers[-1].setblocking(False)
            async with asyncio.timeout(_PATIENCE_S):
                assert await loop.sock_recv(strangers[-1], 1) == b""
        yield


def _ends_the_link(data: bytes) -> Strikes:
    """A child writes this, and its link ends. It comes back in another place, as its own has to wait."""

    async def strikes(stand: Stand) -> AsyncGenerator[None, None]:
        for rank in count():
            async with DirectChild(f"Worker/80/{rank}") as child:
                await child.join(stand.address)
                if not rank:
                    yield
                child.put(data)
                await child.ended()
                assert "event=violation" in stand.log()
                yield

    return strikes


async def _middle(stand: Stand) -> AsyncGenerator[None, None]:
    """Each strike is a life of a child, which ends in the middle of a frame."""
    for rank in count():
        async with DirectChild(f"Worker/80/{rank % 64}") as child:
            await child.join(stand.address)
            if not rank:
                yield
            child.put(b"\x00\x00\x80\x00\x00" + bytes(1000))
        yield


def _ends_the_link_from_above(data: bytes) -> Strikes:
    """A parent writes this. Its child ends the link, and joins again after a pause."""

    async def strikes(stand: Stand) -> AsyncGenerator[None, None]:
        parent = await DirectParent().start(stand.parent)
        try:
            line = await parent.opened()
            yield
            while True:
                await line.put(data)
                line = await parent.opened()
                assert "event=violation" in stand.log()
                yield
        finally:
            await parent.stop()

    return strikes


def _over_direct(attack: Attack, strikes: Strikes) -> Attack:
    return replace(attack, sends=f"{attack.sends}, over a direct link", strikes=strikes)


def _batches() -> Iterator[tuple[str, Attack]]:
    """The attacks with one batch, in both directions."""
    for name, make in batches.BATCHES.items():
        yield f"direct-{name}", _over_direct(batches.ATTACKS[name], batches.ends_the_stream(make, DirectChild))
    for name, make in batches.BATCHES.items():
        above = f"{name}-from-above"
        strikes = batches.ends_the_stream_from_above(make, DirectParent)
        yield f"direct-{above}", _over_direct(batches.ATTACKS[above], strikes)


ATTACKS: Final[Mapping[str, Attack]] = {
    "direct-wrong-tokens": Attack(
        f"{GREETINGS} greetings at once with a token that nobody has got",
        "closed without a word, one line for the address",
        _wrong_tokens,
    ),
    "direct-slow-greetings": Attack(
        f"{GREETINGS} greetings at once, a byte in 0.1 s", "closed after 2 s", _slow_greetings
    ),
    "direct-silent-connections": Attack(
        f"{SILENT} connections that say nothing", "256 wait for 2 s, the next is closed at once", _silent
    ),
    "direct-4-gib": Attack("a frame with a length of 4 GiB", "the link ends, one line", _ends_the_link(_4_GIB)),
    "direct-ends-in-a-frame": Attack(
        "lives that end in the middle of a frame of 8 MiB", "the end of the link", _middle
    ),
    "direct-pings": Attack("20,000 pings of a child", "the link ends, one line", _ends_the_link(_PINGS)),
    "direct-multicasts-unread": _over_direct(unread.ATTACKS["multicasts-unread"], unread.multicasts(_Unread)),
    **dict(_batches()),
    "direct-4-gib-from-above": Attack(
        "a frame with a length of 4 GiB, downwards",
        batches.FROM_ABOVE,
        _ends_the_link_from_above(_4_GIB),
        from_above=True,
    ),
    "direct-requests": Attack(
        "a request of 9 MiB of empty fields",
        "the link ends, one line",
        _ends_the_link(_bomb(FrameKind.REQUEST)),
    ),
    "direct-replies-from-above": Attack(
        "a reply of 9 MiB of empty fields",
        batches.FROM_ABOVE,
        _ends_the_link_from_above(_bomb(FrameKind.REPLY)),
        from_above=True,
    ),
    "direct-pings-from-above": Attack(
        "20,000 pings of a parent",
        batches.FROM_ABOVE,
        _ends_the_link_from_above(_PINGS),
        from_above=True,
    ),
}
