"""ClusterD's methods: path, messages and shape of each (`proto/recover.proto`, `proto/datatrace.proto`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from google.protobuf.message import Message

from taskd_net.net.wire import datatrace_pb2, recover_pb2

RequestT = TypeVar("RequestT", bound=Message)
AnswerT = TypeVar("AnswerT", bound=Message)

RECOVER: Final = "Recover"
DATA_TRACE: Final = "TrainingDataTrace"


@dataclass(frozen=True, slots=True)
class Rpc(Generic[RequestT, AnswerT]):
    """One method.

    Args:
        service, name: its path without the slashes.
        request: class of the request.
        answer: class of the answer, or of each message of the stream.
        streams: ClusterD answers with a stream.
    """

    service: str
    name: str
    request: type[RequestT]
    answer: type[AnswerT]
    streams: bool = False

    @property
    def path(self) -> str:
        """The path on the wire."""
        return f"/{self.service}/{self.name}"


def _unary(name: str, request: type[RequestT]) -> Rpc[RequestT, recover_pb2.Status]:
    return Rpc(RECOVER, name, request, recover_pb2.Status)


def _stream(name: str, request: type[RequestT], answer: type[AnswerT]) -> Rpc[RequestT, AnswerT]:
    return Rpc(RECOVER, name, request, answer, streams=True)


INIT: Final = _unary("Init", recover_pb2.ClientInfo)
REGISTER: Final = _unary("Register", recover_pb2.ClientInfo)
HEALTH_CHECK: Final = _unary("HealthCheck", recover_pb2.ClientInfo)
STOP_COMPLETE: Final = _unary("ReportStopComplete", recover_pb2.StopCompleteRequest)
RECOVER_STRATEGY: Final = _unary("ReportRecoverStrategy", recover_pb2.RecoverStrategyRequest)
RECOVER_STATUS: Final = _unary("ReportRecoverStatus", recover_pb2.RecoverStatusRequest)
PROCESS_FAULT: Final = _unary("ReportProcessFault", recover_pb2.ProcessFaultRequest)
SWITCH_NIC_TRACK: Final = _unary("SwitchNicTrack", recover_pb2.SwitchNics)
REPLY_SWITCH_NIC: Final = _unary("ReplySwitchNicResult", recover_pb2.SwitchResult)
STRESS_TEST: Final = _unary("StressTest", recover_pb2.StressTestParam)
REPLY_STRESS_TEST: Final = _unary("ReplyStressTestResult", recover_pb2.StressTestResult)

REPORTS: Final = (STOP_COMPLETE, RECOVER_STRATEGY, RECOVER_STATUS, PROCESS_FAULT, REPLY_SWITCH_NIC, REPLY_STRESS_TEST)
"""Reports and results of the client."""

SIGNALS: Final = _stream("SubscribeProcessManageSignal", recover_pb2.ClientInfo, recover_pb2.ProcessManageSignal)
SWITCH_NIC_ANSWERS: Final = _stream(
    "SubscribeSwitchNicSignal", recover_pb2.SwitchNicRequest, recover_pb2.SwitchNicResponse
)
SWITCH_NIC_ORDERS: Final = _stream("SubscribeNotifySwitch", recover_pb2.ClientInfo, recover_pb2.SwitchRankList)
STRESS_TEST_ANSWERS: Final = _stream(
    "SubscribeStressTestResponse", recover_pb2.StressTestRequest, recover_pb2.StressTestResponse
)
STRESS_TEST_ORDERS: Final = _stream(
    "SubscribeNotifyExecStressTest", recover_pb2.ClientInfo, recover_pb2.StressTestRankParams
)
PROFILING: Final = Rpc(
    DATA_TRACE,
    "SubscribeDataTraceSwitch",
    datatrace_pb2.ProfilingClientInfo,
    datatrace_pb2.DataStatusRes,
    streams=True,
)

CALLS: Final = tuple(each for each in tuple(globals().values()) if isinstance(each, Rpc) and each.service == RECOVER)
"""All calls of the service `Recover`."""
