"""StopTrainPlugin: stop or pause the training, and wait for ClusterD's decision.

```
          stopTrain                    globalFault: its actions
  free ─────────────▶ actions, hold ──────────────────────────────▶ free
    │                       │ changeStrategy, killMaster, any other signal, 30 minutes
    │                       └──────────────────────────────────────▶ free
    └── preExitProcess: 213, globalFault alone: its actions ───────▶ free
```

The original holds the stream for ever if ClusterD ends the matter without a signal, as its machine may. This one lets
go after `STOP_TRAIN_S`, and when the fault of Agent 0 is overdue, so that the job can be rescheduled.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar, Final

from taskd_net.job.decide.events import GLOBAL_FAULT, PRE_EXIT, STOP_TRAIN
from taskd_net.job.decide.plugins.actions import RECOVERY, carry_out
from taskd_net.job.decide.plugins.plugin import INFINITY, Progress, Recovery
from taskd_net.job.decide.snapshot import Snapshot
from taskd_net.job.decide.times import Timer

STOP_TRAIN_S: Final = 1800.0
"""Seconds after a stopTrain for which the recovery waits for ClusterD's next signal: twice the 15 minutes that ClusterD
itself waits for a report. Its machine may end without another signal."""

_OURS = (STOP_TRAIN, PRE_EXIT, GLOBAL_FAULT)


@dataclass
class Stopped:
    """State: the last signal that was carried out or seen, and until when a stopTrain holds the stream (0: none)."""

    done: str = ""
    until: Timer = 0.0


class StopTrain(Recovery[Stopped]):
    """Carry out stopTrain, globalFault and preExitProcess, each once. Signals of one fault may share a uuid."""

    name = "StopTrainPlugin"
    streams: ClassVar = {RECOVERY: 1}

    def __init__(self) -> None:
        super().__init__(Stopped())

    def wants(self, snapshot: Snapshot) -> Collection[str]:
        """The recovery stream, for a new signal."""
        signal = snapshot.signal
        return (RECOVERY,) if signal.signal_type in _OURS and signal.order != self.state.done else ()

    def step(self, stream: str, snapshot: Snapshot) -> Progress:
        """Carry out a new signal; hold after a stopTrain."""
        signal = snapshot.signal
        if signal.order != self.state.done:
            self.state.done = signal.order
            if signal.signal_type in _OURS:
                carry_out(self, snapshot)
            if signal.signal_type == STOP_TRAIN:
                self.state.until = snapshot.now + STOP_TRAIN_S
            elif signal.signal_type != PRE_EXIT:
                self.state.until = 0.0
        holds = snapshot.now < self.state.until and not snapshot.master_overdue
        return Progress.HOLD if holds else Progress.FINAL

    def release(self, stream: str) -> None:
        """Forget the hold."""
        self.state.until = 0.0

    def deadline(self, snapshot: Snapshot) -> float:
        """The end of the hold."""
        return self.state.until or INFINITY
