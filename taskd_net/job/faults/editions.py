"""The two editions of the fault files: the ranges and defaults of each, and the limits that are ours.

`documented` is the edition of TaskD's documents; `current` is the one that files follow which the platform ships today.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from taskd_net.job.faults.levels import FaultType


class Edition(StrEnum):
    """The rules by which the files are read."""

    DOCUMENTED = "documented"
    CURRENT = "current"


class Range(NamedTuple):
    """The least and greatest value of a number, and its default; None where it is required."""

    least: int
    most: int
    default: int | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """Keys, ranges and defaults of an edition. Times are in seconds.

    Args:
        code_keys: keys of faultCode.json, each with the type of its codes.
        stop_key: key in GraceTolerance of the time for processes to end.
        grace: numbers of GraceTolerance. Outside their range they take the default.
        frequency: numbers of an entry of FaultFrequency. Outside their range the entry is ignored.
        frequency_types: values of its FaultHandling.
        duration: numbers of an entry of FaultDuration.
        duration_types: values of its FaultHandling; any other one is the first of them if `duration_defaults`.
        duration_codes: the only codes with a FaultDuration; empty for any.
        duration_defaults: numbers outside their range take the default; else the entry is ignored.
        duration_of_code: defaults of single codes where they differ.
        network_codes: codes that are always of the network: `NETWORK_TYPES` are their only types in the general lists,
            and in no list they are PreSeparateNPU.
    """

    code_keys: Mapping[str, FaultType]
    stop_key: str
    grace: Mapping[str, Range]
    frequency: Mapping[str, Range]
    frequency_types: frozenset[FaultType]
    duration: Mapping[str, Range]
    duration_types: frozenset[FaultType]
    duration_codes: frozenset[str]
    duration_defaults: bool
    duration_of_code: Mapping[str, Mapping[str, int]]
    network_codes: frozenset[str]

    def numbers(self, section: str) -> Mapping[str, Range]:
        """The numbers of a section of faultCustomization.json, by key."""
        return {"GraceTolerance": self.grace, "FaultFrequency": self.frequency, "FaultDuration": self.duration}[section]


LINK_DOWN: Final = "81078603"
"""Code of a network port that has gone down."""

NETWORK_KEYS: Final = "NetworkCodes"
"""End of the keys of faultCode.json that have codes of the network."""

NETWORK_TYPES: Final = frozenset({FaultType.NOT_HANDLE, FaultType.PRE_SEPARATE_NPU, FaultType.SEPARATE_NPU})
"""Types that a code of the network may have in a general list; any other one counts as NotHandleFault."""

_SIX: Final = {
    "NotHandleFaultCodes": FaultType.NOT_HANDLE,
    "RestartRequestCodes": FaultType.RESTART_REQUEST,
    "RestartBusinessCodes": FaultType.RESTART_BUSINESS,
    "FreeRestartNPUCodes": FaultType.FREE_RESTART_NPU,
    "RestartNPUCodes": FaultType.RESTART_NPU,
    "SeparateNPUCodes": FaultType.SEPARATE_NPU,
}
_MORE: Final = {
    "PreSeparateNPUCodes": FaultType.PRE_SEPARATE_NPU,
    "SubHealthFaultCodes": FaultType.SUB_HEALTH,
    "NotHandleFaultNetworkCodes": FaultType.NOT_HANDLE,
    "PreSeparateNPUNetworkCodes": FaultType.PRE_SEPARATE_NPU,
    "SeparateNPUNetworkCodes": FaultType.SEPARATE_NPU,
    "SubHealthFaultNetworkCodes": FaultType.SUB_HEALTH,
}
_ALL: Final = frozenset(FaultType)
_MANUAL: Final = FaultType.MANUALLY_SEPARATE_NPU

EDITIONS: Final[Mapping[Edition, Table]] = {
    Edition.DOCUMENTED: Table(
        code_keys=_SIX,
        stop_key="WaitFlushingCMTime",
        grace={"WaitFlushingCMTime": Range(90, 300, 90), "WaitDeviceResetTime": Range(60, 120, 60)},
        frequency={"TimeWindow": Range(60, 864_000), "Times": Range(2, 100)},
        frequency_types=_ALL - {FaultType.SUB_HEALTH},
        duration={"FaultTimeout": Range(1, 30, 30), "RecoverTimeout": Range(1, 60, 60)},
        duration_types=frozenset({FaultType.PRE_SEPARATE_NPU}),
        duration_codes=frozenset({LINK_DOWN}),
        duration_defaults=True,
        duration_of_code={},
        network_codes=frozenset(),
    ),
    Edition.CURRENT: Table(
        code_keys={**_SIX, **_MORE},
        stop_key="WaitProcessReadCMTime",
        grace={
            "WaitProcessReadCMTime": Range(5, 90, 30),
            "WaitDeviceResetTime": Range(60, 180, 150),
            "WaitFaultSelfHealingTime": Range(1, 30, 15),
        },
        frequency={
            "TimeWindow": Range(60, 864_000),
            "Times": Range(1, 100),
            "ReleaseTimeWindow": Range(60, 4_294_967_296),
        },
        frequency_types=_ALL,
        duration={"FaultTimeout": Range(0, 600, 0), "RecoverTimeout": Range(0, 86_400, 0)},
        duration_types=_ALL - {_MANUAL},
        duration_codes=frozenset(),
        duration_defaults=False,
        duration_of_code={
            LINK_DOWN: {"FaultTimeout": 20, "RecoverTimeout": 60},
            "80E01801": {"FaultTimeout": 30},
        },
        network_codes=frozenset({LINK_DOWN, "81078607", "110000002", "110001024"}),
    ),
}

LINKDOWN_TIMEOUT: Final = Range(1, 30, 30)
"""Seconds of the setting `linkdown_timeout`, the default of the documented FaultTimeout."""

POLL_INTERVAL: Final = Range(30, 3600, 300)
"""Seconds between two looks at the files."""

FILE_BYTES: Final = 1_048_576
"""Bytes of one file at most: a ConfigMap has no more."""

DEVICE_CHARS: Final = 128
"""Characters of a device's name at most."""

TIME_MOST_S: Final = 253_402_300_799.0
"""The latest time of an event, in seconds since the epoch: the end of the year 9999."""

CODES_PER_DEVICE: Final = 128
"""Faults that stand on one device at most, as with the device plugin. Of more, the most serious are kept."""

FAULTS: Final = 262_144
"""Faults that stand on all devices at most: four on each of the largest job."""

RAISED_PER_DEVICE: Final = 4
"""Codes whose frequency keeps one device out at most. One is enough for that; the others say more about the reasons."""

DEVICES: Final = 65_536
"""Devices with a state: 8 on each node of the largest job. Events of further ones are answered, and not remembered."""

EVENTS_SEEN: Final = 8_192
"""Last events by which a doubled one is known: 0.1 s of the highest rate."""

COUNTERS: Final = 100_000
"""Counters of occurrences, one for a device and a code. They take 30 to 140 MB; beyond it the oldest are forgotten."""

CONFIG_MAP: Final = "mindx-dl-fault-config"
"""Name of the ConfigMap, as in the lines of the device plugin's log."""

FILE_READ_S: Final = 1.0
"""Seconds for reading one file."""

FOLDER_READS: Final = 5
"""Times that a folder is read which changes meanwhile: an update of a volume takes some milliseconds."""

PROBLEMS_LOGGED: Final = 20
"""Problems of one reading with a line in the log; `taskd-net faults check` shows all."""
