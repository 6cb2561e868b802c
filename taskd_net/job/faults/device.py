"""The state of one device: its faults, the steps under way, and why it is out."""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass, field
from typing import Final

from taskd_net.job.faults.events import Severity
from taskd_net.job.faults.levels import Action, DeviceStep, FaultType

NEVER: Final = math.inf

TO_BE_DONE: Final = frozenset({Action.WAIT_UNTIL_IDLE, Action.STOP_PROCESSES, Action.RESET_DEVICE})
"""Steps with an end that the caller reports."""

AWAITED: Final = TO_BE_DONE | {Action.WAIT_FOR_RECOVERY}
"""Steps with an end that the next step waits for. The policy itself sees the recovery."""


def after(moment: float) -> float:
    """The first time that is strictly later."""
    return math.nextafter(moment, NEVER)


@dataclass(slots=True)
class DeviceFault:
    """A fault of a device: it stands, or it was raised for its duration and has not been gone for long enough.

    Args:
        since: begin of its present standing.
        base: type by its code and severity.
        severity, network: as its event says.
        stands: it has not recovered.
        frequent: type by its frequency, for as long as it stands.
        lasting: type by its duration.
        gone: time of its recovery, while `lasting` goes on.
        uncounted: seconds after `since` that count for no rule of duration, as the clock has moved meanwhile.
    """

    since: float
    base: FaultType
    severity: Severity | None = None
    network: bool = False
    stands: bool = True
    frequent: FaultType | None = None
    lasting: FaultType | None = None
    gone: float = NEVER
    uncounted: float = 0.0

    def seen_again(self, since: float, base: FaultType, severity: Severity | None, network: bool) -> bool:
        """Take note of a further event of a fault that stands: it may have stood for longer than was known.

        Returns:
            True where its type by code and severity has become less serious.
        """
        self.since = min(self.since, since)
        before, self.base, self.severity, self.network = self.base, base, severity, network
        return base < before

    def recover(self, at: float) -> bool:
        """Take note of its recovery. Returns False where nothing of it goes on."""
        self.stands = False
        if self.lasting is None:
            return False
        self.gone = at
        return True

    def bring_under(self, base: FaultType, lasting: FaultType | None) -> bool:
        """Use the types of changed rules: by its code, and by the rule of duration that its code has.

        Returns:
            False where nothing of it goes on.
        """
        self.base = base
        if self.lasting is not None:
            self.lasting = lasting
        return self.stands or self.lasting is not None

    @property
    def type(self) -> FaultType:
        """Its type, after all rules."""
        most = self.base if self.stands else FaultType.NOT_HANDLE
        if self.frequent is not None and self.stands and self.frequent > most:
            most = self.frequent
        if self.lasting is not None and self.lasting > most:
            most = self.lasting
        return most

    @property
    def counted_from(self) -> float:
        """Begin of its duration, for the rules."""
        return self.since + self.uncounted

    def move(self, then: float, now: float) -> None:
        """Take note that the clock has moved. What has stood keeps its duration; an event may still name `since`."""
        begin = self.counted_from + (now - then)
        self.since = min(self.since, now)
        self.uncounted = begin - self.since
        self.gone += now - then


@dataclass(slots=True)
class Raised:
    """A type that the frequency of a fault has given its device, and that outlives the fault.

    Args:
        type: the type.
        since: time of the last reaching.
        until: time of its end; infinity while its fault stands, and where a person has to end it.
        reason: in words.
        release: seconds after the fault's end, without another occurrence, after which it ends; None: a person ends it.
    """

    type: FaultType
    since: float
    until: float
    reason: str
    release: int | None = None

    def ends(self, at: float, *, stands: bool) -> None:
        """Begin the time of its release where its fault is over since `at`; one that stands, or was raised for its
        duration and is not gone for long enough, takes it back.
        """
        if self.release is not None and stands:
            self.until = NEVER
        elif self.release is not None and self.until == NEVER:
            self.until = max(at, self.since) + self.release

    def comes_again(self, at: float, *, stands: bool) -> None:
        """The fault has occurred at a time, which may be before events that came earlier."""
        before, self.until = self.until, NEVER
        self.ends(at, stands=stands)
        if NEVER not in (before, self.until):
            self.until = max(before, self.until)

    def bring_under(self, fault_type: FaultType, release: int | None) -> None:
        """Use the type and the time of release of a changed rule. A release that runs counts from its begin."""
        self.type = fault_type
        if release is None or self.release is None:
            self.until = NEVER
        else:
            self.until += release - self.release
        self.release = release


@dataclass(slots=True)
class StepPlan:
    """Steps under way.

    Args:
        type, code: of the fault.
        steps: all of them.
        index: of the present one.
        deadline: its end, if it has one.
    """

    type: FaultType
    code: str
    steps: tuple[DeviceStep, ...]
    index: int = 0
    deadline: float = NEVER

    @property
    def step(self) -> DeviceStep:
        """The present step."""
        return self.steps[self.index]

    def begin(self, now: float) -> None:
        """Begin the time of the present step."""
        limit = self.step.limit
        self.deadline = NEVER if limit is None else after(now + limit)

    def go_on(self, now: float) -> bool:
        """Go on to the next step. Returns False where there is none that has to be awaited."""
        self.index += 1
        if self.index == len(self.steps) or self.step.action not in AWAITED:
            return False
        self.begin(now)
        return True


