"""OMSwitchNicPlugin: have all Workers switch their network cards.

```
  free ── new request ─▶ 204 to all Workers, hold ── all: switchOK ──────────────────────▶ reply true, free
                                                  └─ one: switchFail, dead, a new process;
                                                     204 lost; 120 minutes ──────────────▶ reply false, free
       ── new request, a Worker is dead ─────────────────────────────────────────────────▶ reply false, free
                                   another request ───────────────────────────────────────▶ free
```

ClusterD waits for one switch at a time: a further request says that it waits for this one no longer. After its reset
the Workers still switch, and nobody gets a reply.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import ClassVar

from taskd_net.base import vocabulary
from taskd_net.base.limits import SWITCH_NIC_S
from taskd_net.job.decide import traffic
from taskd_net.job.decide.plugins.plugin import INFINITY, Plugin, Progress
from taskd_net.job.decide.records import WorkerRecord
from taskd_net.job.decide.snapshot import Snapshot
from taskd_net.job.decide.times import Timer
from taskd_net.job.decide.traffic import Command

STREAM = "OMSwitchNicStream"
UUID = vocabulary.SWITCH_NIC_UUID


@dataclass
class Switching:
    """State.

    Args:
        uuid: of the last request that was begun.
        until: end of the patience; 0 when no switch is under way.
        waiting: the process (`birth`) of each Worker whose answer is missing, by global rank.
        failed: one has failed.
    """

    uuid: str = ""
    until: Timer = 0.0
    waiting: dict[int, int] = field(default_factory=dict)
    failed: bool = False


class SwitchNicPlugin(Plugin[Switching]):
    """Switch the network cards, and tell ClusterD whether all Workers have done it."""

    name = "OMSwitchNicPlugin"
    streams: ClassVar = {STREAM: 1}

    def __init__(self) -> None:
        super().__init__(Switching())

    def wants(self, snapshot: Snapshot) -> Collection[str]:
        """The stream, for a new request."""
        return (STREAM,) if snapshot.switch_nic.uuid not in ("", self.state.uuid) else ()

    def step(self, stream: str, snapshot: Snapshot) -> Progress:
        """Send the command, and wait for the answers."""
        state = self.state
        if state.until and snapshot.switch_nic.uuid not in ("", state.uuid):
            return Progress.FINAL
        if not state.until:
            self._begin(snapshot)
        else:
            for rank in snapshot.records.changed_workers & state.waiting.keys():
                self._look(rank, snapshot.records.workers[rank])
            state.failed = state.failed or not snapshot.failed_ranks.isdisjoint(state.waiting)
        if state.failed or snapshot.now >= state.until or not state.waiting:
            if snapshot.switch_nic.uuid:
                self.reply("ReplySwitchNicResult", json.dumps(not state.failed and not state.waiting))
            return Progress.FINAL
        return Progress.HOLD

    def release(self, stream: str) -> None:
        """The switch is over."""
        self.state = Switching(self.state.uuid)

    def deadline(self, snapshot: Snapshot) -> float:
        """The end of the patience."""
        return self.state.until or INFINITY

    def lost(self, command: Command, snapshot: Snapshot) -> bool:
        """A Worker that cannot be reached has failed."""
        self.state.failed = self.state.failed or command.extension[UUID] == self.state.uuid
        return False

    def _begin(self, snapshot: Snapshot) -> None:
        request, state = snapshot.switch_nic, self.state
        state.uuid, state.until = request.uuid, snapshot.now + SWITCH_NIC_S
        state.waiting = {rank: worker.birth for rank, worker in snapshot.records.workers.items()}
        state.failed = not state.waiting or not snapshot.failed_ranks.isdisjoint(state.waiting)
        if not state.failed:
            extension = {
                UUID: request.uuid,
                vocabulary.SWITCH_RANKS: json.dumps([str(rank) for rank in request.ranks]),
                vocabulary.SWITCH_OPS: json.dumps(list(request.ops)),
            }
            self.send(traffic.ALL_WORKERS, vocabulary.SWITCH_NIC, extension=extension)

    def _look(self, rank: int, worker: WorkerRecord) -> None:
        answer = worker.reports.get(f"{vocabulary.ACTION}/{vocabulary.SWITCH_NIC}")
        if worker.birth != self.state.waiting[rank]:
            self.state.failed = True
        elif answer is not None and answer.extension.get(UUID) == self.state.uuid:
            del self.state.waiting[rank]
            self.state.failed = self.state.failed or answer.message != "switchOK"
