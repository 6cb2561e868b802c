"""A thousand positions of one process, each of which keeps within the bounds of one.

Without certificates a process has as many positions as it likes. So all of them together have to keep the promise for
all: others are served, and memory stays within `ALL_BYTES`.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache, partial
from typing import Any, Final, TypeAlias

from taskd_net import Position
from taskd_net.net.links import direct_requests, direct_socket
from taskd_net.net.wire import batches
from taskd_net.net.wire.link_pb2 import Batch
from taskd_net.net.wire.requests import write_announcement
from taskd_net.net.wire.socket_frames import FrameKind, write_frame
from taskd_net.observe import service, status_codec
from tests.peers.direct_child import DirectChild
from tests.peers.floods import batch
from tests.security.attacks.attack import ALL_BYTES, Attack
from tests.security.attacks.reports import empty, ever_new
from tests.security.bystander.stand import Stand

POSITIONS: Final = 1000
AT_ONCE: Final = 50
"""Positions that join at a time."""
STRIKE_S: Final = 0.2
"""Seconds of one strike. The next one goes on where it has ended."""
PENDING_BYTES: Final = 16 * 1024
"""Bytes that the attacker's kernel holds for a link: what the target has not read ends soon after the attack."""
MESSAGES: Final = 256
ANNOUNCEMENT_BYTES: Final = 16_000
"""Bytes of a long announcement."""
NODES: Final = 64
"""Nodes of one announcement: a thousand positions with one each fill the routes of all."""
PINGS: Final = direct_socket.SIGNS // 3
"""Pings of a link in a second: a busy parent may read those of two seconds in one."""

_Writes: TypeAlias = Callable[[DirectChild], bytes]


@asynccontextmanager
async def positions(address: str, role: str = "Worker", count: int = POSITIONS) -> AsyncIterator[list[DirectChild]]:
    """So many positions of this process, each with a direct link."""
    places = [f"Worker/80/{rank}" if role == "Worker" else f"{role}/{1000 + rank}" for rank in range(count)]
    children = [DirectChild(place) for place in places]
    async with AsyncExitStack() as stack:
        for first in range(0, count, AT_ONCE):
            some = children[first : first + AT_ONCE]
            for child in some:
                await stack.enter_async_context(child)
            await asyncio.gather(*(child.join(address) for child in some))
        yield children


async def flood(
    stand: Stand, write: _Writes, *, role: str = "Worker", pause: float = 0.0, count: int = POSITIONS
) -> AsyncGenerator[None, None]:
    """Each strike writes to every link whose last bytes the kernel has, for a time.

    Args:
        stand: the target.
        write: the next bytes of a child.
        role: of the positions.
        pause: seconds between two writes of a link.
        count: of the positions.
    """
    loop = asyncio.get_running_loop()
    async with positions(stand.address, role, count) as children:
        for child in children:
            assert child.writer is not None
            child.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, PENDING_BYTES)
        next_write = dict.fromkeys(children, 0.0)
        yield
        while True:
            until = loop.time() + STRIKE_S
            while loop.time() < until:
                for child in children:
                    _forget_received(child)
                    assert child.writer is not None
                    now = loop.time()
                    if now >= next_write[child] and not child.writer.transport.get_write_buffer_size():
                        child.put(write(child))
                        next_write[child] = now + pause
                    if now >= until:
                        break
                await asyncio.sleep(0.0)
            assert not any(child.over() for child in children), "nobody has broken a rule"
            yield


def _forget_received(child: DirectChild) -> None:
    while not child.other.empty():
        child.other.get_nowait()


def _requests(child: DirectChild, most: int, **content: Any) -> bytes:
    """As many requests as may be under way."""
    made = []
    while len(child.replies) < most:
        made.append(child.begin(**content))
    return b"".join(made)


def _announcements(child: DirectChild) -> bytes:
    me = Position.parse(child.place)
    return _requests(child, direct_requests.REQUESTS - 1, announcement=write_announcement("a", me, [me]))


