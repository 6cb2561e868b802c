"""Reports to ClusterD: arguments are checked before anything is sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from taskd_net.base.codes import ArgumentError, ArgumentTypeError
from taskd_net.base.untrusted import natural, shown
from taskd_net.job.clusterd.codes import Code
from taskd_net.net.wire import recover_pb2 as wire

RANK_MOST: Final = 2**31 - 1
"""The highest rank: int32, as on the wire."""
FAULT_TYPES: Final = (0, 1, 2)
"""Memory, other, network."""


def client_info(job_id: object, role: object) -> wire.ClientInfo:
    """The sender of a call.

    Raises:
        ArgumentError: the job is empty.
        ArgumentTypeError: one is no text.
    """
    if not _text(job_id, "jobId"):
        raise ArgumentError("jobId is empty; expected the id of a job")
    return wire.ClientInfo(jobId=str(job_id), role=_text(role, "role"))


def stop_complete(job_id: str, code: object, msg: object, fault_ranks: object) -> wire.StopCompleteRequest:
    """The training has stopped, or could not."""
    return wire.StopCompleteRequest(jobId=job_id, status=_status(code, msg), faultRanks=_faults(fault_ranks))


def recover_strategy(job_id: str, fault_ranks: object, strategies: object) -> wire.RecoverStrategyRequest:
    """The strategies that the training framework can carry out."""
    if isinstance(strategies, str) or not isinstance(strategies, Iterable):
        raise ArgumentTypeError(f"strategy_list is {shown(strategies)}; expected a list of texts")
    names = [_text(each, "a strategy of strategy_list") for each in strategies]
    return wire.RecoverStrategyRequest(jobId=job_id, faultRanks=_faults(fault_ranks), strategies=names)


def recover_status(
    job_id: str, code: object, msg: object, fault_ranks: object, strategy: object
) -> wire.RecoverStatusRequest:
    """The end of a strategy. The ranks are those to be isolated."""
    ranks = [each.rankId for each in _faults(fault_ranks)]
    name = _text(strategy, "strategy")
    return wire.RecoverStatusRequest(jobId=job_id, status=_status(code, msg), strategy=name, isolateRankIds=ranks)


def process_fault(job_id: str, fault_ranks: object, fault_codes: object = None) -> wire.ProcessFaultRequest:
    """A fault that the client has seen first. Its codes stay here: the wire has no place for them."""
    if fault_codes is not None and not isinstance(fault_codes, Mapping):
        raise ArgumentTypeError(f"fault_codes is {shown(fault_codes)}; expected a dict, or None")
    return wire.ProcessFaultRequest(jobId=job_id, faultRanks=_faults(fault_ranks))


def rank_number(value: object, name: str) -> int:
    """A global rank: a whole number, or one in decimal digits.

    Raises:
        ArgumentError, ArgumentTypeError: it is none.
    """
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ArgumentTypeError(f"{name} is {shown(value)}; expected a rank, such as 3")
    number = natural(value, RANK_MOST) if isinstance(value, str) else value
    if number is None or not 0 <= number <= RANK_MOST:
        raise ArgumentError(f"{name} is {shown(value)}; expected a rank from 0 to {RANK_MOST}")
    return number


def _faults(ranks: object) -> list[wire.FaultRank]:
    if not isinstance(ranks, Mapping):
        raise ArgumentTypeError(f"fault_ranks is {shown(ranks)}; expected a dict from rank to type of fault")
    faults = []
    for rank, kind in ranks.items():
        number = rank_number(rank, "a rank of fault_ranks")
        if rank_number(kind, f"the type of fault of rank {number}") not in FAULT_TYPES:
            expected = "expected 0 (memory), 1 (other) or 2 (network)"
            raise ArgumentError(f"the type of fault of rank {number} is {shown(kind)}; {expected}")
        faults.append(wire.FaultRank(rankId=str(number), faultType=str(int(kind))))
    return faults


def _status(code: object, msg: object) -> wire.Status:
    if isinstance(code, bool) or not isinstance(code, int):
        raise ArgumentTypeError(f"code is {shown(code)}; expected a whole number, such as {int(Code.CLIENT_ERROR)}")
    if not -(2**31) <= code < 2**31:
        raise ArgumentError(f"code is {shown(code)}; expected a number of 32 bits")
    return wire.Status(code=code, info=_text(msg, "msg"))


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise ArgumentTypeError(f"{name} is {shown(value)}; expected a text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ArgumentError(f"{name} is {shown(value)}; expected a text that UTF-8 can carry") from None
    return value
