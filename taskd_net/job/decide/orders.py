"""ClusterD's orders, each taken once: ClusterD may send a signal again, and one fault's signals may share a uuid."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from taskd_net.job.decide.events import GLOBAL_FAULT, KILL_MASTER, Signal
from taskd_net.job.decide.plain import UNSTORED

ORDERS_KEPT: Final = 512
"""Orders of ClusterD that a client remembers, so that none is carried out twice: a fault has some ten."""


@dataclass(slots=True)
class Orders:
    """The last orders that were taken, oldest first.

    An order is one action of a signal, by uuid, type and strategy: a fault's signals may share a uuid, and a signal may
    come again with further actions or another strategy.

    Args:
        taken: their keys.
        changed: since they were last taken out for storing.
    """

    taken: list[str] = field(default_factory=list)
    changed: bool = field(default=False, compare=False, metadata=UNSTORED)

    def fresh(self, signal: Signal) -> Signal | None:
        """Take a signal.

        A killMaster has the uuid of the exit before it, or none, and a hot switch never has one. Each is a new order.

        Returns:
            The signal with those of its actions that are new; None where none is, and for the globalFault of a round
            that ClusterD has reset.
        """
        if signal.is_ghost:
            return None
        if signal.signal_type == KILL_MASTER or not signal.uuid:
            return signal
        head = f"{signal.uuid} {signal.signal_type} {signal.strategy} "
        new = [action for action in signal.actions or ("",) if head + action not in self.taken]
        if not new:
            return None
        self.changed = True
        self.taken += (head + action for action in new)
        del self.taken[:-ORDERS_KEPT]
        return replace(signal, actions=tuple(new)) if signal.actions else signal

    def decide_again(self) -> None:
        """Forget the last globalFault: after a retry that has failed (405), ClusterD sends another of that uuid."""
        heads = [key.split(" ")[:2] for key in self.taken]
        last = next((head for head in reversed(heads) if head[1] == GLOBAL_FAULT), None)
        self.taken = [key for key, head in zip(self.taken, heads, strict=True) if head != last]
        self.changed = True
