"""MindSpore's functions (msrun), called as it expects.

`KILL_WORKER(pids)` and `MONITOR(local_ranks)` take `[-1]` for all, `START_ALL_WORKER()` takes nothing,
`START_WORKER_LIST(local_ranks)` takes some. All but MONITOR answer 0, and another number on failure.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from taskd_net.base.untrusted import shown
from taskd_net.job.agent.messages import Meeting
from taskd_net.job.agent.supervision import Offered, WorkerStatus
from taskd_net.job.agent.workers import KILL_WORKER, MONITOR, START_ALL_WORKER, START_WORKER_LIST, Malformed, Operators
from taskd_net.job.frameworks.mindspore.scheduler import end_scheduler
from taskd_net.job.member import Refused

ALL: Final = -1
"""All workers, in place of a list of some."""

FINISHED: Final = 0
"""Exit status of a worker that has finished its training."""
NOT_STARTED: Final = 200
"""A worker's status, where it has no pid. With a pid it is an exit code."""


@dataclass(frozen=True, slots=True)
class _Worker:
    """A worker of this node. `status` is None while it runs; 300: it has vanished, and `pid` is the one it had."""

    local_rank: int
    global_rank: int
    pid: int | None
    status: int | None

    @property
    def failed(self) -> bool:
        not_started = self.status == NOT_STARTED and self.pid is None
        return self.status not in (None, FINISHED) and not not_started


class MindSporeWorkers:
    """The workers that msrun runs. See `operators.LocalWorkers`."""

    needs: Collection[str] = (KILL_WORKER, START_ALL_WORKER, START_WORKER_LIST, MONITOR)
    ignores_results = True
    # msrun counts no restarts; TaskD's Agents say 1.
    remaining = "1"
    features: Collection[str] = ()
    records = None

    def __init__(self, operators: Operators) -> None:
        self._operators = operators
        self.pids: Collection[int] = ()

    def require(self) -> None:
        """See `LocalWorkers`."""
        self._operators.require(self.needs)

    def offer(self) -> Offered:
        """See `LocalWorkers`."""
        raise Refused("msrun's scheduler brings the nodes together; its Agents name no feature `meets`")

    def start_all(self, remaining: int | None, meeting: Meeting | None = None) -> None:
        """Start every worker."""
        self._call(START_ALL_WORKER)

    def take_meeting(self, meeting: Meeting) -> None:
        """See `offer`."""
        self.offer()

    def kill_all(self) -> None:
        """End every worker."""
        self._call(KILL_WORKER, [ALL])

    def kill_ranks(self, ranks: Collection[int]) -> None:
        """End workers, also those that have vanished."""
        if pids := [worker.pid for worker in self._workers() if worker.global_rank in ranks and worker.pid is not None]:
            self._call(KILL_WORKER, pids)

    def start_ranks(self, ranks: Collection[int]) -> None:
        """Start workers."""
        if local_ranks := sorted(worker.local_rank for worker in self._workers() if worker.global_rank in ranks):
            self._call(START_WORKER_LIST, local_ranks)

    def ask_to_end(self) -> None:
        """Send SIGTERM to every worker that runs."""
        for worker in self._workers():
            if worker.status is None and worker.pid is not None:
                with suppress(ProcessLookupError):
                    os.kill(worker.pid, signal.SIGTERM)

    def look(self) -> WorkerStatus:
        """Ask MONITOR."""
        workers = list(self._workers())
        self.pids = [worker.pid for worker in workers if worker.pid is not None]
        return WorkerStatus(
            failed=frozenset(worker.global_rank for worker in workers if worker.failed),
            running=any(worker.status is None for worker in workers),
            finished=bool(workers) and all(worker.status == FINISHED for worker in workers),
            ranks=frozenset(worker.global_rank for worker in workers),
        )

    def leave(self) -> None:
        """End msrun's scheduler."""
        end_scheduler()

    def _workers(self) -> Iterator[_Worker]:
        answer = self._operators.call(MONITOR, [ALL])
        if not isinstance(answer, Mapping):
            raise Malformed("no dict", f"{MONITOR} answered {shown(answer)}; expected a dict by local rank")
        for local_rank, worker in answer.items():
            yield _read(local_rank, worker)

    def _call(self, operator: str, *arguments: object) -> None:
        answer = self._operators.call(operator, *arguments)
        # None: of a function that returns nothing.
        if answer not in (None, 0):
            raise Refused(f"{operator} answered {shown(answer)}; expected 0")


def _read(local_rank: object, worker: object) -> _Worker:
    match worker:
        case {"pid": int() | None as pid, "status": int() | None as status, "global_rank": int(global_rank)}:
            # The system takes numbers below 1 for groups of processes.
            if isinstance(local_rank, int) and (pid is None or pid > 0):
                return _Worker(local_rank, global_rank, pid, status)
    text = f"{MONITOR} answered {shown(worker)} for local rank {shown(local_rank)}"
    raise Malformed("a worker", f"{text}; expected whole numbers as pid, status and global_rank")
