"""The training framework's controller where training scripts rejoin: ClusterD's orders as epochs.

EpochPlugin ends and begins the epochs, as a part of the job's decisions. This controller waits until the Workers have
done so, and gives ClusterD the reports that it waits for:

```
   stop_train, pause_train   ───▶  no Worker is in the epoch         ───▶ stop_complete 0
   on_global_rank            ───▶                                    ───▶ strategies retry, recover, exit
   change_strategy retry     ───▶                                    ───▶ result 405
   change_strategy recover   ───▶  every Worker is in the next epoch ───▶ result 0
     in place, or continue
                                   ranks have left, none is dead     ───▶ fault_ranks
```

`retry` is offered since ClusterD decides for nothing but dump and exit in a job that has it, where the client does not.
No step is repeated here: after the result 405 ClusterD decides again. The other strategies are answered with 499:
`recover` by new pods needs a launcher on node 0 that stays, and torch's rendezvous meets there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from taskd_net.base.codes import NodeError, TaskdNetError
from taskd_net.base.logger import get_logger
from taskd_net.job.clusterd.client import ClusterdError
from taskd_net.job.clusterd.codes import Code
from taskd_net.job.clusterd.controller import Controller, NoHandler, Ranks, Reports
from taskd_net.job.decide import epochs
from taskd_net.job.decide.events import GLOBAL_FAULT, KILL_MASTER, STOP_TRAIN
from taskd_net.job.decide.job import OTHER_FAULT, Job
from taskd_net.job.decide.orders import CONTINUE, EXIT
from taskd_net.job.decide.plugins.actions import IN_PLACE, is_inside
from taskd_net.job.decide.plugins.ordered_epochs import OrderedEpochs
from taskd_net.job.decide.records import PART, Records

RETRY: Final = "retry"
RECOVER: Final = "recover"


class Unfinished(TaskdNetError):
    """Workers have not left, or not joined; the text says which."""


class Rejoining(Controller):
    """The controller. ClusterD's thread calls it; it looks at the job in the event loop.

    Args:
        job: gives the decisions of the job.
        stream: gives the number of ClusterD's stream of signals that stands, and that of the last signal.
        patience: seconds that Workers have to leave or to join.
        look: seconds between two looks for the next stream of signals, while ranks have left.
    """

    def __init__(
        self, job: Callable[[], Job], stream: Callable[[], tuple[int, int]], patience: float, look: float
    ) -> None:
        self._job = job
        self._stream = stream
        self._patience = patience
        self._look_s = look
        self._loop = asyncio.get_running_loop()
        self._log = get_logger()
        self._looks: set[asyncio.Event] = set()
        self._reports: Reports | None = None
        self._closed = False
        self._stopped = 0
        self._reported: tuple[int, frozenset[int]] = (0, frozenset())

    def start(self, reports: Reports) -> None:
        """Give reports here from now on."""
        self._reports = reports

    def stop_train(self, ranks: Ranks, timeout: int) -> None:
        """Wait until no Worker is in the epoch, but for faulty ones. The next epoch may have begun since."""
        stopped = self._stopped = self._job().state.records.epochs.number
        self._wait(
            lambda records: _inside(records) <= ranks.keys() or records.epochs.number > stopped,
            "leave their epoch",
            timeout,
        )
        self._to.stop_complete(0, "", ranks)

    def pause_train(self, ranks: Ranks, timeout: int) -> None:
        """Wait until no Worker is in the epoch."""
        self.stop_train(ranks, timeout)

    def on_global_rank(self, ranks: Ranks, timeout: int) -> None:
        """Choose `recover`, which is in place, and `exit`; and `retry`, for ClusterD not to refuse the others."""
        self._to.strategies(ranks, [RETRY, RECOVER, EXIT])

    def change_strategy(self, strategy: str, params: str) -> None:
        """Wait until every Worker is in the next epoch.

        Raises:
            NoHandler: another strategy.
        """
        if strategy == EXIT:
            return  # the pods restart, and ClusterD waits for nothing
        if strategy == RETRY:
            self._to.result(Code.RECOVERABLE_RETRY_ERROR, "scripts that rejoin repeat no step", {}, strategy)
            return
        if strategy != CONTINUE and not (strategy == RECOVER and IN_PLACE in params):
            raise NoHandler(f"scripts that rejoin recover in place alone; the strategy is {strategy}")
        self._wait(
            lambda records: records.epochs.number > self._stopped and records.epochs.all_in(epochs.RUNNING),
            "join the next epoch",
            0,
            strategy=strategy,
        )
        self._to.result(0, "", {}, strategy)

    def save_and_exit(self) -> None:
        """Refuse: checkpoints are the script's."""
        raise NoHandler("scripts that rejoin write their checkpoints themselves")

    def prepare(self, action: str, ranks: Ranks) -> None:
        """Refuse."""
        raise NoHandler(f"scripts that rejoin have no {action}")

    def close(self) -> None:
        """Do nothing: `end` is the end."""

    def look(self) -> None:
        """The job has decided, so its state may be another one."""
        for event in self._looks:
            event.set()

    def end(self) -> None:
        """End the calls that wait."""
        self._closed = True
        self.look()

    async def watch(self) -> None:
        """Report ranks that have left, where ClusterD hears of it from nobody else. The Job reports dead ones."""
        changed, left_since = asyncio.Event(), 0.0
        self._looks.add(changed)
        while not self._closed:
            now, records = time.monotonic(), self._job().state.records
            dead, left = _dead(records), set[int]() if self._in_round() else _left(records)
            left_since = 0.0 if dead or not left else left_since or now
            overdue = bool(left_since) and now >= left_since + self._patience
            await self._report(frozenset(_first_left(records) if overdue else ()))
            changed.clear()
            try:
                # Nothing tells of a next stream of signals.
                async with asyncio.timeout(self._look_s if left else None):
                    await changed.wait()
            except TimeoutError:
                continue

    async def _report(self, ranks: frozenset[int]) -> None:
        """Report faulty ranks over the stream that stands, once."""
        if not ranks:
            self._reported = (0, frozenset())
        elif self._reports is not None and self._stream()[0] and self._unreported(ranks):
            self._reported = (self._stream()[0], ranks)
            try:
                await asyncio.to_thread(self._reports.fault_ranks, dict.fromkeys(sorted(ranks), OTHER_FAULT))
            except (ClusterdError, NodeError) as error:  # the next stream of signals is the next try
                self._log.error("clusterd_report_failed", call="ReportProcessFault", reason=str(error))

    def _unreported(self, ranks: frozenset[int]) -> bool:
        stream, reported = self._reported
        return bool(ranks) and (stream != self._stream()[0] or not ranks <= reported)

    def _in_round(self) -> bool:
        """True between ClusterD's stop and its decision, and until a pause that it has forgotten is over."""
        if self._job().state.open_faults.strategy:
            return True
        stands, last = self._stream()
        return stands == last and self._job().state.signal.signal_type in (STOP_TRAIN, GLOBAL_FAULT)

    def _wait(self, holds: Callable[[Records], bool], what: str, timeout: int, *, strategy: str = "") -> None:
        """Wait in ClusterD's thread for a state of the Workers.

        Raises:
            Unfinished: it has not come in time, or another order has come.
            NodeError: the Manager is closed.
        """
        # EpochPlugin restarts a Worker that has not left in time, and its process has as much time to come.
        seconds = min(timeout or 2 * self._patience, 2 * self._patience)
        asyncio.run_coroutine_threadsafe(self._until(holds, what, seconds, strategy), self._loop).result()

    async def _until(self, holds: Callable[[Records], bool], what: str, seconds: float, strategy: str) -> None:
        changed, first = asyncio.Event(), self._job().state.signal
        self._looks.add(changed)
        try:
            async with asyncio.timeout(seconds):
                while not holds((state := self._job().state).records):
                    if self._closed:
                        raise NodeError("the Manager is closed")
                    if self._has_failed():
                        raise Unfinished(f"a rank has failed again before all Workers did {what}")
                    is_next = bool(strategy) or state.signal.order != first.order
                    if state.signal.signal_type in (STOP_TRAIN, KILL_MASTER) and is_next:
                        raise Unfinished(f"ClusterD has sent {state.signal.signal_type} before all Workers did {what}")
                    changed.clear()
                    await changed.wait()
        except TimeoutError:
            raise Unfinished(f"not all Workers did {what} within {seconds:g} s") from None
        finally:
            self._looks.discard(changed)

    def _has_failed(self) -> bool:
        """True where the strategy that is under way cannot succeed."""
        job = self._job()
        order = job.state.signal.order
        return any(isinstance(each, OrderedEpochs) and each.state.failed == order for each in job.plugins)

    @property
    def _to(self) -> Reports:
        if self._reports is None:
            raise NoHandler("the controller was not started")
        return self._reports


def _inside(records: Records) -> set[int]:
    """The ranks in the epoch."""
    return {rank for rank, each in records.workers.items() if is_inside(each)}


def _left(records: Records) -> set[int]:
    """The ranks that have left their epoch."""
    return {rank for rank, each in records.workers.items() if each.phase == epochs.LEFT}


def _first_left(records: Records) -> set[int]:
    """The rank that has left its epoch first.

    Its error was there before the others lost it as a peer. ClusterD recovers in place only where one node is faulty.
    """
    left = ((rank, each.reports.get(PART)) for rank, each in records.workers.items() if each.phase == epochs.LEFT)
    times = {rank: 0.0 if report is None else report.at for rank, report in left}
    return {min(times, key=lambda rank: (times[rank], rank))} if times else set()


def _dead(records: Records) -> set[int]:
    """The ranks that Agents have reported as failed."""
    faults = (records.agents[node].fault for node in records.faulty)
    return {rank for fault in faults if fault is not None for rank in fault.ranks}
