"""HotSwitchPlugin: prepare the switch to a spare node, and migrate to it.

```
  free ── hot-switch, or strategy migration: new signal or actions ─▶ its actions ─▶ free
```
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from taskd_net.job.decide.events import HOT_SWITCH
from taskd_net.job.decide.plugins.actions import RECOVERY, carry_out
from taskd_net.job.decide.plugins.plugin import Progress, Recovery
from taskd_net.job.decide.snapshot import Snapshot


@dataclass
class HotSwitched:
    """State: the last order that was carried out."""

    done: str = ""


class HotSwitch(Recovery[HotSwitched]):
    """Carry out a hot switch; one signal may come again with other actions."""

    name = "HotSwitchPlugin"
    streams: ClassVar = {RECOVERY: 6}

    def __init__(self) -> None:
        super().__init__(HotSwitched())

    def wants(self, snapshot: Snapshot) -> Collection[str]:
        """The recovery stream, for a changed signal or changed actions."""
        signal = snapshot.signal
        ours = signal.signal_type == HOT_SWITCH or signal.strategy == "migration"
        return (RECOVERY,) if ours and signal.order != self.state.done else ()

    def step(self, stream: str, snapshot: Snapshot) -> Progress:
        """Carry out the actions."""
        self.state.done = snapshot.signal.order
        carry_out(self, snapshot)
        return Progress.FINAL
