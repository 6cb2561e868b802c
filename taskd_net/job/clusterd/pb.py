"""ClusterD's messages as `pb`, for code that is written against TaskD's or Elastic-Agent's client.

They are generated under names of our own, so that TaskD's own may be in the same process. `ClientInfo` takes the form
of either client.
"""

from __future__ import annotations

from dataclasses import dataclass

from taskd_net.job.clusterd.reports import client_info
from taskd_net.net.wire import recover_pb2
from taskd_net.net.wire.recover_pb2 import (
    DeviceList,
    FaultRank,
    ProcessFaultRequest,
    ProcessManageSignal,
    RecoverStatusRequest,
    RecoverStrategyRequest,
    Status,
    StopCompleteRequest,
    StressOpList,
    StressTestOpResult,
    StressTestParam,
    StressTestRankParams,
    StressTestRankResult,
    StressTestRequest,
    StressTestResponse,
    StressTestResult,
    SwitchNicRequest,
    SwitchNicResponse,
    SwitchNics,
    SwitchRankList,
    SwitchResult,
)

__all__ = [
    "ClientInfo",
    "DeviceList",
    "FaultRank",
    "ProcessFaultRequest",
    "ProcessManageSignal",
    "RecoverStatusRequest",
    "RecoverStrategyRequest",
    "Status",
    "StopCompleteRequest",
    "StressOpList",
    "StressTestOpResult",
    "StressTestParam",
    "StressTestRankParams",
    "StressTestRankResult",
    "StressTestRequest",
    "StressTestResponse",
    "StressTestResult",
    "SwitchNicRequest",
    "SwitchNicResponse",
    "SwitchNics",
    "SwitchRankList",
    "SwitchResult",
]


@dataclass
class ClientInfo:
    """The sender of a call.

    TaskD's form is `ClientInfo(jobId=…, role=…)`, that of Elastic-Agent `ClientInfo(ip=…, port=…, taskId=…, role=…)`.
    The wire of Elastic-Agent is gone since 2024-11: today's message is sent, with its task as the job.

    Args:
        jobId: the job.
        role: any text; a launcher's is `master agent`, a Manager's `taskd`.
        ip, port: not used.
        taskId: the job, in Elastic-Agent's form.
    """

    jobId: str = ""
    role: str = ""
    ip: str = ""
    port: str = ""
    taskId: str = ""

    @property
    def is_elastic(self) -> bool:
        """True in Elastic-Agent's form."""
        return bool(self.taskId)

    def on_wire(self) -> recover_pb2.ClientInfo:
        """The message.

        Raises:
            ArgumentError: there is no job.
            ArgumentTypeError: one is no text.
        """
        return client_info(self.taskId or self.jobId, self.role)
