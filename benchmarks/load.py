"""Load: messages sent with a fixed number in flight, or at a fixed rate, with the latency of each."""

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
    """Keep `in_flight` messages under way: each acknowledgement starts the next one.

    Returns the latency of each message in nanoseconds, and the seconds until the last acknowledgement.
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
    """Send at a fixed rate, independent of the answers.

    A latency counts from the intended start, so that the delay of a blocked sender is part of it.
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
    """A kernel timer, because the event loop's own is a millisecond too coarse."""

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
        """Wait for the next tick. Returns the number of ticks since the last call."""
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
