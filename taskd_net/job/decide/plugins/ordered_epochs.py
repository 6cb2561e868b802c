"""EpochPlugin: the epochs of a training whose recovery ClusterD decides.

```
  every rank waits in a new process ────────────────────────────▶ EPOCH_BEGIN to all
  stopTrain ────────────────────────────────────────────────────▶ EPOCH_END to the Workers that run
     after --in-place-timeout, Workers that run still ──────────▶ 209 for them, once
  changeStrategy recover or continue ── every rank waits ───────▶ EPOCH_BEGIN to all, once
     a rank that ClusterD does not restart, or has restarted, is dead ─▶ 209 for it, once more
     a second time, or after EPOCH_BEGIN ───────────────────────▶ the strategy has failed
```

ClusterD names the ranks of a round with globalFault, and hears of no later ones, so the Manager restarts these.

It has a stream of its own, because the plugins of the recovery hold theirs meanwhile. Without ClusterD the epochs are
InPlacePlugin's.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import ClassVar

from taskd_net.job.decide import epochs
from taskd_net.job.decide.events import GLOBAL_FAULT, STOP_TRAIN
from taskd_net.job.decide.plugins.actions import (
    begin_epoch,
    dead,
    end_epoch,
    fallen,
    is_inside,
    is_last_begin,
    restart,
)
from taskd_net.job.decide.plugins.plugin import INFINITY, Plugin, Progress
from taskd_net.job.decide.plugins.stop_train import STOP_TRAIN_S
from taskd_net.job.decide.snapshot import Snapshot
from taskd_net.job.decide.times import Timer
from taskd_net.job.decide.traffic import Command

EPOCHS = "EpochStream"
_GOES_ON = ("recover", "continue")


@dataclass
class Ordered:
    """State.

    Args:
        ended: the last stopTrain that was carried out.
        until: the end of its patience; 0 without one.
        leave: the time by which Workers have to leave their epoch; 0 for none that have to.
        begun: the last strategy whose epoch was begun.
        seen: the last strategy in which a rank was dead.
        restarted: ranks that were sent another 209 in it.
        failed: the last strategy that has failed.
    """

    ended: str = ""
    until: Timer = 0.0
    leave: Timer = 0.0
    begun: str = ""
    seen: str = ""
    restarted: list[int] = field(default_factory=list)
    failed: str = ""


class OrderedEpochs(Plugin[Ordered]):
    """End and begin epochs at ClusterD's orders, where the Manager is to recover in place."""

    name = "EpochPlugin"
    streams: ClassVar = {EPOCHS: 1}

    def __init__(self) -> None:
        super().__init__(Ordered())

    def wants(self, snapshot: Snapshot) -> Collection[str]:
        """The stream of epochs, for an order, and for processes that can start."""
        if not (snapshot.config.in_place and snapshot.config.recovers):
            return ()
        due = self._ends(snapshot) or self._is_late(snapshot) or self._can_begin(snapshot)
        return (EPOCHS,) if due or self._is_broken(snapshot) else ()

    def step(self, stream: str, snapshot: Snapshot) -> Progress:
        """Carry the order out."""
        signal = snapshot.signal
        if self._ends(snapshot):
            self.state.ended, self.state.until = signal.order, snapshot.now + STOP_TRAIN_S
            told = end_epoch(self, snapshot, dead(snapshot), "ClusterD stops the training")
            self.state.leave = snapshot.now + snapshot.config.in_place_s if told else 0.0
        elif self._is_late(snapshot):
            self.state.leave = 0.0
            self._restart(snapshot)
        elif self._is_broken(snapshot):
            self._mend(snapshot)
        else:  # every rank waits
            ordered = signal.strategy in _GOES_ON
            self.state.begun = signal.order if ordered else self.state.begun
            self.state.leave = 0.0
            new = snapshot.records.epochs.all_in(epochs.NEW) and not ordered
            begin_epoch(self, snapshot, "start" if new else f"ClusterD orders {signal.strategy}")
        return Progress.FINAL

    def deadline(self, snapshot: Snapshot) -> float:
        """The end of the patience after a stopTrain: with Workers that run, and while new processes wait."""
        waits = self._holds(snapshot) and snapshot.records.epochs.all_in(epochs.NEW)
        return min(self.state.leave or INFINITY, self.state.until if waits else INFINITY)

    def lost(self, command: Command, snapshot: Snapshot) -> bool:
        """A Worker needs the beginning of the last epoch, however long it takes."""
        return is_last_begin(command, snapshot)

    def _ends(self, snapshot: Snapshot) -> bool:
        """True for a stopTrain that was not carried out."""
        signal = snapshot.signal
        return signal.signal_type == STOP_TRAIN and signal.order != self.state.ended

    def _is_late(self, snapshot: Snapshot) -> bool:
        """True where Workers have had their time to leave."""
        return 0.0 < self.state.leave <= snapshot.now

    def _restart(self, snapshot: Snapshot) -> None:
        """209 for the Workers that run still, but for those that ClusterD has restarted."""
        workers, gone = snapshot.records.workers, dead(snapshot) | snapshot.signal.fault_ranks.keys()
        stuck = {rank: each.node for rank, each in workers.items() if is_inside(each) and rank not in gone}
        for node in sorted(set(stuck.values())):
            restart(self, node, {rank for rank, its in stuck.items() if its == node})

    def _is_broken(self, snapshot: Snapshot) -> bool:
        """True where the strategy that is under way needs another restart, or cannot succeed."""
        signal, state = snapshot.signal, self.state
        if signal.strategy not in _GOES_ON or signal.order == state.failed:
            return False
        has_left = signal.order == state.begun and epochs.LEFT in snapshot.records.epochs.phases
        return has_left or bool(fallen(snapshot))

    def _mend(self, snapshot: Snapshot) -> None:
        """209 for dead ranks, once more; the strategy has failed where that is no help."""
        state, order, dead_ranks = self.state, snapshot.signal.order, fallen(snapshot)
        if state.seen != order:
            # The signal's own 209s leave in this tick.
            state.seen, state.restarted = order, []
        elif order == state.begun or any(rank in state.restarted for ranks in dead_ranks.values() for rank in ranks):
            state.failed = order
        else:
            for node, ranks in dead_ranks.items():
                restart(self, node, ranks)
                state.restarted += sorted(ranks)

    def _can_begin(self, snapshot: Snapshot) -> bool:
        """True where every rank waits for what may begin now."""
        known, signal, workers = snapshot.records.epochs, snapshot.signal, snapshot.records.workers
        if signal.strategy in _GOES_ON and signal.order != self.state.begun:
            # A faulty rank that lives has left, too, before its process is replaced.
            replaced = all(workers[rank].phase == epochs.NEW for rank in signal.fault_ranks if rank in workers)
            return replaced and known.all_in(epochs.NEW, epochs.LEFT)
        return known.all_in(epochs.NEW) and not self._holds(snapshot)

    def _holds(self, snapshot: Snapshot) -> bool:
        """True between a stopTrain and the decision on a strategy."""
        signal = snapshot.signal
        return signal.signal_type in (STOP_TRAIN, GLOBAL_FAULT) and snapshot.now < self.state.until
