"""The state of a device as plain values for JSON, and back."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any

from taskd_net.base.codes import ConfigError
from taskd_net.base.untrusted import shown
from taskd_net.job.faults import editions
from taskd_net.job.faults.device import NEVER, Cause, Device, DeviceFault, Raised, StepPlan
from taskd_net.job.faults.events import Severity, fault_code
from taskd_net.job.faults.levels import TYPES, Action, DeviceStep, FaultType
from taskd_net.job.faults.rules import FaultRules


def to_plain(device: Device) -> dict[str, object]:
    """A device as a JSON object; parts without a content are left out."""
    parts: dict[str, object] = {
        "faults": {code: _fault(fault) for code, fault in device.faults.items()},
        "raised": {
            code: [each.type.word, each.since, _time(each.until), each.reason, each.release]
            for code, each in device.raised.items()
        },
        "occurrences": {code: times.tolist() for code, times in device.occurrences.items()},
        "counted": device.counted,
        "plan": None if device.plan is None else _plan(device.plan),
        "failed": _cause(device.failed),
        "held": _cause(device.held),
    }
    return {name: part for name, part in parts.items() if part}


def from_plain(name: str, value: object, rules: FaultRules) -> Device:
    """The device of a JSON object that `to_plain` has made.

    Args:
        name: of the device, for the error's text.
        value: the JSON value.
        rules: in force; the types by codes are those of today.

    Raises:
        ConfigError: the value is of another form.
    """
    try:
        return _device(value, rules)
    except (ArithmeticError, AttributeError, KeyError, LookupError, TypeError, ValueError) as error:
        text = f"the saved state of device {shown(name)} is {shown(value)}; expected the form of this release"
        raise ConfigError(f"{text} ({type(error).__name__})") from None


def _time(value: float) -> float | None:
    """A time; JSON has no infinity."""
    return None if value == NEVER else value


def _fault(fault: DeviceFault) -> list[object]:
    return [
        fault.since,
        None if fault.severity is None else fault.severity.value,
        fault.network,
        fault.stands,
        None if fault.frequent is None else fault.frequent.word,
        None if fault.lasting is None else fault.lasting.word,
        _time(fault.gone),
        *([fault.uncounted] if fault.uncounted else []),
    ]


def _plan(plan: StepPlan) -> list[object]:
    steps = [[step.action.value, step.limit] for step in plan.steps]
    return [plan.type.word, plan.code, steps, plan.index, _time(plan.deadline)]


def _cause(cause: Cause | None) -> list[object] | None:
    return None if cause is None else [cause.action.value, cause.code, cause.reason, cause.since]


def _device(value: Any, rules: FaultRules) -> Device:
    if not isinstance(value, Mapping):
        raise TypeError
    device = Device(counted=_read_time(value.get("counted", 0.0)))
    faults = value.get("faults", {})
    for text, (since, severity, network, stands, frequent, lasting, gone, *uncounted) in faults.items():
        code = fault_code(text)
        known, long = None if severity is None else Severity(severity), _read_type(lasting)
        fault = DeviceFault(
            since=_read_time(since),
            base=rules.type_of(code, known, network=bool(network)),
            severity=known,
            network=bool(network),
            stands=bool(stands),
            frequent=_read_type(frequent),
            lasting=long if code in rules.duration else None,
            gone=_read_time(gone),
            uncounted=_read_time(uncounted[0]) if uncounted else 0.0,
        )
        if len(device.faults) < editions.CODES_PER_DEVICE and (fault.stands or fault.lasting is not None):
            device.faults[code] = fault
    for text, (kind, since, until, reason, *release) in value.get("raised", {}).items():
        code = fault_code(text)
        if len(device.raised) < editions.RAISED_PER_DEVICE:
            rule = rules.frequency.get(code)
            # Releases before wrote none, and had an end from the beginning where there is one.
            after = release[0] if release else rule.release if rule is not None and until is not None else None
            if after is not None and (isinstance(after, bool) or not isinstance(after, int)):
                raise TypeError
            device.raised[code] = Raised(TYPES[kind], _read_time(since), _read_time(until), str(reason), after)
    for text, times in value.get("occurrences", {}).items():
        code = fault_code(text)
        rule = rules.frequency.get(code)
        # A counter that had reached its rule would have begun again.
        kept = 0 if rule is None else rule.times - 1
        if kept and times:
            device.occurrences[code] = array("d", sorted(map(_read_time, times))[-kept:])
    if (plan := value.get("plan")) is not None:
        kind, code, steps, index, deadline = plan
        found = tuple(
            DeviceStep(Action(action), None if limit is None else _read_time(limit)) for action, limit in steps
        )
        device.plan = StepPlan(TYPES[kind], fault_code(code), found, range(len(found))[index], _read_time(deadline))
    device.failed, device.held = _read_cause(value.get("failed")), _read_cause(value.get("held"))
    device.settle()
    return device


def _read_type(word: Any) -> FaultType | None:
    return None if word is None else TYPES[word]


def _read_time(value: Any) -> float:
    if value is None:
        return NEVER
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    return float(value)


def _read_cause(value: Any) -> Cause | None:
    if value is None:
        return None
    action, code, reason, since = value
    return Cause(Action(action), fault_code(code), str(reason), _read_time(since))
