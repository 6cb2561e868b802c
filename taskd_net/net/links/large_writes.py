"""Turns of the large writes of a node: between two of them the event loop serves everybody else.

A batch is copied when it is made, and gRPC copies it when its write begins. A multicast of 8 MiB to many children would
so hold up the loop for as long as all its copies take. A large write begins when the loop has had the time of the ones
before for others; links take turns.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Final

from taskd_net.net.links.turns import Turns

LARGE_WRITE_BYTES: Final = 64 * 1024
"""Bytes from which on a write waits for its turn among the large writes of a node. Copying fewer takes some 20 µs."""

LARGE_WRITES_AHEAD: Final = 2 * 1024 * 1024
"""Bytes of large writes that begin together: some batches of 512 KiB, and no second message of 8 MiB. Copying as much
takes 1 to 4 ms."""

LARGE_WRITES_PER_S: Final = 1024 * 1024 * 1024
"""Bytes of large writes for each second in which the loop serves others: 8 ms after the 5 to 15 ms that copying 8 MiB
takes. A node that forwards 64 KiB bodies at full rate never waits."""


def large_writes(per_second: float = LARGE_WRITES_PER_S) -> Turns:
    """The turns of one node, with so many bytes for each second of rest."""
    return Turns(LARGE_WRITES_AHEAD, per_second)


class LargeWriter:
    """One writer of those who take turns.

    Args:
        turns: of its node.
        most_ahead: writes that the other end has not taken in, with which no further one begins.

    Attributes:
        held: its next write waits for its turn, or for the other end.
        far: it waits for the other end.
    """

    __slots__ = ("_come", "_most_ahead", "_turns", "far", "held")

    def __init__(self, turns: Turns, most_ahead: float = math.inf) -> None:
        self._turns = turns
        self._most_ahead = most_ahead
        self._come = False
        self.held = self.far = False

    def may_begin(self, size: int, wake: Callable[[], None], ahead: int = 0) -> bool:
        """Begin a large write of so many bytes, with `ahead` that the other end has not taken in.

        Returns False where it has to wait, until `come_nearer` or until `wake` is called.
        """
        if ahead >= self._most_ahead:
            self.held = self.far = True
            return False
        self.held = not (self._come or self._turns.begin(size, partial(self._turn_comes, wake)))
        self._come = False
        return not self.held

    def come_nearer(self, ahead: int) -> None:
        """The other end has taken in writes; `ahead` are left."""
        if ahead < self._most_ahead:
            self.held = self.far = False

    def _turn_comes(self, wake: Callable[[], None]) -> None:
        self.held, self._come = False, True
        wake()
