"""The Router alone, in memory: the cost of a decision by the size of the mesh. No gRPC, no event loop."""

from __future__ import annotations

import gc
import random
import time
from typing import Final

from benchmarks.systems.member import Member
from taskd_net import Message, Position
from taskd_net.core.frame import Frame
from taskd_net.core.links import UP
from taskd_net.core.ready import Kind
from taskd_net.core.router import Router
from taskd_net.net.wire.codec import write_message

LINKS: Final = 100
"""Children that share the routes of a unicast."""

DESTINATIONS: Final = 1000
ROUNDS: Final = 15


class RouterAlone(Member):
    """Measures on request."""

    async def start(self) -> str:
        """Nothing to start."""
        return ""

    async def answer(self, request: dict[str, object]) -> object:
        """Nanoseconds per message."""
        match request:
            case {"do": "unicast", "routes": int(routes)}:
                return unicast(routes)
            case {"do": "broadcast", "links": int(links)}:
                return broadcast(links)
        return await super().answer(request)

    async def close(self) -> None:
        """Nothing to close."""


def unicast(routes: int) -> float:
    """Nanoseconds for one message down through a Proxy with this many routes, and for its answer."""
    proxy = _proxy(min(LINKS, routes), routes)
    chosen = random.Random(routes)
    frames = [_frame(Position.worker(1, chosen.randrange(routes)), number) for number in range(DESTINATIONS)]
    return _best_of(proxy, frames)


def broadcast(links: int) -> float:
    """Nanoseconds for one message from a Proxy to all of its children, and for their answers."""
    proxy = _proxy(links, links)
    return _best_of(proxy, [_frame(Position("Worker", "All", "All"), number) for number in range(4)])


def _proxy(links: int, routes: int) -> Router:
    proxy = Router(Position.proxy(0), upstream=True)
    proxy.upstream_up(0.0, object(), Position.mgr())
    for child in range(links):
        link = proxy.register(0.0, Position.proxy(child + 1)).link or 0
        proxy.link_up(0.0, link, link)
        below = [Position.worker(1, rank) for rank in range(child, routes, links)]
        proxy.announced(0.0, link, Kind.ADD, below, 1, "")
    assert len(proxy.routes) == links + routes
    return proxy


def _frame(to: Position, number: int) -> Frame:
    return write_message(Message(f"uuid-{number}", "bench", True, Position.mgr(), to, 0, "x" * 64))


def _best_of(proxy: Router, frames: list[Frame]) -> float:
    """The fastest of some rounds, because other load only adds time."""
    gc.collect()
    times = []
    for _ in range(ROUNDS + 1):
        began = time.perf_counter_ns()
        for frame in frames:
            uuid = (frame.uuid,)
            for link, writes in proxy.messages_arrived(0.0, UP, (frame,), uuid, (1.0,)).writes.items():
                proxy.written(link, link, len(writes.frames), len(frame.data))
                proxy.answers_arrived(0.0, link, uuid)
        times.append((time.perf_counter_ns() - began) / len(frames))
    return min(times[1:])
