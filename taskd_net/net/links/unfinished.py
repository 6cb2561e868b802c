"""The account of messages that have not come whole, of all peers of a node: frames of direct links, and calls of gRPC.

A whole frame counts in the quotas of the Router. Before, its bytes count here. Beyond a first bound, frames that stand
still end their links as others grow. Beyond the last bound any frame may: the one longest without a byte, of the
address that holds the most. So one process with many links pays first, and a sender that goes on pays last.

Nothing here does I/O, and time is an argument.
"""

from __future__ import annotations

from typing import Final, Generic, Protocol, TypeVar

PART: Final = 8
"""The buffers of unfinished frames of all children have at most `Limits.total_bytes`, as the whole messages that wait:
by default 32 of the largest at a time, or 1,000 of 256 KiB. Beyond this part of it, 32 MiB, a frame that stands still
ends its link, if another one grows. 5,000 heads without a body take 20 MiB."""

STILL_S: Final = 1.0
"""Seconds without a byte after which an unfinished frame stands still. A machine without packet loss resends after 0.2
s; a process that is stopped, or holds its interpreter, loses its link only if the memory is needed."""

ENDS: Final = 16
"""Links that end in one go for that part: each end takes their parent some 0.3 ms."""

L = TypeVar("L")


class Receiver(Protocol):
    """A link or a call whose message has not come whole."""

    def give_way(self) -> None:
        """End: others need the memory. It is in the account no more."""


class _Place(Generic[L]):
    """The unfinished frames of one address.

    Attributes:
        frames: the size and the last byte's time of each, longest without a byte first.
        size: bytes of all.
    """

    __slots__ = ("frames", "size")

    def __init__(self) -> None:
        self.frames: dict[L, tuple[int, float]] = {}
        self.size = 0

    def remove(self, link: L) -> int:
        """Remove a frame. Returns its bytes; 0 where it is not here."""
        size, _ = self.frames.pop(link, (0, 0.0))
        self.size -= size
        return size

    @property
    def longest(self) -> float:
        """The time of the last byte of the frame that has gone longest without one."""
        return next(iter(self.frames.values()))[1]


class Unfinished(Generic[L]):
    """Bytes of unfinished frames: of each link, of each address, of all.

    Args:
        most: bytes of all, at most. Beyond a part of them, frames that stand still end their links.

    Attributes:
        size: bytes of all.
    """

    def __init__(self, most: int) -> None:
        self._bound = most // PART
        self._most = most
        self._places: dict[str, _Place[L]] = {}
        self.size = 0

    def hold(self, link: L, place: str, size: int, now: float) -> list[L]:
        """Count a frame of which bytes have come.

        Args:
            link: its link; a link has one unfinished frame.
            place: the address of the other end.
            size: bytes of its buffer, with those that were counted before.
            now: in seconds.

        Returns:
            The links that end, so that the bounds hold. They are counted no more.
        """
        held = self._places.get(place)
        if held is None:
            held = self._places[place] = _Place()
        grown = size - held.remove(link)
        held.frames[link] = size, now
        held.size += size
        self.size += grown
        ended: list[L] = []
        while grown > 0 and self.size > self._bound:
            if self.size <= self._most and len(ended) == ENDS:
                break
            longest = self._longest(now - STILL_S)
            if longest is None:
                break
            ended.append(next(iter(self._places[longest].frames)))
            self.release(ended[-1], longest)
        return ended

    def release(self, link: L, place: str) -> None:
        """Count a frame no more: it is whole, or its link has ended."""
        held = self._places.get(place)
        if held is not None:
            self.size -= held.remove(link)
            if not held.frames:
                del self._places[place]

    def _longest(self, still: float) -> str | None:
        """The address whose frame pays; None if all frames go on, and the last bound holds.

        Args:
            still: frames without a byte since this time stand still.
        """
        places = [place for place, held in self._places.items() if held.longest <= still]
        if not places and self.size > self._most:
            places = list(self._places)
        return max(places, key=lambda place: self._places[place].size, default=None)
