"""The rules that the files give: frozen, checked, and complete."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self

from taskd_net.base.codes import ConfigError
from taskd_net.job.faults.editions import EDITIONS, LINKDOWN_TIMEOUT, Edition
from taskd_net.job.faults.events import FaultEvent, Severity
from taskd_net.job.faults.levels import FaultType, GraceTimes

CODES_FILE: Final = "faultCode.json"
CUSTOMIZATION_FILE: Final = "faultCustomization.json"
POLL_FILE: Final = "PollInterval"
FILES: Final = (CODES_FILE, CUSTOMIZATION_FILE, POLL_FILE)
"""The files of the ConfigMap `mindx-dl-fault-config`; the first one is needed."""

_MILD: Final = (Severity.NOTICE, Severity.MINOR)


class FrequencyRule(NamedTuple):
    """A fault that occurs often is handled as another type.

    Args:
        window: seconds in which occurrences count.
        times: occurrences that reach it.
        handling: the type from then on, if it is more serious than the fault's own.
        release: seconds after the fault's recovery, without another occurrence, after which it ends; None: with the
            fault, or by a person.
    """

    window: int
    times: int
    handling: FaultType
    release: int | None = None


class DurationRule(NamedTuple):
    """A fault that stands for long is handled as another type.

    Args:
        timeout: seconds; a fault that stands for longer is raised.
        recovery: seconds; a fault that is gone for longer has recovered.
        handling: the type of the raised fault, if it is more serious than the fault's own.
    """

    timeout: int
    recovery: int
    handling: FaultType


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in the files that is not as expected.

    Args:
        file: name of the file.
        entry: place in it: `FaultFrequency[2].Times`; empty for the file itself.
        value: in a form for people, cut to a few characters.
        expected: the form that was expected.
        effect: what is done with it: `ignored`, `60 is used`, `refused`.
        refused: the files as a whole are refused for it.
        hint: it is a fact for the reader, and no fault.
    """

    file: str
    entry: str
    value: str
    expected: str
    effect: str
    refused: bool = False
    hint: bool = False

    def __str__(self) -> str:
        place = f"{self.file}: {self.entry}" if self.entry else self.file
        return f"{place} is {self.value}; expected {self.expected}; {self.effect}"


class RulesRefused(ConfigError):
    """The files cannot be used. The text is that of the first reason.

    Args:
        problems: everything found until then; at least one has `refused`.
    """

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__(str(next(each for each in problems if each.refused)))
        self.problems = problems


def default_duration(edition: Edition, linkdown_timeout: int) -> Mapping[str, DurationRule]:
    """The rules of durations where no file has any."""
    table = EDITIONS[edition]
    recovery = table.duration["RecoverTimeout"].default or 0
    handling = FaultType.PRE_SEPARATE_NPU
    return {code: DurationRule(linkdown_timeout, recovery, handling) for code in table.duration_codes}


def default_grace(edition: Edition) -> GraceTimes:
    """The time limits of the grace mode where no file has any."""
    table = EDITIONS[edition]
    stop, reset = table.grace[table.stop_key].default, table.grace["WaitDeviceResetTime"].default
    healing = table.grace.get("WaitFaultSelfHealingTime")
    return GraceTimes(float(stop or 0), float(reset or 0), None if healing is None else float(healing.default or 0))


@dataclass(frozen=True, slots=True)
class FaultRules:
    """The rules in force. Without arguments: those of no file, by which the severity alone decides.

    Args:
        edition: by which the files were read.
        codes: the type of each code.
        frequency: rules of frequency, by code.
        duration: rules of duration, by code.
        grace: time limits of the grace mode.
    """

    edition: Edition = Edition.DOCUMENTED
    codes: Mapping[str, FaultType] = field(default_factory=dict)
    frequency: Mapping[str, FrequencyRule] = field(default_factory=dict)
    duration: Mapping[str, DurationRule] = field(
        default_factory=lambda: default_duration(Edition.DOCUMENTED, LINKDOWN_TIMEOUT.default or 0)
    )
    grace: GraceTimes = field(default_factory=lambda: default_grace(Edition.DOCUMENTED))

    @classmethod
    def of_no_file(
        cls, edition: Edition = Edition.DOCUMENTED, linkdown_timeout: int = LINKDOWN_TIMEOUT.default or 0
    ) -> Self:
        """The rules where there is no file: no codes, and the defaults of the edition."""
        return cls(edition=edition, duration=default_duration(edition, linkdown_timeout), grace=default_grace(edition))

    def type_of(self, code: str, severity: Severity | None, *, network: bool = False) -> FaultType:
        """The type of a fault by its code alone.

        An unknown code with a rule of duration waits for that, unless the edition knows it as one of the network. Any
        other unknown one is answered by its severity.
        """
        known = self.codes.get(code)
        if known is not None:
            return known
        if code in EDITIONS[self.edition].network_codes:
            return FaultType.PRE_SEPARATE_NPU
        if code in self.duration:
            return FaultType.NOT_HANDLE
        if network:
            return FaultType.PRE_SEPARATE_NPU
        return FaultType.NOT_HANDLE if severity in _MILD else FaultType.SEPARATE_NPU

    def reason(self, event: FaultEvent, base: FaultType) -> str:
        """The reason of a type by the code alone, in words."""
        if event.code in self.codes:
            return f"the code is listed as {base.word}"
        if event.code in EDITIONS[self.edition].network_codes:
            return "the code is in no list, and one of the network"
        if event.code in self.duration:
            return "the code is in no list, and its duration counts"
        if event.network:
            return "the code is unknown, and one of the network"
        severity = "it has no severity" if event.severity is None else f"its severity is {event.severity.value}"
        return f"the code is unknown, and {severity}"
