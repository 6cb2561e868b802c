"""Operations that ClusterD orders on a stream of their own, and whose result it waits for: one entry each.

The plugin that carries one out is a module of `job.decide.plugins`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from taskd_net.job.clusterd import rpcs
from taskd_net.job.clusterd.reports import rank_number
from taskd_net.job.clusterd.rpcs import Rpc
from taskd_net.job.decide.events import PluginRequest
from taskd_net.job.decide.plugins.stress_test import StressTest
from taskd_net.job.decide.plugins.switch_nic import SwitchNic
from taskd_net.net.wire import recover_pb2


@dataclass(frozen=True, slots=True)
class OrderedOperation:
    """An operation as ClusterD speaks of it.

    Args:
        request: the class of requests to its plugin.
        orders: the stream of orders.
        read: an order as a request; ValueError names the field that cannot be read, and its value.
        reply: the call that takes the result; its name is in the plugin's `replies`.
        write: the result as the plugin gives it, for a job, as that call's request.
    """

    request: type[PluginRequest]
    orders: Rpc[Any, Any]
    read: Callable[[Any], PluginRequest]
    reply: Rpc[Any, recover_pb2.Status]
    write: Callable[[str, Any], Any]


def _read_switch(order: recover_pb2.SwitchRankList) -> SwitchNic:
    ranks = tuple(rank_number(rank, "a rankID") for rank in order.rankID)
    if len(ranks) != len(order.op):
        raise ValueError(f"op has {len(order.op)} entries; expected one for each of {len(ranks)} ranks")
    return SwitchNic(ranks, tuple(order.op))


def _write_switched(job_id: str, result: Any) -> recover_pb2.SwitchResult:
    return recover_pb2.SwitchResult(jobId=job_id, result=bool(result))


def _read_test(order: recover_pb2.StressTestRankParams) -> StressTest:
    params = order.stressParam.items()
    return StressTest({rank_number(rank, "a rank of stressParam"): tuple(each.ops) for rank, each in params})


def _write_tested(job_id: str, result: Any) -> recover_pb2.StressTestResult:
    results = {
        rank: recover_pb2.StressTestRankResult(
            rankResult={op: recover_pb2.StressTestOpResult(**outcome) for op, outcome in ops.items()}
        )
        for rank, ops in result.items()
    }
    return recover_pb2.StressTestResult(jobId=job_id, stressResult=results)


OPERATIONS: Final = (
    OrderedOperation(SwitchNic, rpcs.SWITCH_NIC_ORDERS, _read_switch, rpcs.REPLY_SWITCH_NIC, _write_switched),
    OrderedOperation(StressTest, rpcs.STRESS_TEST_ORDERS, _read_test, rpcs.REPLY_STRESS_TEST, _write_tested),
)
