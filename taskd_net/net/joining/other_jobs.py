"""Refused peers of other jobs. Each of them asks again for as long as it runs, and that is news once."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

NEWS_S: Final = 600.0
"""Seconds from one line about a peer of another job to the next: an operator who looks today finds a line of today."""

PEERS: Final = 1024
"""Peers that are remembered: those of a large job with a wrong address. Beyond it the oldest one is news again."""


class OtherJobs:
    """The peers of other jobs that one parent has refused lately."""

    def __init__(self) -> None:
        self._last: dict[Hashable, float] = {}

    def is_news(self, now: float, peer: Hashable) -> bool:
        """True for a peer that was not refused within `NEWS_S`, or not told of since."""
        last = self._last.get(peer)
        if last is not None and now - last < NEWS_S:
            return False
        self._last.pop(peer, None)
        if len(self._last) >= PEERS:
            del self._last[next(iter(self._last))]
        self._last[peer] = now
        return True
