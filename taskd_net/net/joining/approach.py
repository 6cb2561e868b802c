"""An approach to one parent, shared by the nodes of one event loop: turns to join, and the time limit of each answer.

A whole job may join at once, and its parents then answer late. Two things keep the work linear in the number of nodes:

- Few nodes of a process join at a time (`JOINS_AT_ONCE`). More would compete for the parent and the process.
- A time limit that ran out doubles for the next attempt, up to `ANSWER_MAX_S`. An attempt that is given up
  costs the parent as much as one that succeeds. Fast answers shorten the limit again.

The limit does not detect a dead or frozen parent: a dead one refuses connections, a frozen one leaves pings unanswered.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from weakref import WeakKeyDictionary

from taskd_net.base.address import Address

JOINS_AT_ONCE: Final = 8
"""Nodes of one event loop that join at a time, half of them at one parent. A process has one node as a rule. In a
simulation of 10,000 nodes that joined all at once, most attempts ran out of time. Over a network with a round trip of
5 ms, eight are 400 joins a second."""

ANSWER_MAX_S: Final = 60.0
"""Seconds that the answer to a step of joining gets at most, after earlier ones ran out of time: 5,000 children of one
parent, if each takes 10 ms of a busy core."""


class Approach:
    """The attempts of one event loop to join the parent at one address.

    Args:
        of_loop: turns of the loop, shared by the approaches to all parents.
    """

    def __init__(self, of_loop: asyncio.Semaphore) -> None:
        self._of_loop = of_loop
        # Fewer than the loop has, so that a parent that does not answer leaves turns to the nodes of others.
        self._of_parent = asyncio.Semaphore(JOINS_AT_ONCE // 2)
        self._longer = 1.0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn, and hold it: from the connection until the link is open."""
        async with self._of_parent, self._of_loop:
            yield

    def limit(self, seconds: float) -> float:
        """Seconds for an answer of the parent that usually gets `seconds`."""
        return max(seconds, min(seconds * self._longer, ANSWER_MAX_S))

    def ran_out(self, seconds: float, limit: float) -> None:
        """Note that no answer came within `limit`. Attempts that began together double the limit once."""
        self._longer = max(self._longer, 2.0 * limit / seconds)

    def answered(self, seconds: float, took: float) -> None:
        """Note how long an answer took. The limit stays at four times that, or at half of what it was."""
        self._longer = max(1.0, min(self._longer, max(4.0 * took / seconds, self._longer / 2.0)))


class _OfLoop:
    """The approaches of one event loop, by the parent's address."""

    def __init__(self) -> None:
        self.turns = asyncio.Semaphore(JOINS_AT_ONCE)
        self.to: dict[Address, Approach] = {}


_loops: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, _OfLoop]] = WeakKeyDictionary()


def approach_of(upstream: Address) -> Approach:
    """The approach of the running event loop to a parent."""
    loop = asyncio.get_running_loop()
    of_loop = _loops.get(loop)
    if of_loop is None:
        of_loop = _loops[loop] = _OfLoop()
    approach = of_loop.to.get(upstream)
    if approach is None:
        approach = of_loop.to[upstream] = Approach(of_loop.turns)
    return approach
