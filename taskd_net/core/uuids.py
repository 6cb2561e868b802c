"""The uuids of this package's own messages.

    tn1-<incarnation>-<flow>-<number>-<noise>

- The incarnation is 64 random bits, drawn once in a node's life: a restarted sender never repeats a uuid.
- The flow stands for a destination, the number counts its messages from 1. A receiver remembers which numbers of a
  flow it has, in a bit for each (`seen`), so it knows a resend among millions of other messages.
- The noise is 64 unpredictable bits, so nobody can put a uuid in flight before its message exists.

To everybody else such a uuid is a text like any other. Source: docs/contract.md, section 5.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from taskd_net.base.position import Position

UUID_FLOWS: Final = 65_536
"""Destinations whose messages a sender numbers one by one: every node of a large job. Beyond it all begin again with
new flows, which costs receivers some memory and nothing else."""

_MARK: Final = "tn1-"
_NOISE: Final = 16
"""Characters of the noise: 64 bits in hexadecimal digits."""


class Uuids:
    """The uuids that one node gives to its messages.

    Args:
        incarnation: 16 hexadecimal digits that no other life of a node has.
        noise: draws so many random bytes.
    """

    def __init__(self, incarnation: str, noise: Callable[[int], bytes]) -> None:
        self._head = f"{_MARK}{incarnation}-"
        self._draw = noise
        self._noise: list[str] = []
        self._last_flow = 0
        self._flows: dict[Position | None, _Flow] = {}

    def next(self, dst: Position | None) -> str:
        """The uuid of a new message to `dst`, as the sender writes it; None for one that no inbox ever gets."""
        if dst is not None and ("," in dst.server_rank or "," in dst.process_rank):
            # Each list may differ from the one before: a flow for each would cost its receivers a record for each.
            dst = None
        flow = self._flows.get(dst)
        if flow is None:
            flow = self._open(dst)
        flow.number += 1
        if not self._noise:
            drawn = self._draw(256 * _NOISE // 2).hex()
            self._noise = [drawn[at : at + _NOISE] for at in range(0, len(drawn), _NOISE)]
        return f"{flow.head}{flow.number:x}-{self._noise.pop()}"

    def _open(self, dst: Position | None) -> _Flow:
        if len(self._flows) >= UUID_FLOWS:
            # Flows are never opened twice: the destinations that come again get new ones.
            self._flows.clear()
        self._last_flow += 1
        flow = self._flows[dst] = _Flow(f"{self._head}{self._last_flow:x}-")
        return flow


@dataclass(slots=True, eq=False)
class _Flow:
    head: str
    number: int = 0


def split(uuid: str) -> tuple[str, int] | None:
    """The flow, as text with the incarnation, and the number of a uuid of this form; None for any other.

    A text that only looks like one may come out as a flow of its sender's own: it means nothing to anybody else's.
    """
    if uuid[:4] != _MARK or uuid[-17:-16] != "-":
        return None
    head, _, number = uuid[:-17].rpartition("-")
    try:
        return head, int(number, 16)
    except ValueError:
        return None
