"""Levels of faults, and the steps that answer them in each mode."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Final, NamedTuple


class FaultType(IntEnum):
    """The types of fault, in order of seriousness: of several on one device the greatest wins."""

    NOT_HANDLE = 0
    SUB_HEALTH = 1
    RESTART_REQUEST = 2
    RESTART_BUSINESS = 3
    FREE_RESTART_NPU = 4
    RESTART_NPU = 5
    PRE_SEPARATE_NPU = 6
    SEPARATE_NPU = 7
    MANUALLY_SEPARATE_NPU = 8

    @property
    def word(self) -> str:
        """The name in the files: `RestartNPU`."""
        return _WORDS[self]

    @property
    def level(self) -> str:
        """`L1` to `L6`; `-` for the three types that are no level."""
        return _LEVELS.get(self, "-")


_WORDS: Final = {
    FaultType.NOT_HANDLE: "NotHandleFault",
    FaultType.SUB_HEALTH: "SubHealthFault",
    FaultType.RESTART_REQUEST: "RestartRequest",
    FaultType.RESTART_BUSINESS: "RestartBusiness",
    FaultType.FREE_RESTART_NPU: "FreeRestartNPU",
    FaultType.RESTART_NPU: "RestartNPU",
    FaultType.PRE_SEPARATE_NPU: "PreSeparateNPU",
    FaultType.SEPARATE_NPU: "SeparateNPU",
    FaultType.MANUALLY_SEPARATE_NPU: "ManuallySeparateNPU",
}

_LEVELS: Final = {
    FaultType.NOT_HANDLE: "L1",
    FaultType.RESTART_REQUEST: "L2",
    FaultType.RESTART_BUSINESS: "L3",
    FaultType.FREE_RESTART_NPU: "L4",
    FaultType.RESTART_NPU: "L5",
    FaultType.SEPARATE_NPU: "L6",
}

TYPES: Final = {word: fault_type for fault_type, word in _WORDS.items()}
"""Types of fault by their names in the files."""


class Mode(StrEnum):
    """The way in which a cluster answers faults."""

    RESCHEDULING = "rescheduling"
    GRACE = "grace"


class JobKind(StrEnum):
    """The work on the devices; level 2 differs."""

    TRAINING = "training"
    INFERENCE = "inference"


class SubHealth(StrEnum):
    """The answer to a fault that only slows a device down. The words are TaskD's platform's."""

    IGNORE = "ignore"
    GRACE_EXIT = "graceExit"
    HOT_SWITCH = "hotSwitch"


class Action(StrEnum):
    """One thing to do with a device, or with the processes on it."""

    ISOLATE_AND_RESCHEDULE = "isolate_and_reschedule"
    """Take the device out, and start the job elsewhere."""
    NO_NEW_JOB = "no_new_job"
    """Leave the job alone until it fails, and give the device no other one."""
    RUN_REQUEST_AGAIN = "run_request_again"
    """Repeat the request of the inference."""
    RUN_AGAIN = "run_again"
    """Start the training again on the same devices."""
    WAIT_FOR_RECOVERY = "wait_for_recovery"
    """Give the device time to recover by itself."""
    WAIT_UNTIL_IDLE = "wait_until_idle"
    """Wait until nothing runs on the device."""
    STOP_PROCESSES = "stop_processes"
    """End the processes on the device: a reset fails while there are any."""
    RESET_DEVICE = "reset_device"
    """Reset the device."""
    EXIT_GRACEFULLY = "exit_gracefully"
    """Let the job write a checkpoint and end."""
    HOT_SWITCH = "hot_switch"
    """Start the replacement of a process first, then move over to it."""


class DeviceStep(NamedTuple):
    """An action with its time limit.

    Args:
        action: what to do.
        limit: seconds; None for none. A step that takes longer has failed.
    """

    action: Action
    limit: float | None = None

    def __str__(self) -> str:
        return self.action.value if self.limit is None else f"{self.action.value} ({self.limit:g} s)"


class GraceTimes(NamedTuple):
    """Time limits of the grace mode, in seconds.

    Args:
        stop: for the processes to end, and their container to take note.
        reset: for the device to be back.
        healing: for a fault of level 3 to recover by itself; None where the edition has no such time.
    """

    stop: float
    reset: float
    healing: float | None = None


_ISOLATE: Final = (DeviceStep(Action.ISOLATE_AND_RESCHEDULE),)
_SUB_HEALTH: Final = {
    SubHealth.IGNORE: (),
    SubHealth.GRACE_EXIT: (DeviceStep(Action.EXIT_GRACEFULLY),),
    SubHealth.HOT_SWITCH: (DeviceStep(Action.HOT_SWITCH),),
}


def steps(
    fault_type: FaultType,
    mode: Mode,
    job_kind: JobKind,
    times: GraceTimes,
    sub_health: SubHealth = SubHealth.IGNORE,
) -> tuple[DeviceStep, ...]:
    """The steps that answer a type of fault, in their order; none where there is nothing to do.

    Args:
        fault_type: of the fault.
        mode: of the cluster.
        job_kind: what runs on the device.
        times: limits of the grace mode.
        sub_health: the answer to `SubHealthFault`.
    """
    match fault_type:
        case FaultType.NOT_HANDLE:
            return ()
        case FaultType.SUB_HEALTH:
            return _SUB_HEALTH[sub_health]
        case FaultType.PRE_SEPARATE_NPU:
            return (DeviceStep(Action.NO_NEW_JOB),)
        case FaultType.SEPARATE_NPU | FaultType.MANUALLY_SEPARATE_NPU:
            return _ISOLATE
    if mode is Mode.RESCHEDULING:
        return _ISOLATE
    if fault_type is FaultType.RESTART_REQUEST:
        return (DeviceStep(Action.RUN_REQUEST_AGAIN if job_kind is JobKind.INFERENCE else Action.RUN_AGAIN),)
    if fault_type is FaultType.RESTART_BUSINESS:
        # The run begins when the fault is over; see `policy`.
        return (
            (DeviceStep(Action.RUN_AGAIN),)
            if times.healing is None
            else (DeviceStep(Action.WAIT_FOR_RECOVERY, times.healing),)
        )
    reset = (
        DeviceStep(Action.STOP_PROCESSES, times.stop),
        DeviceStep(Action.RESET_DEVICE, times.reset),
        DeviceStep(Action.RUN_AGAIN),
    )
    return (DeviceStep(Action.WAIT_UNTIL_IDLE), *reset) if fault_type is FaultType.FREE_RESTART_NPU else reset
