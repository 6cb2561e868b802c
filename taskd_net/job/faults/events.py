"""Events of devices: a fault has occurred, has recovered, or has happened at one moment."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple, TypeVar

from taskd_net.base.codes import ArgumentError
from taskd_net.base.untrusted import shown
from taskd_net.job.faults import editions

E = TypeVar("E", bound=StrEnum)

_CODE: Final = re.compile(r"(?:0[xX])?([0-9a-fA-F]{8,9})", re.ASCII)
CODE_FORM: Final = "8 or 9 hexadecimal digits, e.g. 8C0A4E00"


class FaultKind(StrEnum):
    """The kinds of event."""

    OCCURRED = "occurred"
    RECOVERED = "recovered"
    ONCE = "once"


class Severity(StrEnum):
    """The severity that the driver gives a fault; it counts for codes that no file has."""

    NOTICE = "notice"
    MINOR = "minor"
    MAJOR = "major"
    CRITICAL = "critical"


class FaultEvent(NamedTuple):
    """An event of a device. `read_event` makes it of what comes from outside.

    Args:
        code: of the fault, as `fault_code` gives it.
        device: its name, unique in the job.
        kind: occurred, recovered, or once.
        severity: as the driver says; None for unknown.
        at: time of the event, in seconds since the epoch.
        network: the fault is one of the network; it counts for codes that no file has.
    """

    code: str
    device: str
    kind: FaultKind
    severity: Severity | None
    at: float
    network: bool = False


def fault_code(text: object, name: str = "code") -> str:
    """A fault code in upper case, with eight digits where its number has no more: `020000002` is `20000002`.

    Raises:
        ArgumentError: it is none.
    """
    found = _CODE.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise ArgumentError(f"{name} is {shown(text)}; expected {CODE_FORM}")
    return f"{int(found[1], 16):08X}"


def device_name(text: object, name: str = "device") -> str:
    """A name of a device.

    Raises:
        ArgumentError: it is none.
    """
    most = editions.DEVICE_CHARS
    if isinstance(text, str) and 0 < len(text) <= most and text.isprintable() and not text.isspace():
        return text
    raise ArgumentError(f"{name} is {shown(text)}; expected a name of 1 to {most} printable characters")


def read_event(value: object, at: float | None = None) -> FaultEvent:
    """Read an event: an object with `code`, `device`, and `kind`, `severity`, `at`, `network` where they are known.

    Args:
        value: the JSON value.
        at: time of an event that has none; None: it is needed.

    Raises:
        ArgumentError: names the key, its value and what was expected.
    """
    if not isinstance(value, Mapping):
        raise ArgumentError(f"event is {shown(value)}; expected a JSON object")
    when = value.get("at", at)
    if isinstance(when, bool) or not isinstance(when, int | float) or not _is_time(when):
        raise ArgumentError(f"at is {shown(when)}; expected seconds since the epoch")
    network = value.get("network", False)
    if not isinstance(network, bool):
        raise ArgumentError(f"network is {shown(network)}; expected true or false")
    severity = value.get("severity")
    return FaultEvent(
        code=fault_code(value.get("code")),
        device=device_name(value.get("device")),
        kind=_word(FaultKind, value.get("kind", "occurred"), "kind"),
        severity=None if severity is None else _word(Severity, severity, "severity"),
        at=float(when),
        network=network,
    )


def _is_time(value: float) -> bool:
    return 0 <= value <= editions.TIME_MOST_S and math.isfinite(value)


def _word(kind: type[E], value: object, name: str) -> E:
    try:
        return kind(value)  # type: ignore[arg-type]
    except (ValueError, TypeError):
        words = ", ".join(each.value for each in kind)
        raise ArgumentError(f"{name} is {shown(value)}; expected one of {words}") from None
