"""ElasticTrainingPlugin: run smaller (downgrade), and at full size again (upgrade).

```
          downgrade, upgrade                 faultNodesExit: its actions
  free ──────────────────────▶ actions, hold ◀───────┐
                                     │  └────────────┘
                                     │ any other signal
                                     └──────────────────▶ free
```

The original also holds the stream while a fault of Agent 0 goes unanswered. This one lets go when that is overdue.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from taskd_net.job.decide.events import FAULT_NODES_EXIT, Signal
from taskd_net.job.decide.plugins.actions import RECOVERY, carry_out
from taskd_net.job.decide.plugins.plugin import Progress, Recovery
from taskd_net.job.decide.snapshot import Snapshot


@dataclass
class Scaled:
    """State: the last signal that was carried out or seen."""

    done: str = ""


class ElasticTraining(Recovery[Scaled]):
    """Carry out downgrade and upgrade, each uuid once, and hold on until another order comes."""

    name = "ElasticTrainingPlugin"
    streams: ClassVar = {RECOVERY: 3}

    def __init__(self) -> None:
        super().__init__(Scaled())

    def wants(self, snapshot: Snapshot) -> Collection[str]:
        """The recovery stream, for a new downgrade or upgrade."""
        return (RECOVERY,) if _scales(snapshot.signal) and snapshot.signal.order != self.state.done else ()

    def step(self, stream: str, snapshot: Snapshot) -> Progress:
        """Carry out a new signal of ours; let go at any other."""
        signal = snapshot.signal
        ours = _scales(signal) or signal.signal_type == FAULT_NODES_EXIT
        if signal.order != self.state.done:
            self.state.done = signal.order
            if ours:
                carry_out(self, snapshot)
        return Progress.HOLD if ours and not snapshot.master_overdue else Progress.FINAL


def _scales(signal: Signal) -> bool:
    return signal.strategy in ("downgrade", "upgrade")
