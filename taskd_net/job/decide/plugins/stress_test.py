"""OMStressTestPlugin: have the named Workers run a stress test.

```
  free ── new request ─▶ 205 to each named Worker, hold ── all have a result, or 15 minutes ─▶ reply, free

  result of a Worker:  its answer          as it gave it
                       silent: 3 s or 30 snapshots without KEEP_ALIVE, the 15 minutes are over,
                       or it took no 205                                                            3 (timeout)
                       not registered, a new process, an answer that cannot be read                 1 (execution failed)
```

After 1 ClusterD has the training go on; after 3 the rank is faulty. A Worker that hangs takes no 205, so it answers 3.
For a further request and a reset of ClusterD's see `operation`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import ClassVar, Final

from taskd_net.base import vocabulary
from taskd_net.base.limits import STRESS_TEST_S
from taskd_net.base.position import Position
from taskd_net.base.untrusted import json_value
from taskd_net.job.decide import traffic
from taskd_net.job.decide.events import PluginRequest
from taskd_net.job.decide.plugins.operation import Operating, Operation
from taskd_net.job.decide.plugins.plugin import INFINITY
from taskd_net.job.decide.records import WorkerRecord
from taskd_net.job.decide.snapshot import Snapshot
from taskd_net.job.decide.times import Timer
from taskd_net.job.decide.traffic import Command

UUID = vocabulary.STRESS_TEST_UUID
FAILED: Final = ("1", "execution failed")
TIMEOUT: Final = ("3", "timeout")

Result = dict[str, dict[str, str]]
"""`{"code": …, "result": …}` by operation."""


@dataclass(frozen=True, slots=True)
class StressTest(PluginRequest):
    """ClusterD asks for a stress test.

    Args:
        ops: operations by global rank: 0 aic, 1 p2p or hccs.
    """

    ops: dict[int, tuple[int, ...]] = field(default_factory=dict)

    @property
    def words(self) -> str:
        """The request in the history of decisions."""
        return f"ClusterD asks for a stress test of {len(self.ops)} ranks"


@dataclass
class Waiting:
    """A Worker without a result.

    Args:
        birth: its process.
        ops: the ordered operations.
        heard: the last sign of life, or the time at which the command was still on its way.
    """

    birth: int = 0
    ops: tuple[int, ...] = ()
    heard: Timer = 0.0


@dataclass
class Testing(Operating):
    """State.

    Args:
        waiting: by global rank.
        results: by global rank.
        look: the next look for silent Workers.
    """

    request: StressTest = field(default_factory=StressTest)
    waiting: dict[int, Waiting] = field(default_factory=dict)
    results: dict[int, dict[str, dict[str, str]]] = field(default_factory=dict)
    look: Timer = 0.0


class StressTestPlugin(Operation[Testing]):
    """Run the stress test, and give ClusterD the result of every named Worker."""

    name = "OMStressTestPlugin"
    streams: ClassVar = {"OMStressTestStream": 1}
    takes = StressTest
    pauses_training = True
    replies = "ReplyStressTestResult"
    patience = STRESS_TEST_S

    def __init__(self) -> None:
        super().__init__(Testing())

    def begin(self, snapshot: Snapshot) -> None:
        """205 to each named Worker."""
        state = self.state
        for rank, ops in sorted(state.request.ops.items()):
            worker = snapshot.records.workers.get(rank)
            state.waiting[rank] = Waiting(worker.birth if worker else 0, ops, snapshot.now)
            if worker is None:
                self._end(rank, FAILED)
                continue
            extension = {UUID: state.uuid, vocabulary.STRESS_OPS: json.dumps({str(rank): {"ops": list(ops)}})}
            self.send(traffic.worker(worker.node, rank), vocabulary.STRESS_TEST, extension=extension)
        state.look = snapshot.now + snapshot.config.silence_s

    def result(self, snapshot: Snapshot) -> dict[str, Result] | None:
        """All results, as soon as no Worker is awaited."""
        state = self.state
        for rank in snapshot.failed_ranks & state.waiting.keys():
            self._end(rank, TIMEOUT)
        if snapshot.now >= state.look:
            self._listen(snapshot)
        if snapshot.now >= state.until:
            for rank in list(state.waiting):
                self._end(rank, TIMEOUT)
        return None if state.waiting else {str(rank): state.results[rank] for rank in sorted(state.results)}

    def deadline(self, snapshot: Snapshot) -> float:
        """The next look for silent Workers, or the end of the patience."""
        return min(self.state.look, self.state.until) if self.state.until else INFINITY

    def lost(self, command: Command, snapshot: Snapshot) -> bool:
        """A Worker that cannot be reached, and was not replaced, hangs or is stopped."""
        rank = int(Position.parse(command.to).process_rank)
        if command.extension[UUID] == self.state.uuid and rank in self.state.waiting:
            self._end(rank, TIMEOUT)
        return False

    def look(self, rank: int, worker: WorkerRecord, snapshot: Snapshot) -> None:
        """Take a Worker's answer; that of another process is none."""
        if rank not in self.state.waiting:
            return
        answer = worker.reports.get(f"{vocabulary.ACTION}/{vocabulary.STRESS_TEST}")
        if worker.birth != self.state.waiting[rank].birth:
            self._end(rank, FAILED)
        elif answer is not None and answer.extension.get(UUID) == self.state.uuid:
            result = read_result(answer.message)
            if result is None:
                self._end(rank, FAILED)
            else:
                del self.state.waiting[rank]
                self.state.results[rank] = result

    def _listen(self, snapshot: Snapshot) -> None:
        """Give up the silent ones. A Worker can be silent only when it has its command."""
        patience, now = snapshot.config.silence_s, snapshot.now
        self.state.look = INFINITY
        for rank, waiting in list(self.state.waiting.items()):
            worker = snapshot.records.workers[rank]
            underway = snapshot.outbox.has(traffic.worker(worker.node, rank), vocabulary.STRESS_TEST)
            waiting.heard = now if underway else max(waiting.heard, worker.heartbeat, snapshot.records.since)
            if waiting.heard + patience <= now:
                self._end(rank, TIMEOUT)
            else:
                self.state.look = min(self.state.look, waiting.heard + patience)

    def _end(self, rank: int, result: tuple[str, str]) -> None:
        """Give a Worker one result for all operations."""
        code, text = result
        ops = self.state.waiting.pop(rank).ops
        self.state.results[rank] = {str(op): {"code": code, "result": text} for op in ops}


def read_result(message: str) -> Result | None:
    """The `rankResult` of an answer; None if it cannot be read."""
    try:
        value = json_value(message)
    except ValueError:
        return None
    result = value.get("rankResult") if isinstance(value, dict) else None
    if not isinstance(result, dict):
        return None
    read: Result = {}
    for op, outcome in result.items():
        if not isinstance(outcome, dict):
            return None
        code, text = outcome.get("code"), outcome.get("result")
        if not isinstance(code, str) or not isinstance(text, str):
            return None
        read[op] = {"code": code, "result": text}
    return read
