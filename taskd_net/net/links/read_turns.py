"""Turns of the links of one event loop in which received bytes are decided on.

A read is decided on at once, as long as the reads of one turn of the loop have not taken too long together, and none of
the same process waits. Other reads wait here, and so does what a link has left after its time. In each turn of the loop
the processes or addresses at the other ends take turns, for a bounded time. Of one process, the link with the fewest
bytes and the one that has waited longest go in turns. A batch that has begun is ended first. So one process with a
thousand links delays others by some turns of the loop, keeps one batch of messages here, and nothing is refused.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Final, Protocol

TURN_S: Final = 0.004
"""Seconds of batches of one direct link after which other links have their turn, and of the reads of all direct links
before the turn of the loop ends. One read may have 4,000 small messages: a flood delayed others by 0.3 s. A thousand
links that each had this time delayed them by 4 to 16 s."""

GAP_S: Final = 0.0005
"""Seconds without a read after which the loop has had other turns."""

_BEGUN: Final = -1
"""In the place of a size, for the rest of a batch. A thousand batches that have begun would hold as many messages."""


class Readable(Protocol):
    """A socket, or a stream of gRPC, with received bytes.

    Attributes:
        place: the process or the machine at the other end.
    """

    place: str

    def go_on(self) -> None:
        """Decide on some of them."""


class _Place:
    """The sockets of one process or machine that wait."""

    __slots__ = ("_by_age", "_by_size", "_smallest")

    def __init__(self) -> None:
        # The sockets that have waited longest come first.
        self._by_age: OrderedDict[Readable, int] = OrderedDict()
        # The same by the magnitude of their bytes.
        self._by_size: dict[int, OrderedDict[Readable, None]] = {}
        self._smallest = False

    def __bool__(self) -> bool:
        return bool(self._by_age)

    def add(self, socket: Readable, size: int) -> None:
        """Add a socket with so many bytes, or with the rest of a batch."""
        magnitude = self._by_age[socket] = _BEGUN if size == _BEGUN else size.bit_length()
        if magnitude == _BEGUN:
            self._by_age.move_to_end(socket, last=False)
        self._by_size.setdefault(magnitude, OrderedDict())[socket] = None

    def remove(self, socket: Readable) -> None:
        """Remove a socket."""
        magnitude = self._by_age.pop(socket)
        del self._by_size[magnitude][socket]
        if not self._by_size[magnitude]:
            del self._by_size[magnitude]

    def next(self) -> Readable:
        """The one with the rest of a batch; else the smallest and the oldest in turns."""
        self._smallest = not self._smallest
        return next(iter(self._by_size[min(self._by_size)] if self._smallest else self._by_age))


class ReadTurns:
    """The order of the reads.

    Args:
        loop: of the links.
        turn: seconds, as `TURN_S`.

    Attributes:
        turn: as given.
        waiting: the sockets whose bytes wait, each with its place.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, turn: float = TURN_S) -> None:
        self._loop = loop
        self.turn = turn
        # Seconds that the reads of this turn of the loop have taken, with the work that they have left to tasks.
        self._spent = 0.0
        self._until = 0.0
        self.waiting: dict[Readable, str] = {}
        self._places: OrderedDict[str, _Place] = OrderedDict()
        self._due = False

    def begin(self, place: str, now: float) -> bool:
        """True if a read may be decided on at once.

        Args:
            place: the process or the machine at the other end.
            now: in seconds.
        """
        if not self.waiting and now >= self._until:
            # Nothing was read for a while: the loop has had other turns.
            self._spent = 0.0
        return self._spent < self.turn and place not in self._places

    def ended(self, began: float, now: float, left: float = 0.0) -> None:
        """Count a read.

        Args:
            began: its time.
            now: the time after it.
            left: seconds of work that it has left to tasks.
        """
        self._spent += now - began + left
        self._until = now + GAP_S

    def wait(self, socket: Readable, size: int = _BEGUN) -> None:
        """Let a socket wait for its turn.

        Args:
            socket: it does not wait yet.
            size: bytes that wait. Without it the rest of a batch waits, before all others of the process.
        """
        name = self.waiting[socket] = socket.place
        place = self._places.get(name)
        if place is None:
            place = self._places[name] = _Place()
        place.add(socket, size)
        if not self._due:
            self._due = True
            self._loop.call_soon(self._serve)

    def drop(self, socket: Readable) -> None:
        """Forget a socket, if it waits."""
        name = self.waiting.pop(socket, None)
        if name is not None:
            place = self._places[name]
            place.remove(socket)
            if not place:
                del self._places[name]

    def _serve(self) -> None:
        self._spent = 0.0
        while self._places and self._spent < self.turn:
            name = next(iter(self._places))
            self._places.move_to_end(name)
            socket = self._places[name].next()
            self.drop(socket)
            socket.go_on()
        self._spent = 0.0
        self._due = bool(self._places)
        if self._due:
            self._loop.call_soon(self._serve)
