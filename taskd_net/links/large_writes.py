"""Turns of the large writes of a node: between two of them the event loop serves everybody else.

A batch is copied when it is made, and gRPC copies it when its write begins. A multicast of 8 MiB to many children would
so hold up the loop for as long as all its copies take. A large write begins when the loop has had the time of the ones
before for others; links take turns.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from taskd_net.limits import LARGE_WRITES_AHEAD, LARGE_WRITES_PER_S
from taskd_net.links.turns import Turns


def large_writes() -> Turns:
    """The turns of one node."""
    return Turns(LARGE_WRITES_AHEAD, LARGE_WRITES_PER_S)


class LargeWriter:
    """One writer of those who take turns.

    Args:
        turns: of its node.

    Attributes:
        held: its next write waits for its turn.
    """

    __slots__ = ("_come", "_turns", "held")

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._come = False
        self.held = False

    def may_begin(self, size: int, wake: Callable[[], None]) -> bool:
        """Begin a large write of so many bytes. Returns False where it has to wait, until `wake` is called."""
        self.held = not (self._come or self._turns.begin(size, partial(self._turn_comes, wake)))
        self._come = False
        return not self.held

    def _turn_comes(self, wake: Callable[[], None]) -> None:
        self.held, self._come = False, True
        wake()
