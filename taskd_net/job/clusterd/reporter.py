"""Reports of one job: the four calls of a controller as checked requests, and the orders that they answer.

ClusterD resets the machine of a job when its stream of signals begins or ends, and reports carry no uuid. So a report
to an order of an ended stream would be taken for one to a later order: it is void.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Final

from taskd_net.job.clusterd import reports, rpcs
from taskd_net.job.clusterd.codes import Code
from taskd_net.job.clusterd.controller import Ranks, Reports
from taskd_net.job.clusterd.rpcs import Rpc
from taskd_net.job.decide.orders import CONTINUE
from taskd_net.job.decide.traffic import Call
from taskd_net.net.wire import recover_pb2

ENDED_BY: Final[Mapping[str, tuple[str, ...]]] = {
    rpcs.STOP_COMPLETE.name: ("stop_train",),
    rpcs.RECOVER_STRATEGY.name: ("on_global_rank", "prepare_action"),
    rpcs.RECOVER_STATUS.name: ("change_strategy", "dump"),
}
"""The calls of the controller that a report ends."""


class Reporter(Reports):
    """The reports of one job; a subclass sends them.

    Args:
        job_id: of the job.
    """

    def __init__(self, job_id: str) -> None:
        self._job_id = job_id
        # The stream of the last order of each call.
        self._streams: dict[str, int] = {}

    def stop_complete(self, code: int, msg: str, ranks: Ranks) -> int:
        """Report that the training has stopped. Returns ClusterD's code."""
        return self._report(rpcs.STOP_COMPLETE, reports.stop_complete(self._job_id, code, msg, ranks))

    def strategies(self, ranks: Ranks, strategies: Iterable[str]) -> int:
        """Report the strategies that can be carried out. Returns ClusterD's code."""
        return self._report(rpcs.RECOVER_STRATEGY, reports.recover_strategy(self._job_id, ranks, strategies))

    def result(self, code: int, msg: str, ranks: Ranks, strategy: str) -> int:
        """Report the end of a strategy. Returns ClusterD's code."""
        return self._report(rpcs.RECOVER_STATUS, reports.recover_status(self._job_id, code, msg, ranks, strategy))

    def fault_ranks(self, ranks: Ranks, codes: object = None) -> int:
        """Report a fault that was seen here first. Returns ClusterD's code."""
        return self._report(rpcs.PROCESS_FAULT, reports.process_fault(self._job_id, ranks, codes))

    @abstractmethod
    def _report(self, rpc: Rpc[Any, recover_pb2.Status], request: Any) -> int:
        """Send a report. Returns ClusterD's code."""

    def _ordered(self, call: Call, stream: int) -> None:
        """A call was ordered over this stream of signals.

        Where the client continues of itself after a pause, the stream of the pause has ended.
        """
        self._streams[call.name] = self._streams.get("stop_train", 0) if call.text == CONTINUE else stream

    def _is_void(self, rpc: Rpc[Any, Any], stream: int, of_call: int | None = None) -> bool:
        """True for a report whose order came over another stream than this one, which stands; 0 for none.

        Args:
            rpc: of the report.
            stream: that stands.
            of_call: the stream of the call that is reported; None for that of the last order.
        """
        last = [self._streams[name] for name in ENDED_BY.get(rpc.name, ()) if name in self._streams]
        ordered = last if of_call is None else [of_call]
        return bool(ordered) and (not stream or max(ordered) != stream)


_GOES_ON: Final = ("retry", "recover", "downgrade", "upgrade")


def has_recovered(request: object) -> bool:
    """True for the result of a strategy after which the training goes on."""
    if not isinstance(request, recover_pb2.RecoverStatusRequest):
        return False
    return request.status.code == Code.OK and request.strategy in _GOES_ON


def has_continued(request: object) -> bool | None:
    """True where the training goes on after a pause, False where it cannot; None for another report."""
    if isinstance(request, recover_pb2.RecoverStatusRequest) and request.strategy == CONTINUE:
        return request.status.code == Code.OK
    return None


def faults_of(request: object) -> dict[int, int]:
    """The ranks of a report of a fault, with their types; none for another report."""
    if not isinstance(request, recover_pb2.ProcessFaultRequest):
        return {}
    return {int(each.rankId): int(each.faultType) for each in request.faultRanks}


def has_retry_failed(request: object) -> bool:
    """True for the result of a retry after which ClusterD decides again (405)."""
    return isinstance(request, recover_pb2.RecoverStatusRequest) and request.status.code == Code.RECOVERABLE_RETRY_ERROR
