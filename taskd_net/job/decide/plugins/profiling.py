"""ProfilingPlugin: switch the Workers' profiling domains.

```
  free ── all Workers are registered, one is in another state, ─▶ 700, 701, 710 or 711 to all ─▶ free
          and the switch is new or was sent 30 s ago
```
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar, Final

from taskd_net.base import vocabulary
from taskd_net.job.decide import traffic
from taskd_net.job.decide.plugins.plugin import INFINITY, Plugin, Progress
from taskd_net.job.decide.snapshot import Snapshot
from taskd_net.job.decide.times import Timer
from taskd_net.job.profiling_domains import ProfilingSwitch

AGAIN_S: Final = 30.0
"""Seconds of other profiling states after which the switch is sent again, as with TaskD's Manager."""

STREAM = "ProfilingCollect"


@dataclass
class ProfilingOrdered:
    """State.

    Args:
        request: the wanted domains; None before anybody has said.
        ordered: the state that was ordered last; -1 for none.
        at: the time of that.
    """

    request: ProfilingSwitch | None = None
    ordered: int = -1
    at: Timer = 0.0


class Profiling(Plugin[ProfilingOrdered]):
    """Send the wanted domains until every Worker has reported them."""

    name = "ProfilingPlugin"
    streams: ClassVar = {STREAM: 1}
    takes = ProfilingSwitch

    def __init__(self) -> None:
        super().__init__(ProfilingOrdered())

    def wants(self, snapshot: Snapshot) -> Collection[str]:
        """The stream, when the switch is to be sent."""
        return (STREAM,) if self._due(snapshot) <= snapshot.now else ()

    def step(self, stream: str, snapshot: Snapshot) -> Progress:
        """Send the switch to all Workers."""
        assert self.state.request is not None
        self.state.ordered, self.state.at = self.state.request.state, snapshot.now
        self.send(traffic.ALL_WORKERS, vocabulary.PROFILING_COMMANDS.start + self.state.ordered)
        return Progress.FINAL

    def deadline(self, snapshot: Snapshot) -> float:
        """The time at which the switch is sent again."""
        return self._due(snapshot)

    def _due(self, snapshot: Snapshot) -> float:
        """The time at which to send the switch: at once, after a pause, or never."""
        switch, records, config = self.state.request, snapshot.records, snapshot.config
        workers = records.registered_workers
        if switch is None or not workers or workers < config.nodes * config.processes_per_node:
            return INFINITY
        if records.profiling.get(switch.state, 0) == workers:
            return INFINITY
        return snapshot.now if switch.state != self.state.ordered else self.state.at + AGAIN_S
