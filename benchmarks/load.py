"""Load: messages sent as fast as a number in flight allows, or at a fixed rate, and what each of them took."""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
import time
from collections.abc import Awaitable, Callable
from typing import TypeAlias

Send: TypeAlias = Callable[[str, str | bytes], Awaitable[None]]


async def closed_loop(
    send: Send, to: str, body: str | bytes, seconds: float, in_flight: int
) -> tuple[list[int], float]:
    """Keep `in_flight` messages under way: the next one leaves when one has been acknowledged.

    Returns what each message took, in nanoseconds, and the seconds until the last was acknowledged.
    """
    took: list[int] = []
    clock = time.perf_counter_ns
    start = clock()
    until = start + int(seconds * 1e9)

    async def keep_sending() -> None:
        while (began := clock()) < until:
            await send(to, body)
            took.append(clock() - began)

    async with asyncio.TaskGroup() as group:
        for _ in range(in_flight):
            group.create_task(keep_sending())
    return took, (clock() - start) / 1e9


async def open_loop(send: Send, to: str, body: str | bytes, seconds: float, rate: int) -> tuple[list[int], float]:
    """Send at a fixed rate, whatever the answers do.

    What a message took counts from the moment at which it should have been sent: a sender that is held up makes the
    messages late that wait behind it, and that is not left out.
    """
    took: list[int] = []
    clock = time.perf_counter_ns
    interval = 1_000_000_000 // rate
    total = int(seconds * rate)
    ticks = _Ticks(interval)
    start = clock()

    async def send_at(intended: int) -> None:
        await send(to, body)
        took.append(clock() - intended)

    sent = 0
    try:
        async with asyncio.TaskGroup() as group:
            while sent < total:
                due = await ticks.next()
                for _ in range(min(due, total - sent)):
                    sent += 1
                    group.create_task(send_at(start + sent * interval))
    finally:
        ticks.close()
    return took, (clock() - start) / 1e9


class _Ticks:
    """A timer of the kernel: the event loop's own is too coarse by a millisecond."""

    def __init__(self, interval: int) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd: int = libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        seconds, nanoseconds = divmod(interval, 1_000_000_000)
        both = struct.pack("qqqq", seconds, nanoseconds, seconds, nanoseconds)
        if self._fd < 0 or libc.timerfd_settime(self._fd, 0, both, None):
            raise OSError(ctypes.get_errno(), "timerfd")
        self._loop = asyncio.get_running_loop()
        self._ticked = asyncio.Event()
        self._loop.add_reader(self._fd, self._ticked.set)

    async def next(self) -> int:
        """Wait for the next tick. Returns how many there were since the last call."""
        while True:
            await self._ticked.wait()
            self._ticked.clear()
            try:
                (ticks,) = struct.unpack("Q", os.read(self._fd, 8))
            except BlockingIOError:
                continue
            return int(ticks)

    def close(self) -> None:
        """Stop ticking."""
        self._loop.remove_reader(self._fd)
        os.close(self._fd)
