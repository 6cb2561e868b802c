"""Decisions of the policy, and what it shows of its state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from taskd_net.job.faults.levels import Action, DeviceStep, FaultType


class Decision(NamedTuple):
    """The answer to one event, to the passing of time, or to a change of rules.

    Args:
        device: the device.
        code: of the fault that led to it.
        fault_type: of that fault, after all rules.
        standing: the most serious type on the device after it; NOT_HANDLE for a healthy device.
        steps: to carry out now, in their order; none if there is nothing to do, or if other steps cover it.
        reason: in words, for people.
        at: time of the decision, in seconds since the epoch.
        cleared: the fault is over; `steps` is empty unless something was waiting for that.
    """

    device: str
    code: str
    fault_type: FaultType
    standing: FaultType
    steps: tuple[DeviceStep, ...]
    reason: str
    at: float
    cleared: bool = False


class Isolated(NamedTuple):
    """A device that takes no new job.

    Args:
        device: the device.
        action: ISOLATE_AND_RESCHEDULE, or NO_NEW_JOB where the present job goes on.
        fault_type: the most serious type on it.
        code: of the fault that led to it.
        reason: in words.
        since: in seconds since the epoch.
    """

    device: str
    action: Action
    fault_type: FaultType
    code: str
    reason: str
    since: float


class UnderWay(NamedTuple):
    """A step under way.

    Args:
        device: the device.
        step: the present step.
        fault_type, code: of the fault that it answers.
        deadline: time by which it has failed; infinity for none.
    """

    device: str
    step: DeviceStep
    fault_type: FaultType
    code: str
    deadline: float


@dataclass(slots=True)
class FaultCounts:
    """Numbers of events since the start of the process.

    Args:
        events: all of them.
        doubled: events that had come before.
        late: recoveries of a fault that has occurred again since, and recoveries without a fault.
        future: events with a time after their arrival; it counts as their time.
        not_remembered: faults beyond the bounds on devices and codes; they are answered, and then forgotten.
        counters_forgotten: counters of occurrences that gave their place to newer ones.
    """

    events: int = 0
    doubled: int = 0
    late: int = 0
    future: int = 0
    not_remembered: int = 0
    counters_forgotten: int = 0
