"""JobReschedulingPlugin: end Agent 0, and so the whole job, for the scheduler to start it again.

```
  no fault-recover value:  Agent 0 reports ranks ──────────────┐
  with one:                killMaster, each one ──────────────┼─▶ 203 to Agent 0, controller destroy ─▶ free
                           a report of Agent 0 is 25 min old ──┘
```

The original repeats all that in each snapshot while killMaster is the last signal.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from taskd_net.base import vocabulary
from taskd_net.job.decide import traffic
from taskd_net.job.decide.events import KILL_MASTER
from taskd_net.job.decide.plugins.actions import RECOVERY
from taskd_net.job.decide.plugins.plugin import INFINITY, Progress, Recovery
from taskd_net.job.decide.snapshot import Snapshot


@dataclass
class Killed:
    """State: the last killMaster that was carried out."""

    done: str = ""


class JobRescheduling(Recovery[Killed]):
    """End the job where its first node cannot go on."""

    name = "JobReschedulingPlugin"
    streams: ClassVar = {RECOVERY: 5}
    ends_job = True

    def __init__(self) -> None:
        super().__init__(Killed())

    def wants(self, snapshot: Snapshot) -> Collection[str]:
        """The recovery stream, when the first node is to end."""
        if snapshot.config.supervises:
            return ()
        if snapshot.config.recovers:
            wanted = self._is_killed(snapshot) or snapshot.master_overdue
        else:
            wanted = snapshot.needs_answer(0)
        return (RECOVERY,) if wanted else ()

    def seizes(self, snapshot: Snapshot) -> Collection[str]:
        """The recovery stream, for a killMaster: its own stream of signals ends a moment later."""
        return (RECOVERY,) if snapshot.config.recovers and self._is_killed(snapshot) else ()

    def step(self, stream: str, snapshot: Snapshot) -> Progress:
        """End Agent 0."""
        if self._is_killed(snapshot):
            self.state.done = snapshot.signal.uuid
        self.send(traffic.agent(0), vocabulary.EXIT)
        self.call("destroy")
        return Progress.FINAL

    def deadline(self, snapshot: Snapshot) -> float:
        """The time at which a report of Agent 0 is too old."""
        return snapshot.master_overdue_at if snapshot.config.recovers else INFINITY

    def _is_killed(self, snapshot: Snapshot) -> bool:
        return snapshot.signal.signal_type == KILL_MASTER and snapshot.signal.uuid != self.state.done
