"""Epochs of a training: which ranks take part, and the messages about it. Pure.

An *epoch* is a stretch of training by one set of processes, from the process group they form to its end. A Worker that
rejoins keeps its process from one epoch to the next.

```
  new process ──────────▶ NEW ──┐                     ┌── joined ──▶ RUNNING ──▶ FINISHED
                                ├─ EPOCH_BEGIN ─▶ CALLED                │
                        ┌─▶ LEFT ──┘                  └── it failed ──┐ │ a peer is gone, or EPOCH_END
                        └─────────────────────────────────────────────┴─┘
```

A Worker reports all but CALLED, which it has from the moment its Manager decides on the epoch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Protocol

from taskd_net.base.body import Body
from taskd_net.base.untrusted import natural
from taskd_net.base.vocabulary import EPOCH, EPOCH_STATE, LOCAL_WORLD, REASON, STATUS, WORLD

NEW: Final = "new"
LEFT: Final = "left"
CALLED: Final = "called"
RUNNING: Final = "running"
FINISHED: Final = "finished"

ENDED: Final = "the Manager has ended the epoch"
"""The reason of a Worker that has left for this; any other reason is a lost peer."""

_SAID: Final = frozenset((NEW, LEFT, RUNNING, FINISHED))
_MOST: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Part:
    """A Worker's part in the training.

    Args:
        phase: `NEW`, `LEFT`, `RUNNING` or `FINISHED`.
        epoch: the last one that this process was called to; 0 before the first.
        world: ranks of the job.
        local: ranks of the Worker's node.
    """

    phase: str
    epoch: int
    world: int
    local: int

    def report(self, reason: str = "") -> Body:
        """The Worker's report of it, with the reason for people."""
        numbers = {EPOCH: str(self.epoch), WORLD: str(self.world), LOCAL_WORLD: str(self.local)}
        return Body(STATUS, EPOCH_STATE, self.phase, numbers | ({REASON: reason} if reason else {}))


def read_part(message: str, extension: dict[str, str]) -> Part | None:
    """The part in a report; None for a report that cannot be read."""
    numbers = [natural(extension.get(key, ""), _MOST) for key in (EPOCH, WORLD, LOCAL_WORLD)]
    epoch, world, local = numbers
    if message not in _SAID or epoch is None or not world or not local:
        return None
    return Part(message, 0 if message == NEW else epoch, world, local)


class Member(Protocol):
    """The record of a Worker, as far as epochs go."""

    phase: str
    epoch: int


@dataclass(slots=True)
class Epochs:
    """The epochs of a job.

    Args:
        number: of the last epoch that was begun; 0 before the first.
        over: epochs up to this number have ended for good, with their processes.
        world, local: ranks of the job, and of a node; 0 before a Worker has said it.
        phases: number of Workers by phase.
    """

    number: int = 0
    over: int = 0
    world: int = 0
    local: int = 0
    phases: dict[str, int] = field(default_factory=dict)

    def take(self, member: Member, part: Part) -> None:
        """Take a Worker's report. One that is older than the last call, or of an epoch that is over, says nothing."""
        if part.epoch < member.epoch or (part.phase != NEW and part.epoch <= self.over):
            return
        self.world, self.local = part.world, part.local
        # A Manager without its state learns the number from the Workers, and gives none twice.
        self.number = max(self.number, part.epoch)
        self._enter(member, part.phase, part.epoch)

    def begin(self, number: int, members: Iterable[Member]) -> None:
        """Call every Worker to an epoch."""
        self.number = number
        for member in members:
            self._enter(member, CALLED, number)

    def end_all(self, members: Iterable[Member]) -> None:
        """A restart of all processes ends their epochs: none of them has a part any more."""
        self.over = self.number
        for member in members:
            self.drop(member)

    def drop(self, member: Member) -> None:
        """The process of a Worker has ended."""
        self._enter(member, "", 0)

    def all_in(self, *phases: str) -> bool:
        """True where every rank is in one of these phases."""
        return 0 < self.world == sum(self.phases.get(phase, 0) for phase in phases)

    def node_of(self, rank: int) -> int:
        """The node of a rank that has not registered, where all nodes have equally many."""
        return rank // self.local

    def _enter(self, member: Member, phase: str, epoch: int) -> None:
        for name, by in ((member.phase, -1), (phase, 1)):
            if name:
                self.phases[name] = self.phases.get(name, 0) + by
                if not self.phases[name]:
                    del self.phases[name]
        member.phase, member.epoch = phase, epoch