@dataclass(slots=True)
class Cause:
    """The reason for which a device is out.

    Args:
        action: ISOLATE_AND_RESCHEDULE or NO_NEW_JOB.
        code: of the fault.
        reason: in words.
        since: the time.
    """

    action: Action
    code: str
    reason: str
    since: float


@dataclass(slots=True)
class Device:
    """The state of a device.

    Args:
        faults: by code.
        raised: by code.
        occurrences: times of the counted occurrences, by code, in order.
        counted: time of the last one.
        plan: steps under way.
        failed: a step has failed, so the device is out until that fault recovers.
        held: why it takes no new job.
        standing: the most serious type on it; `rise` and `settle` keep it.
        wake: time by which to look at it.
        numbered: faults that count against the bound on all devices.
    """

    faults: dict[str, DeviceFault] = field(default_factory=dict)
    raised: dict[str, Raised] = field(default_factory=dict)
    occurrences: dict[str, array[float]] = field(default_factory=dict)
    counted: float = 0.0
    plan: StepPlan | None = None
    failed: Cause | None = None
    held: Cause | None = None
    standing: FaultType = FaultType.NOT_HANDLE
    wake: float = NEVER
    numbered: int = 0

    def move(self, then: float, now: float) -> None:
        """Take note that the clock has moved from `then` to `now`: waits move with it, and nothing is in the future."""
        for fault in self.faults.values():
            fault.move(then, now)
        for raised in self.raised.values():
            raised.since += now - then
            raised.until += now - then
        for times in self.occurrences.values():
            times[:] = array("d", (min(at, now) for at in times))
        self.counted = min(self.counted, now)
        if self.plan is not None:
            self.plan.deadline += now - then
        for cause in (self.failed, self.held):
            if cause is not None:
                cause.since = min(cause.since, now)

    def follow(self, fault_type: FaultType, code: str, steps: tuple[DeviceStep, ...], now: float) -> None:
        """Begin steps in place of those under way; steps that nobody has to await are over at once."""
        self.plan = None
        if steps[0].action in AWAITED:
            self.plan = StepPlan(max(fault_type, self.standing), code, steps)
            self.plan.begin(now)

    def stop(self) -> None:
        """End the steps under way."""
        self.plan = None

    def step_done(self, now: float) -> None:
        """Go on after the present step."""
        assert self.plan is not None
        if not self.plan.go_on(now):
            self.plan = None

    def give_up(self, reason: str, now: float) -> StepPlan:
        """End the steps under way, as one has failed, and return them. The device is out until their fault recovers."""
        assert self.plan is not None
        plan, self.plan = self.plan, None
        self.failed = Cause(Action.ISOLATE_AND_RESCHEDULE, plan.code, reason, now)
        return plan

    def forgive(self) -> str:
        """Forget that a step has failed. Returns the code of its fault; empty where none has."""
        failed, self.failed = self.failed, None
        return "" if failed is None else failed.code

    def hold(self, wanted: Action | None, code: str, reason: str, now: float) -> None:
        """Keep the device from new jobs, or from all; None: neither. A cause of as much stays as it is."""
        if wanted is None:
            self.held = None
        elif self.held is None or (self.held.action is Action.NO_NEW_JOB and wanted is not self.held.action):
            self.held = Cause(wanted, code, reason, now)

    def held_for(self, code: str) -> None:
        """Name the most serious type as the cause for which it is held, where a fault of this code was that."""
        if self.held is not None and self.held.code == code:
            top, reason = self.top()
            self.held.code, self.held.reason = top or code, reason or self.held.reason

    def top(self) -> tuple[str, str]:
        """The code of the most serious type on it, and the reason that stands for it; empty for none."""
        if self.failed is not None:
            return self.failed.code, self.failed.reason
        for code, raised in self.raised.items():
            if raised.type is self.standing:
                return code, raised.reason
        for code, fault in self.faults.items():
            if fault.type is self.standing:
                return code, f"{fault.type.word} stands"
        return "", ""

    @property
    def empty(self) -> bool:
        """True where there is nothing to remember."""
        return not (self.faults or self.raised or self.occurrences or self.plan or self.failed)

    def rise(self, code: str) -> None:
        """Take note that a code has become more serious."""
        fault, raised = self.faults.get(code), self.raised.get(code)
        if fault is not None and (kind := fault.type) > self.standing:
            self.standing = kind
        if raised is not None and raised.type > self.standing:
            self.standing = raised.type

    def settle(self) -> None:
        """Find the most serious type again, after that of a code has become less serious or is gone."""
        most = FaultType.NOT_HANDLE
        for fault in self.faults.values():
            most = max(most, fault.type)
        for raised in self.raised.values():
            most = max(most, raised.type)
        self.standing = most

    def least_serious(self) -> str:
        """The code of a fault that is not more serious than any other."""
        found, least = "", FaultType.MANUALLY_SEPARATE_NPU
        for code, fault in self.faults.items():
            if (kind := fault.type) < least:
                found, least = code, kind
                if kind is FaultType.NOT_HANDLE:
                    break
        return found

    def least_raised(self) -> str:
        """The raised code that is not more serious than any other."""
        return min(self.raised, key=lambda code: self.raised[code].type)

    def stands(self, code: str) -> bool:
        """True while a fault of this code has not recovered."""
        fault = self.faults.get(code)
        return fault is not None and fault.stands
