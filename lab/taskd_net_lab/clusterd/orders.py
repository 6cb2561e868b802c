"""Orders and reports as messages of the wire."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from taskd_net.base.untrusted import natural
from taskd_net.net.wire import recover_pb2 as pb
from taskd_net_lab.clusterd.messages import Order, Signal, StressOrder, SwitchOrder
from taskd_net_lab.clusterd.round import OTHER, RETRYABLE

_RANK_MOST: Final = 2**31 - 1


def message(job_id: str, order: Order) -> pb.ProcessManageSignal | pb.SwitchRankList | pb.StressTestRankParams:
    """An order as a message."""
    match order:
        case Signal():
            return pb.ProcessManageSignal(
                uuid=order.uuid,
                jobId=job_id,
                signalType=order.signal_type,
                actions=order.actions,
                faultRanks=[
                    pb.FaultRank(rankId=str(rank), faultType=str(kind)) for rank, kind in order.fault_ranks.items()
                ],
                changeStrategy=order.change_strategy,
                timeout=order.timeout,
                nodeRankIds=map(str, order.node_rank_ids),
                extraParams=order.extra_params,
            )
        case SwitchOrder(ranked, ops):
            return pb.SwitchRankList(rankID=map(str, ranked), op=ops, jobId=job_id)
        case StressOrder(tests):
            return pb.StressTestRankParams(
                jobId=job_id, stressParam={str(rank): pb.StressOpList(ops=ops) for rank, ops in tests.items()}
            )


def ranks(texts: Iterable[str]) -> Iterator[int]:
    """Ranks of a report, without texts that are none."""
    for text in texts:
        rank = natural(text, _RANK_MOST)
        if rank is not None:
            yield rank


def fault_types(given: Iterable[pb.FaultRank]) -> dict[int, int]:
    """The type of fault of each reported rank; `other` for a text that is no type."""
    kinds = {str(kind): kind for kind in RETRYABLE}
    return {rank: kinds.get(each.faultType, OTHER) for each in given for rank in ranks([each.rankId])}


def tested(result: pb.StressTestResult) -> dict[int, tuple[str, ...]]:
    """Results of a stress test: the codes of its operations, by rank."""
    return {
        rank: tuple(operation.code for operation in each.rankResult.values())
        for text, each in result.stressResult.items()
        for rank in ranks([text])
    }
