"""recoverPlugin: carry out the strategies retry, recover, dump and continue, and saveAndExit.

```
         retry, dump, continue:   controller ─────────────────────────────────────────▶ free
  free ─ recover:                 203 to nodeRankIds ─ all taken, or 15 s ─ controller ─▶ free
                                                     └ another fault's signal,
                                                       or the end of its stream ──▶ free
         recover in place:        controller, 209 with all faulty ranks ──────────────▶ free
         saveAndExit:             controller, 203 to nodeRankIds ─────────────────────▶ free
```
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import ClassVar

from taskd_net.job.decide.events import PRE_EXIT, SAVE_AND_EXIT, Signal
from taskd_net.job.decide.plugins.actions import IN_PLACE, RECOVERY, change_strategy, exit_nodes, restart_ranks
from taskd_net.job.decide.plugins.plugin import INFINITY, Progress, Recovery
from taskd_net.job.decide.snapshot import Snapshot
from taskd_net.job.decide.times import Timer

_STRATEGIES = ("retry", "recover", "dump", "continue")


@dataclass
class Recovering:
    """State: the last order that was carried out; the recovery whose controller waits for the 203s, and until when."""

    done: str = ""
    signal: Signal = field(default_factory=Signal)
    until: Timer = 0.0


class Recover(Recovery[Recovering]):
    """Carry out a recovery by process, each uuid and strategy once."""

    name = "recoverPlugin"
    streams: ClassVar = {RECOVERY: 2}

    def __init__(self) -> None:
        super().__init__(Recovering())

    def wants(self, snapshot: Snapshot) -> Collection[str]:
        """The recovery stream, for a new uuid or another strategy."""
        signal = snapshot.signal
        ours = signal.strategy in _STRATEGIES or signal.signal_type == SAVE_AND_EXIT
        return (RECOVERY,) if ours and _order(signal) != self.state.done else ()

    def step(self, stream: str, snapshot: Snapshot) -> Progress:
        """Carry out the order; a recovery waits for the faulty nodes to have their 203."""
        if not self.state.until:
            return self._begin(snapshot)
        signal = self.state.signal
        # A signal of another fault: ClusterD has forgotten the one that waits. A preExitProcess comes beside a round.
        if snapshot.signal.signal_type != PRE_EXIT and snapshot.signal.uuid != signal.uuid:
            return Progress.FINAL
        if snapshot.now < self.state.until and self._waits(snapshot):
            return Progress.HOLD
        change_strategy(self, signal)
        return Progress.FINAL

    def release(self, stream: str) -> None:
        """Forget the recovery that waited."""
        self.state.signal, self.state.until = Signal(), 0.0

    def deadline(self, snapshot: Snapshot) -> float:
        """The time at which the controller no longer waits for the 203s: at once where none is on its way."""
        if not self.state.until:
            return INFINITY
        return self.state.until if self._waits(snapshot) else snapshot.now

    def _waits(self, snapshot: Snapshot) -> bool:
        return any(snapshot.exiting(node) for node in self.state.signal.node_rank_ids)

    def _begin(self, snapshot: Snapshot) -> Progress:
        signal = snapshot.signal
        self.state.done = _order(signal)
        if signal.signal_type == SAVE_AND_EXIT:
            self.call("dump")
            exit_nodes(self, snapshot)
        elif signal.strategy == "recover" and IN_PLACE in signal.extra_params:
            change_strategy(self, signal)
            restart_ranks(self, snapshot)
        elif signal.strategy == "recover" and any(_is_owed(snapshot, node) for node in signal.node_rank_ids):
            self.state.signal, self.state.until = signal, snapshot.now + snapshot.config.exits_first_s
            exit_nodes(self, snapshot)
            return Progress.HOLD
        else:
            change_strategy(self, signal)
        return Progress.FINAL


def _is_owed(snapshot: Snapshot, node: int) -> bool:
    """True where the Agent of a node has not taken the 203 of this round."""
    return snapshot.exiting(node) or (node not in snapshot.records.exited and not snapshot.was_replaced(node))


def _order(signal: Signal) -> str:
    return f"{signal.uuid} {signal.signal_type} {signal.strategy}"
