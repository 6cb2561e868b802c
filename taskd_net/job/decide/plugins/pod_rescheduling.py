"""PodReschedulingPlugin: a round that replaces the faulty nodes and restarts the others.

```
  no fault-recover value:
    an Agent ≠ 0 reports ranks ─▶ 203 to the faulty, 208 to the others, controller restart ─▶ hold
    RetryTime changed ──────────▶ 208 to all, controller restart ──────────────────────────▶ free
  with one:
    strategy exit ──────────────▶ 203 to nodeRankIds, 208 to the others, controller restart ─▶ hold

  hold ── an Agent ≠ 0 fails ───────────────────────────────────────────▶ 203 to it, hold
       ── Agent 0 fails, or a newer signal (with a value) ──────────────▶ free
       ── no Agent counts as faulty, and every 208 was taken ───────────▶ free
```

The original differs in four points that leave a job standing still or restart it for nothing:

- It compares RetryTime with 0 when it starts. The baseline here is the value at the first start, in the state,
  and then the value at the last restart of everybody, by this plugin or by another one.
- It never answers an Agent that fails after the decision. A report that is older than the 208 of its Agent is settled
  by that 208; a later one is answered in the round that is under way.
- It ends a node of ClusterD's round again that has come back meanwhile. Here that node restarts like the others.
- It forgets a command after five attempts. Here the round holds until the Agent has taken it or registers again.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from taskd_net.base import vocabulary
from taskd_net.job.decide import traffic
from taskd_net.job.decide.plugins.actions import RECOVERY, begin_round
from taskd_net.job.decide.plugins.plugin import Progress, Recovery
from taskd_net.job.decide.snapshot import Snapshot


@dataclass
class Round:
    """State.

    Args:
        order: uuid of the last exit that was carried out, and the last signal that the hold has seen.
        open: a round is under way.
    """

    order: str = ""
    open: bool = False


class PodRescheduling(Recovery[Round]):
    """Replace faulty nodes by way of the scheduler."""

    name = "PodReschedulingPlugin"
    streams: ClassVar = {RECOVERY: 4}

    def __init__(self) -> None:
        super().__init__(Round())

    def wants(self, snapshot: Snapshot) -> Collection[str]:
        """The recovery stream, for a fault, another RetryTime, or ClusterD's order."""
        if snapshot.config.supervises:
            return ()
        if snapshot.config.recovers:
            wanted = snapshot.signal.strategy == "exit" and snapshot.signal.uuid != self.state.order
        else:
            replaces = bool(_failed(snapshot)) and not snapshot.counts_as_faulty(0)
            wanted = replaces or snapshot.retries
        return (RECOVERY,) if wanted else ()

    def step(self, stream: str, snapshot: Snapshot) -> Progress:
        """Begin a round, or go on with it."""
        if not self.state.open:
            return self._begin(snapshot)
        if self._is_over(snapshot):
            self.decide(traffic.Retried())
            return Progress.FINAL
        for rank in _failed(snapshot):
            self.send(traffic.agent(rank), vocabulary.EXIT)
        return Progress.HOLD

    def release(self, stream: str) -> None:
        """The round is over."""
        self.state.open = False

    def _begin(self, snapshot: Snapshot) -> Progress:
        faulty: tuple[int, ...] = ()
        if snapshot.config.recovers:
            self.state.order = snapshot.signal.uuid
            faulty = tuple(node for node in snapshot.signal.node_rank_ids if not snapshot.was_replaced(node))
        elif not snapshot.counts_as_faulty(0):
            faulty = tuple(_failed(snapshot))
        begin_round(self, snapshot, faulty)
        self.state.open = snapshot.config.recovers or bool(faulty)
        return Progress.HOLD if self.state.open else Progress.FINAL

    def _is_over(self, snapshot: Snapshot) -> bool:
        """True where nobody counts as faulty, or somebody else has to decide."""
        if snapshot.config.recovers:
            signal = snapshot.signal
            if signal.uuid != self.state.order or snapshot.master_overdue:
                return True
        elif snapshot.needs_answer(0):
            return True
        return not snapshot.any_faulty


def _failed(snapshot: Snapshot) -> list[int]:
    """Agents other than 0 with an isolated device, or a fault that no restart on its way will settle."""
    found = snapshot.records.faulty | snapshot.records.to_replace
    return sorted(rank for rank in found if rank and snapshot.needs_answer(rank))
