"""The documented reports to ClusterD, by the last `DLRecoverManager` of this process (TaskD API reference).

Without one, the first report makes one for the job and the address in the environment, as TaskD does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from taskd_net.job.clusterd.blocking import DLRecoverManager, last_made
from taskd_net.job.clusterd.controller import Ranks
from taskd_net.job.clusterd.launcher import made_of_environment


def report_stop_complete(code: int, msg: str, fault_ranks: Ranks) -> int:
    """Report that the training has stopped.

    Args:
        code: 0, or 404 where it has never started, or 499.
        msg: in words.
        fault_ranks: type of fault by global rank: 0 memory, 1 other, 2 network.

    Returns:
        ClusterD's code; 0 is success.

    Raises:
        ArgumentError, ArgumentTypeError: an argument is of no use; nothing is sent.
        ClusterdError: there is no answer; its cause is gRPC's error.
        NodeError: the last `DLRecoverManager` is closed.
        ConfigError: there was none, and a variable with the job or the address is missing.

    Source: TaskD API reference.
    """
    return _client().stop_complete(code, msg, fault_ranks)


def report_recover_strategy(fault_ranks: Ranks, strategy_list: Iterable[str]) -> int:
    """Report the strategies that can be carried out. See `report_stop_complete` for the rest."""
    return _client().strategies(fault_ranks, strategy_list)


def report_recover_status(code: int, msg: str, fault_ranks: Ranks, strategy: str) -> int:
    """Report the end of a strategy: 0; 201 with the ranks to isolate; 405, 406, 407, 499.

    Arguments, result and errors are those of `report_stop_complete`.
    """
    return _client().result(code, msg, fault_ranks, strategy)


def report_process_fault(fault_ranks: Ranks, fault_codes: Mapping[Any, Any] | None = None) -> int:
    """Report a fault that was seen here first. Its codes are not sent: ClusterD's wire has no place for them.

    Arguments, result and errors are those of `report_stop_complete`.
    """
    return _client().fault_ranks(fault_ranks, fault_codes)


def _client() -> DLRecoverManager:
    return last_made() or made_of_environment()
