"""OMSwitchNicPlugin: have all Workers switch their network cards.

```
  free ── new request ─▶ 204 to all Workers, hold ── all: switchOK ──────────────────────▶ reply true, free
                                                  └─ one: switchFail, dead, a new process;
                                                     204 lost; 120 minutes ──────────────▶ reply false, free
       ── new request, a Worker is dead ─────────────────────────────────────────────────▶ reply false, free
```

For a further request and a reset of ClusterD's see `operation`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import ClassVar

from taskd_net.base import vocabulary
from taskd_net.base.limits import SWITCH_NIC_S
from taskd_net.job.decide import traffic
from taskd_net.job.decide.events import PluginRequest
from taskd_net.job.decide.plugins.operation import Operating, Operation
from taskd_net.job.decide.records import WorkerRecord
from taskd_net.job.decide.snapshot import Snapshot
from taskd_net.job.decide.traffic import Command

UUID = vocabulary.SWITCH_NIC_UUID


@dataclass(frozen=True, slots=True)
class SwitchNic(PluginRequest):
    """ClusterD asks for a switch of network cards.

    Args:
        ranks: global ranks.
        ops: for each, whether it goes to the backup card.
    """

    ranks: tuple[int, ...] = ()
    ops: tuple[bool, ...] = ()

    @property
    def words(self) -> str:
        """The request in the history of decisions."""
        return f"ClusterD asks for a switch of cards of {len(self.ranks)} ranks"


@dataclass
class Switching(Operating):
    """State.

    Args:
        waiting: the process (`birth`) of each Worker whose answer is missing, by global rank.
        failed: one has failed.
    """

    request: SwitchNic = field(default_factory=SwitchNic)
    waiting: dict[int, int] = field(default_factory=dict)
    failed: bool = False


class SwitchNicPlugin(Operation[Switching]):
    """Switch the network cards, and tell ClusterD whether all Workers have done it."""

    name = "OMSwitchNicPlugin"
    streams: ClassVar = {"OMSwitchNicStream": 1}
    takes = SwitchNic
    pauses_training = True
    replies = "ReplySwitchNicResult"
    patience = SWITCH_NIC_S

    def __init__(self) -> None:
        super().__init__(Switching())

    def begin(self, snapshot: Snapshot) -> None:
        """204 to all Workers, unless one of them is dead."""
        state = self.state
        state.waiting = {rank: worker.birth for rank, worker in snapshot.records.workers.items()}
        state.failed = not state.waiting or not snapshot.failed_ranks.isdisjoint(state.waiting)
        if not state.failed:
            extension = {
                UUID: state.uuid,
                vocabulary.SWITCH_RANKS: json.dumps([str(rank) for rank in state.request.ranks]),
                vocabulary.SWITCH_OPS: json.dumps(list(state.request.ops)),
            }
            self.send(traffic.ALL_WORKERS, vocabulary.SWITCH_NIC, extension=extension)

    def look(self, rank: int, worker: WorkerRecord, snapshot: Snapshot) -> None:
        """Take a Worker's answer; that of another process is none."""
        state = self.state
        if rank not in state.waiting:
            return
        answer = worker.reports.get(f"{vocabulary.ACTION}/{vocabulary.SWITCH_NIC}")
        if worker.birth != state.waiting[rank]:
            state.failed = True
        elif answer is not None and answer.extension.get(UUID) == state.uuid:
            del state.waiting[rank]
            state.failed = state.failed or answer.message != "switchOK"

    def result(self, snapshot: Snapshot) -> bool | None:
        """True as soon as all have switched; False as soon as one has failed, or is late."""
        state = self.state
        state.failed = state.failed or not snapshot.failed_ranks.isdisjoint(state.waiting)
        if state.failed or snapshot.now >= state.until or not state.waiting:
            return not state.failed and not state.waiting
        return None

    def lost(self, command: Command, snapshot: Snapshot) -> bool:
        """A Worker that cannot be reached has failed."""
        self.state.failed = self.state.failed or command.extension[UUID] == self.state.uuid
        return False
