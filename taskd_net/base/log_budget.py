"""A bound on log lines: what a peer sends can neither fill a disk nor rotate the lines about others out of the files.

Each event has a budget for every peer, and one for all peers together, so that ever new names gain nothing. A budget is
a burst that refills steadily. Lines beyond it are left out and counted; the next line of any event has the counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from taskd_net.base import limits

PEERS: Final = 8192
"""Events and peers with a budget of their own, above the children of a large parent. Beyond it all budgets begin again;
the bound on all peers together stays."""

_PEER = ("child", "src", "reporter", "parent", "peer", "agent", "position", "address", "upstream")
"""The fields that name the peer of an event; the first one counts."""

_ANSWERS: Final = ("call_failed",)
"""Events that answer the application's own calls: no peer causes them, and each call is promised its line."""


class LogBudget:
    """The budgets of one logger's events. Any thread may use it: a race costs or gives a line at most.

    Args:
        peers: as `PEERS`.
    """

    def __init__(self, peers: int = PEERS) -> None:
        self._peers = peers
        # The moment at which a budget is whole again, by event alone, and by event and peer.
        self._whole: dict[str, float] = {}
        self._whole_by_peer: dict[tuple[str, object], float] = {}
        self._left_out: dict[str, int] = {}

    def admit(self, now: float, event: Mapping[str, object], *, warns: bool) -> str | None:
        """Spend a line of an event's budgets.

        Args:
            now: seconds on a clock that never steps.
            event: the fields of the line.
            warns: True for levels from WARNING on. Their budget for all peers together is smaller.

        Returns:
            The lines left out since the last one, such as `violation 834`, empty for none; None: leave this one out.
        """
        name = str(event["event"])
        if name in _ANSWERS:
            return ""
        key = (name, next((event[field] for field in _PEER if field in event), None))
        by_peer = _spend(self._whole_by_peer.get(key, now), now, limits.LOG_PEER_LINES, limits.LOG_PEER_REFILL_S)
        lines = limits.LOG_WARNINGS if warns else limits.LOG_CHANGES
        by_all = _spend(self._whole.get(name, now), now, lines, limits.LOG_REFILL_S)
        if by_peer is None or by_all is None:
            self._left_out[name] = self._left_out.get(name, 0) + 1
            return None
        if len(self._whole_by_peer) >= self._peers:
            self._whole_by_peer = {}
        self._whole_by_peer[key], self._whole[name] = by_peer, by_all
        left_out, self._left_out = self._left_out, {}
        return ", ".join(f"{name} {count}" for name, count in left_out.items())


def _spend(whole: float, now: float, lines: int, refill_s: float) -> float | None:
    """Take one line: the moment at which the budget is whole again; None where nothing is left of it."""
    whole = max(whole, now) + refill_s
    return whole if whole - now <= lines * refill_s else None
