"""The platform's files about a node's restart, read from their bytes. Pure.

`reset.json` lists ranks of the whole job with the state of their devices:

    {"RankList": [{"RankId": 3, "Status": "fault"}], "RetryTime": 1, "GracefulExit": 0,
     "FaultFlushing": false, "RestartFaultProcess": false}

`restartType` is the word `hotReset` or `podReschedule`, `version` the number of the rank table in digits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeVar

from taskd_net.base.untrusted import json_value, natural, shown

T = TypeVar("T")

RANK_MOST: Final = 2**31 - 1
"""The highest rank: int32, as on the wire of ClusterD."""
VERSION_MOST: Final = 2**63 - 1
"""The highest version of a rank table: int64."""
POD_RESCHEDULE: Final = "podReschedule"
RESTART_TYPES: Final = ("hotReset", POD_RESCHEDULE)


class Status(Enum):
    """State of a rank's device; the later one counts where a rank is listed twice."""

    RECOVERED = "recovered"
    UNKNOWN = "unknown"  # a word of another release: listed, and neither faulty nor recovered
    UNRECOVERED = "unrecovered"
    FAULT = "fault"


_ORDER: Final = tuple(Status)


@dataclass(frozen=True, slots=True)
class PlatformReset:
    """The content of `reset.json`.

    Args:
        ranks: state by global rank.
        retry_time: number of restarts that the platform has ordered; None where the file has none.
        graceful_exit: the workers are to end by themselves.
        fault_flushing: more faults may follow.
        restart_process: faulty ranks are restarted alone.
    """

    ranks: Mapping[int, Status] = field(default_factory=dict)
    retry_time: int | None = None
    graceful_exit: bool = False
    fault_flushing: bool = False
    restart_process: bool = False


def read_reset(data: bytes) -> PlatformReset:
    """Read `reset.json`.

    Raises:
        ValueError: it is no such file; names the field.
    """
    found = json_value(data.decode())
    if not isinstance(found, dict):
        raise ValueError(f"it is {shown(found)}; expected a JSON object")
    ranks: dict[int, Status] = {}
    for entry in _field(found, "RankList", list, []):
        rank, status = _entry(entry)
        ranks[rank] = max(ranks.get(rank, Status.RECOVERED), status, key=_ORDER.index)
    retry_time = _field(found, "RetryTime", int, -1)
    return PlatformReset(
        ranks=ranks,
        retry_time=retry_time if "RetryTime" in found else None,
        graceful_exit=_field(found, "GracefulExit", int, 0) == 1,
        fault_flushing=_field(found, "FaultFlushing", bool, False),
        restart_process=_field(found, "RestartFaultProcess", bool, False),
    )


def read_restart_type(data: bytes) -> str:
    """Read `restartType`.

    Raises:
        ValueError: it is neither of the two words.
    """
    text = data.decode().strip()
    if text not in RESTART_TYPES:
        raise ValueError(f"it is {shown(text)}; expected {' or '.join(RESTART_TYPES)}")
    return text


def read_version(data: bytes) -> int:
    """Read `version`.

    Raises:
        ValueError: it is no number in digits.
    """
    text = data.decode().strip()
    number = natural(text, VERSION_MOST)
    if number is None:
        raise ValueError(f"it is {shown(text)}; expected digits")
    return number


def _field(found: Mapping[str, object], name: str, kind: type[T], default: T) -> T:
    value = found.get(name, default)
    # A bool is an int for Python, and none for JSON.
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"{name} is {shown(value)}; expected {_KINDS[kind]}")
    return value


def _entry(entry: object) -> tuple[int, Status]:
    if not isinstance(entry, dict):
        raise ValueError(f"an entry of RankList is {shown(entry)}; expected a JSON object")
    rank, status = entry.get("RankId"), entry.get("Status")
    if type(rank) is not int or not 0 <= rank <= RANK_MOST:
        raise ValueError(f"RankId is {shown(rank)}; expected a whole number, at least 0")
    if not isinstance(status, str):
        raise ValueError(f"Status of rank {rank} is {shown(status)}; expected fault, unrecovered or recovered")
    return rank, _STATUSES.get(status, Status.UNKNOWN)


_STATUSES: Final = {status.value: status for status in Status}
_KINDS: Final[Mapping[type, str]] = {list: "a list", int: "a whole number", bool: "true or false"}
