"""Operations that ClusterD orders, and waits for: what a switch of cards and a stress test have in common.

```
  free ── new request ─▶ begin, hold ── the result is known ─▶ reply, free
                                     └─ another request ─────▶ free
```

ClusterD waits for one operation of a kind at a time: a further request says that it waits for this one no longer.
After ClusterD's reset an operation goes on, since Workers are busy with it, and nobody gets a reply.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import ClassVar, TypeVar

from taskd_net.job.decide.events import PluginRequest
from taskd_net.job.decide.plugins.plugin import INFINITY, Plugin, Progress
from taskd_net.job.decide.records import WorkerRecord
from taskd_net.job.decide.snapshot import Snapshot
from taskd_net.job.decide.times import Timer


@dataclass
class Operating:
    """State of an operation.

    Args:
        request: the last one; one without a uuid after ClusterD's reset.
        uuid: of the last request that was begun.
        until: end of the patience; 0 when no operation is under way.
    """

    request: PluginRequest = field(default_factory=PluginRequest)
    uuid: str = ""
    until: Timer = 0.0


S = TypeVar("S", bound=Operating)


class Operation(Plugin[S]):
    """A plugin that has Workers carry out what ClusterD orders.

    Attributes:
        replies: ClusterD's call that takes the result.
        patience: seconds from the begin until the Workers that have not answered have failed.
    """

    takes: ClassVar[type[PluginRequest]]
    replies: ClassVar[str]
    patience: ClassVar[float]

    @abstractmethod
    def begin(self, snapshot: Snapshot) -> None:
        """Send the commands of `state.request`."""

    @abstractmethod
    def look(self, rank: int, worker: WorkerRecord, snapshot: Snapshot) -> None:
        """Take the report of a Worker that has changed."""

    @abstractmethod
    def result(self, snapshot: Snapshot) -> object | None:
        """The result for ClusterD, as a JSON value; None while it is not known. Called in each step."""

    def wants(self, snapshot: Snapshot) -> Collection[str]:
        """The stream, for a new request."""
        return self.streams if self._is_new else ()

    def step(self, stream: str, snapshot: Snapshot) -> Progress:
        """Begin, look at reports, and reply as soon as the result is known."""
        state = self.state
        if not state.until:
            state.uuid, state.until = state.request.uuid, snapshot.now + self.patience
            self.begin(snapshot)
        elif self._is_new:
            return Progress.FINAL
        else:
            for rank in snapshot.records.changed_workers:
                self.look(rank, snapshot.records.workers[rank], snapshot)
        if (result := self.result(snapshot)) is None:
            return Progress.HOLD
        if state.request.uuid:
            self.reply(self.replies, json.dumps(result))
        return Progress.FINAL

    def release(self, stream: str) -> None:
        """The operation is over."""
        self.state = type(self.state)(self.state.request, self.state.uuid)

    def deadline(self, snapshot: Snapshot) -> float:
        """The end of the patience."""
        return self.state.until or INFINITY

    def clusterd_forgets(self) -> bool:
        """Nobody waits for the reply any more."""
        had, self.state.request = bool(self.state.request.uuid), self.takes()
        return had

    @property
    def _is_new(self) -> bool:
        return self.state.request.uuid not in ("", self.state.uuid)