@cache
def _path(child: DirectChild) -> bytes:
    """An announcement of a few KiB, which waits: it has more positions than a child may announce at once."""
    return write_announcement("a", Position.parse(child.place), ()) + b"\x1a\x00" * (ANNOUNCEMENT_BYTES // 2)


def _long_announcements(child: DirectChild) -> bytes:
    return _requests(child, direct_requests.REQUESTS - 1, announcement=_path(child))


def _nodes(child: DirectChild) -> bytes:
    """Announcements of nodes that nobody else has named, other ones each time."""
    me, numbers = Position.parse(child.place), _numbers(child)
    made = []
    while len(child.replies) < direct_requests.REQUESTS - 1:
        nodes = [Position.parse(f"Worker/{me.server_rank}/{next(numbers)}") for _ in range(NODES)]
        made.append(child.begin(announcement=write_announcement("a", me, nodes)))
    return b"".join(made)


@cache
def _numbers(_: DirectChild) -> Iterator[int]:
    return itertools.count()


def _reported_nodes(child: DirectChild) -> bytes:
    """Reports of nodes that nobody has, other ones each time."""
    made, numbers = [], _numbers(child)
    while len(child.replies) < service.REPORTS_AT_ONCE:
        made.append(child.begin(report=ever_new(next(numbers), child.place)))
    return b"".join(made)


def _reports(child: DirectChild) -> bytes:
    return _requests(child, service.REPORTS_AT_ONCE, report=empty(0))


@cache
def _messages(child: DirectChild) -> bytes:
    """Messages that nobody awaits an answer of, to a node that does not exist. Made once: they cost the target, not the
    processors that others need."""
    made = Batch.FromString(batch(1, MESSAGES, child.place, "Worker/99/77", sync=False))
    del made.numbers[:], made.patience[:]
    made.numbers.extend([0] * MESSAGES)
    made.patience.extend([0] * MESSAGES)
    return write_frame(FrameKind.BATCH, made.SerializeToString())


_ANSWERS: Final = write_frame(
    FrameKind.BATCH, Batch(accepted_numbers=range(2**31, 2**31 + batches.BATCH_ANSWERS)).SerializeToString()
)
_PINGS: Final = write_frame(FrameKind.PING) * PINGS


def _attack(
    sends: str, answer: str, write: _Writes, *, role: str = "Worker", pause: float = 0.0, promised: bool = True
) -> Attack:
    strikes = partial(flood, write=write, role=role, pause=pause)
    sends = f"{POSITIONS:,} positions of one process: {sends}"
    return Attack(sends, answer, strikes, share=ALL_BYTES, promised=promised)


ATTACKS: Final[Mapping[str, Attack]] = {
    "positions-pings": _attack(f"{PINGS} pings a second of each", "answered", lambda _: _PINGS, pause=1.05),
    "positions-announcements": _attack(
        f"{direct_requests.REQUESTS - 1} announcements of each under way", "answered", _announcements
    ),
    "positions-long-announcements": _attack(
        f"{direct_requests.REQUESTS - 1} announcements of {ANNOUNCEMENT_BYTES // 1024} KiB of each under way",
        "paced; 5001 beyond the share of one in the bytes of all",
        _long_announcements,
        role="Proxy",
        promised=False,
    ),
    "positions-routes": _attack(
        f"announcements of {NODES} nodes of each, ever new ones",
        "5003 beyond the nodes of all",
        _nodes,
        role="Proxy",
        promised=False,
    ),
    "positions-reports-of-other-nodes": _attack(
        f"{service.REPORTS_AT_ONCE} reports of {status_codec.REPORT_NODES} other nodes of each under way",
        "paced; RESOURCE_EXHAUSTED beyond the share of one in the bytes of all",
        _reported_nodes,
        role="Proxy",
        promised=False,
    ),
    "positions-reports": _attack(
        f"{service.REPORTS_AT_ONCE} reports of {status_codec.REPORT_BYTES // 1024} KiB of each under way",
        "INVALID_ARGUMENT, paced; 5001 beyond the share of one in the bytes of all",
        _reports,
        role="Proxy",
    ),
    "positions-messages": _attack(
        f"batches of {MESSAGES} messages to a node that does not exist", "lost, one line", _messages
    ),
    "positions-answers": _attack(
        f"batches of {batches.BATCH_ANSWERS:,} answers to messages that nobody sent",
        "dropped",
        lambda _: _ANSWERS,
    ),
}
