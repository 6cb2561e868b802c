"""A leader's view of its lease and of its children, from one look to the next: pure.

A leader that is cut off from etcd does not learn that another one leads. So its children look for that one now and
then, and find none where all of etcd is away. One that is cut off from its children leaves them to another one, which
may reach them.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

UNSURE_S: Final = 20.0
"""Seconds without a confirmed lease after which a leader sends its children to look for another one, and twice as many
before the next time.
An etcd that restarts takes less, and the mesh's traffic is not touched."""

ALONE_S: Final = 10.0
"""Seconds without any child after which a leader that has had one leaves the job to a standby, which may reach them.
Children of a network that has healed, or of a Mgr that was stopped for a moment, are back sooner."""


class LeaderStep(Enum):
    """The consequence of a look."""

    GO_ON = auto()
    STAND_BY = auto()
    """Another Manager leads, and the children belong to it."""
    SEND_ELSEWHERE = auto()
    """The lease has been unclear for long: the children look for another Manager, and come back if there is none."""
    RESIGN = auto()
    """All children are gone: another Manager may reach them."""


class Outlook:
    """One term of a leader.

    Args:
        unsure, alone: the seconds of `UNSURE_S` and `ALONE_S`.
    """

    def __init__(self, unsure: float = UNSURE_S, alone: float = ALONE_S) -> None:
        self._unsure_s, self._alone_s = unsure, alone
        # Time at which it had children last; None before the first one.
        self._seen: float | None = None
        self._unsure: float | None = None
        self._patience = unsure

    def look(self, now: float, *, children: bool, decides: bool, lost: bool) -> tuple[LeaderStep, float]:
        """Look once.

        Args:
            now: the time, in seconds.
            children: it has some.
            decides: nobody else can lead.
            lost: another Manager leads, or has led.

        Returns:
            The step, and the seconds for which its cause has lasted.
        """
        if children:
            self._seen = now
        elif decides and self._seen is not None and now - self._seen >= self._alone_s:
            return LeaderStep.RESIGN, now - self._seen
        if lost:
            return LeaderStep.STAND_BY, 0.0
        if decides:
            self._unsure, self._patience = None, self._unsure_s
        elif self._unsure is None:
            self._unsure = now
        elif now - self._unsure >= self._patience:
            self._patience *= 2
            return LeaderStep.SEND_ELSEWHERE, now - self._unsure
        return LeaderStep.GO_ON, 0.0
