"""ClusterD's codes: meaning of each, and the places where it is seen (TaskD API reference, "返回码说明")."""

from __future__ import annotations

from enum import Enum, IntEnum, auto
from typing import Final, Self


class SeenIn(Enum):
    """A place where a code is seen."""

    ANSWER = auto()
    """ClusterD answers a call with it."""
    REPORT = auto()
    """The client puts it into a report."""
    INSIDE = auto()
    """It stays in ClusterD, and shows in its log alone. A client passes on an answer with it like any other failure."""


class Code(IntEnum):
    """The documented codes, and the further ones that ClusterD has.

    Attributes:
        meaning: in a phrase.
        seen: the places where it is seen.
        documented: False for a further one of ClusterD.
    """

    meaning: str
    seen: frozenset[SeenIn]
    documented: bool

    def __new__(cls, value: int, meaning: str, *marks: SeenIn | bool) -> Self:
        code = int.__new__(cls, value)
        code._value_ = value
        code.meaning = meaning
        code.seen = frozenset(mark for mark in marks if isinstance(mark, SeenIn))
        code.documented = False not in marks
        return code

    OK = 0, "the call, or the reported step, has succeeded", SeenIn.ANSWER, SeenIn.REPORT
    UN_REGISTRY = 400, "the job is not registered", SeenIn.ANSWER
    ORDER_MIX = 401, "the request does not fit the state of the job's machine", SeenIn.INSIDE
    JOB_NOT_EXIST = 402, "there is no such job", SeenIn.ANSWER
    PROCESS_RESCHEDULE_OFF = 403, "recovery by process is off or paused for the job", SeenIn.ANSWER
    PROCESS_NOT_READY = 404, "the training processes have not started", SeenIn.REPORT
    RECOVERABLE_RETRY_ERROR = 405, "a device could not be cleaned; another strategy may work", SeenIn.REPORT
    UN_RECOVERABLE_RETRY_ERROR = 406, "a device could not be stopped", SeenIn.REPORT
    DUMP_ERROR = 407, "the last checkpoint could not be saved", SeenIn.REPORT
    UN_INIT = 408, "Init was not called", SeenIn.ANSWER
    CLIENT_ERROR = 499, "another failure of the client", SeenIn.REPORT
    OUT_OF_MAX_SERVE_JOBS = 500, "ClusterD serves its maximum of jobs", SeenIn.ANSWER
    OPERATE_CONFIG_MAP_ERROR = 501, "a ConfigMap could not be written", SeenIn.INSIDE
    OPERATE_POD_GROUP_ERROR = (
        502,
        "ClusterD does not know the job (yet), or could not change its PodGroup",
        SeenIn.ANSWER,
    )
    SCHEDULE_TIMEOUT = 503, "pods were not scheduled in time", SeenIn.INSIDE
    SIGNAL_QUEUE_BUSY = 504, "a signal found no room in its queue", SeenIn.INSIDE
    EVENT_QUEUE_BUSY = 505, "an event of the machine found no room in its queue", SeenIn.INSIDE
    CONTROLLER_EVENT_CANCEL = 506, "the job's machine has ended", SeenIn.INSIDE
    WAIT_REPORT_TIMEOUT = 507, "the client's report did not come in time", SeenIn.INSIDE
    WAIT_PLAT_STRATEGY_TIMEOUT = 508, "the AI platform gave no strategy in time", SeenIn.INSIDE
    WRITE_CONFIRM_FAULT_OR_WAIT_PLAT_RESULT_FAULT = 509, "the AI platform's word on the fault is wrong", SeenIn.INSIDE
    SERVER_INNER_ERROR = 599, "ClusterD failed, or reset the job's machine meanwhile", SeenIn.ANSWER

    ISOLATE_RANKS = 201, "the job can go on without the named ranks", SeenIn.REPORT, False
    INVALID_REQ_PARAM = 409, "a parameter of the request is not valid", SeenIn.INSIDE, False
    INVALID_REQ_RATE = 410, "requests come too often", SeenIn.INSIDE, False
    OM_IS_RUNNING = 411, "an operation runs already", SeenIn.ANSWER, False
    OM_PARAM_INVALID = 413, "a parameter of the operation is not valid", SeenIn.ANSWER, False
    RATE_LIMITED = 429, "requests come too often", SeenIn.INSIDE, False
    HCCL_ROUTING_CONVERGENCE_FAIL = 510, "the routes of the network did not converge", SeenIn.INSIDE, False


_MEANINGS: Final = {int(code): code.meaning for code in Code}


def describe(code: int, info: str = "") -> str:
    """The meaning of a code, and what ClusterD says of it; says so where it is unknown."""
    meaning = _MEANINGS.get(code, "unknown to this release")
    return f"{meaning}: {info}" if info else meaning
