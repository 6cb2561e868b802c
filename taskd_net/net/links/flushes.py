"""The links of one event loop: the order in which direct ones write, and what all of them share.

A link that has something to write is flushed at the end of the read that brought it, or in the next turn of the loop.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol
from weakref import WeakKeyDictionary, ref

from taskd_net.net.links.acknowledgements import Acknowledgements
from taskd_net.net.links.large_writes import LARGE_WRITES_AHEAD
from taskd_net.net.links.read_turns import ReadTurns
from taskd_net.net.links.turns import Turns
from taskd_net.net.wire.socket_frames import Buffers


class Writer(Protocol):
    """A link that may have something to write."""

    def flush(self) -> None:
        """Write it, as far as the kernel takes it."""


class Flushes:
    """The direct links of one event loop that have something to write.

    Attributes:
        due: the links.
        reading: a socket is being read, and its end flushes.
        last: the frame that is being decided on is the last one of the read.
        buffers: what sockets write into that are read.
        large: the turns of large writes, without a rest in between: the kernel copies a part of one at a time.
        acknowledgements: of what was written.
        reads: the turns of reads.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.due: list[Writer] = []
        self.reading = self.last = False
        self.buffers = Buffers()
        self.large = Turns(LARGE_WRITES_AHEAD)
        self.acknowledgements = Acknowledgements(loop)
        self.reads = ReadTurns(loop)

    def add(self, link: Writer) -> None:
        """Flush a link at the end of the read, or in the next turn of the loop."""
        if not self.due and not self.reading:
            self._loop.call_soon(self.flush)
        self.due.append(link)

    def flush(self) -> None:
        """Let every link write that is due."""
        due, self.due = self.due, []
        for link in due:
            link.flush()


_FLUSHES: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, ref[Flushes]]] = WeakKeyDictionary()
"""By loop. The sockets and sessions hold them: they hold the loop, which would else never be freed."""


def flushes() -> Flushes:
    """The links of the running loop."""
    loop = asyncio.get_running_loop()
    known = _FLUSHES.get(loop)
    found = known() if known is not None else None
    if found is None:
        found = Flushes(loop)
        _FLUSHES[loop] = ref(found)
    return found
