"""The files of the ConfigMap, on their way to rules.

Nothing in a file raises but `RulesRefused`. A value that cannot be used costs itself or its entry, and is named.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

from taskd_net.base.codes import ArgumentError
from taskd_net.base.untrusted import natural, parsed, shown
from taskd_net.job.faults import editions
from taskd_net.job.faults.editions import EDITIONS, Edition
from taskd_net.job.faults.events import CODE_FORM, fault_code
from taskd_net.job.faults.levels import TYPES, FaultType, GraceTimes
from taskd_net.job.faults.rules import (
    CODES_FILE,
    CUSTOMIZATION_FILE,
    POLL_FILE,
    DurationRule,
    FaultRules,
    FrequencyRule,
    Problem,
    RulesRefused,
    default_duration,
    default_grace,
)

R = TypeVar("R")

PROBLEMS: Final = 1_000
"""Problems that are kept of one reading; the others are counted."""


def read_rules(
    files: Mapping[str, bytes],
    edition: Edition = Edition.DOCUMENTED,
    linkdown_timeout: int = editions.LINKDOWN_TIMEOUT.default or 0,
) -> tuple[FaultRules, tuple[Problem, ...]]:
    """The rules of the files, and everything in them that is not as expected.

    Args:
        files: the bytes of each file, by its name: `faultCode.json`, and `faultCustomization.json` if there is one.
        edition: by which they are read.
        linkdown_timeout: default of the documented FaultTimeout, in seconds.

    Raises:
        RulesRefused: a file is missing, or cannot be used; it has all problems.
    """
    return _Reader(edition, linkdown_timeout).read(files)


def poll_interval(data: bytes | None) -> tuple[int, Problem | None]:
    """The seconds in the file `PollInterval`, and the problem with it; the default where there is no file."""
    least, most, default = editions.POLL_INTERVAL
    assert default is not None
    if data is None:
        return default, None
    text = data[: editions.DEVICE_CHARS].decode("utf-8", "replace").strip().strip('"')
    seconds = natural(text, most)
    if seconds is not None and seconds >= least:
        return seconds, None
    expected = f"whole seconds from {least} to {most}"
    return default, Problem(POLL_FILE, "", shown(text), expected, f"{default} is used")


class _Object(dict[str, object]):
    """A JSON object that remembers its doubled keys."""

    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        super().__init__(pairs)
        self.doubled: Sequence[str] = ()
        if len(self) < len(pairs):
            self.doubled = sorted(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)


def _no_number(text: str) -> object:
    raise ValueError(f"{text} is no number of JSON")


_load: Final = partial(json.loads, object_pairs_hook=_Object, parse_constant=_no_number)


class _Reader:
    """One reading of the files."""

    def __init__(self, edition: Edition, linkdown_timeout: int) -> None:
        self._edition = edition
        self._table = EDITIONS[edition]
        self._other = next(each for each in Edition if each is not edition)
        self._linkdown_timeout = linkdown_timeout
        self._problems: list[Problem] = []
        self._further = 0
        self._foreign: list[str] = []
        self._file = ""

    def read(self, files: Mapping[str, bytes]) -> tuple[FaultRules, tuple[Problem, ...]]:
        codes = self._codes(self._object(files, CODES_FILE))
        custom = self._object(files, CUSTOMIZATION_FILE) if CUSTOMIZATION_FILE in files else _Object([])
        self._known_keys(custom, "", ("GraceTolerance", "FaultFrequency", "FaultDuration"))
        rules = FaultRules(
            edition=self._edition,
            codes=codes,
            frequency=self._frequency(custom),
            duration=self._duration(custom),
            grace=self._grace(custom),
        )
        return rules, self._found()

    def _found(self) -> tuple[Problem, ...]:
        found = list(self._problems)
        if self._further:
            text = f"a source of {self._further} further problems"
            found.append(Problem("the folder", "", text, "none", "they are not listed one by one"))
        if self._foreign:
            others = f" and {len(self._foreign) - 1} more" if len(self._foreign) > 1 else ""
            text = f"like the edition `{self._other}`: {self._foreign[0]}{others}"
            effect = f"it is read as `{self._edition}`; to change that, set fault_edition to `{self._other}`"
            found.append(Problem("the folder", "", text, f"files of the edition `{self._edition}`", effect, hint=True))
        return tuple(found)

    def _problem(self, entry: str, value: object, expected: str, effect: str) -> None:
        if len(self._problems) >= PROBLEMS:
            self._further += 1
            return
        text = value.text if isinstance(value, _Said) else shown(value)
        self._problems.append(Problem(self._file, entry, text, expected, effect))

    def _refuse(self, entry: str, value: str, expected: str) -> RulesRefused:
        self._problems.append(Problem(self._file, entry, value, expected, "refused", refused=True))
        return RulesRefused(self._found())

    def _object(self, files: Mapping[str, bytes], name: str) -> _Object:
        self._file = name
        data = files.get(name)
        if data is None:
            raise self._refuse("", "missing", "a file")
        if len(data) > editions.FILE_BYTES:
            raise self._refuse("", f"{len(data)} bytes long", f"{editions.FILE_BYTES} at most")
        try:
            value: object = parsed(_load, data.decode("utf-8-sig"))
        except UnicodeDecodeError as error:
            raise self._refuse("", f"no UTF-8 at byte {error.start}", "UTF-8") from None
        except ValueError as error:
            raise self._refuse("", f"no JSON: {error}", "a JSON object") from None
        if not isinstance(value, _Object):
            raise self._refuse("", shown(value), "a JSON object")
        return value

    def _known_keys(self, value: _Object, entry: str, known: Sequence[str], foreign: Sequence[str] = ()) -> None:
        """Name the keys of an object that nobody reads, and those that stand in it twice."""
        inside = f"{entry}." if entry else ""
        for key in value:
            if key in known:
                continue
            if key in foreign:
                self._foreign.append(f"{inside}{key}")
            place, words = f"{inside}{shown(key)[1:-1]}", ", ".join(known)
            self._problem(place, _Said("an unknown key"), f"one of {words}", "ignored")
        for key in value.doubled:
            self._problem(f"{inside}{shown(key)[1:-1]}", _Said("there more than once"), "one", "the last one counts")

    def _entries(self, custom: _Object, section: str) -> Iterator[tuple[str, _Object]]:
        """The entries of a list of objects, with their places."""
        value = custom.get(section, [])
        if not isinstance(value, list):
            self._problem(section, value, "a list of objects", "ignored")
            return
        for number, each in enumerate(value):
            place = f"{section}[{number}]"
            if isinstance(each, _Object):
                yield place, each
            else:
                self._problem(place, each, "an object", "ignored")

    def _event_ids(self, entry: _Object, place: str) -> list[tuple[str, str]]:
        """The codes of an entry, each with its place."""
        value = entry.get("EventId")
        several = isinstance(value, list)
        found: list[tuple[str, str]] = []
        if value == []:
            self._problem(f"{place}.EventId", value, "a code, or a list of codes", "ignored")
        for number, each in enumerate(value if isinstance(value, list) else [value]):
            at = f"{place}.EventId[{number}]" if several else f"{place}.EventId"
            try:
                found.append((at, fault_code(each)))
            except ArgumentError:
                self._problem(at, each, CODE_FORM, "ignored")
        return found

    def _in_range(self, entry: _Object, place: str, key: str, limits: editions.Range, effect: str) -> int | None:
        """A number of an entry; None where it is out of range, no number, or missing without a default."""
        if key not in entry and limits.default is not None:
            return limits.default
        value = entry.get(key)
        if type(value) is int and limits.least <= value <= limits.most:
            return value
        said = value if key in entry else _Said("missing")
        self._problem(f"{place}.{key}", said, f"a whole number from {limits.least} to {limits.most}", effect)
        section = place.partition("[")[0]
        other = EDITIONS[self._other].numbers(section).get(key)
        if other is not None and type(value) is int and other.least <= value <= other.most:
            self._foreign.append(f"{place}.{key} {value}")
        return None

    def _codes(self, value: _Object) -> Mapping[str, FaultType]:
        keys = self._table.code_keys
        self._known_keys(value, "", tuple(keys), tuple(EDITIONS[self._other].code_keys))
        codes: dict[str, FaultType] = {}
        for key, fault_type in keys.items():
            items = value.get(key, [])
            if not isinstance(items, list):
                raise self._refuse(key, shown(items), "a list of codes")
            for number, each in enumerate(items):
                try:
                    code = fault_code(each)
                except ArgumentError:
                    self._problem(f"{key}[{number}]", each, CODE_FORM, "ignored")
                    continue
                listed = self._listed(code, key, number, fault_type)
                before = codes.setdefault(code, listed)
                if before is not listed:
                    codes[code] = wins = max(before, listed)
                    said = _Said(f"{code}, which is a code of {before.word} too")
                    self._problem(f"{key}[{number}]", said, "a code in one list", f"{wins.word} counts")
        if not codes:
            self._problem("", _Said("without codes"), "codes", "every code is answered by its severity")
        return codes

    def _listed(self, code: str, key: str, number: int, fault_type: FaultType) -> FaultType:
        """The type of a code in a list. A code of the network has few of them outside of the lists of the network."""
        known = editions.NETWORK_TYPES
        if code not in self._table.network_codes or key.endswith(editions.NETWORK_KEYS) or fault_type in known:
            return fault_type
        words = ", ".join(each.word for each in sorted(known))
        said = _Said(f"{code}, a code of the network")
        self._problem(f"{key}[{number}]", said, f"it as one of {words}", f"{FaultType.NOT_HANDLE.word} is used")
        return FaultType.NOT_HANDLE

    def _grace(self, custom: _Object) -> GraceTimes:
        value, default = custom.get("GraceTolerance", _Object([])), default_grace(self._edition)
        if not isinstance(value, _Object):
            self._problem("GraceTolerance", value, "an object", "the defaults are used")
            return default
        ranges = self._table.grace
        self._known_keys(value, "GraceTolerance", tuple(ranges), tuple(EDITIONS[self._other].grace))
        found: dict[str, float] = {}
        for key, limits in ranges.items():
            seconds = self._in_range(value, "GraceTolerance", key, limits, f"{limits.default} is used")
            found[key] = float(limits.default or 0) if seconds is None else float(seconds)
        stop, reset = found[self._table.stop_key], found["WaitDeviceResetTime"]
        return GraceTimes(stop, reset, found.get("WaitFaultSelfHealingTime"))

    def _handling(self, entry: _Object, place: str, allowed: frozenset[FaultType], effect: str) -> FaultType | None:
        value = entry.get("FaultHandling")
        fault_type = TYPES.get(value) if isinstance(value, str) else None
        if fault_type in allowed:
            return fault_type
        said = value if "FaultHandling" in entry else _Said("missing")
        words = ", ".join(each.word for each in sorted(allowed))
        self._problem(f"{place}.FaultHandling", said, words if len(allowed) == 1 else f"one of {words}", effect)
        if fault_type is FaultType.SUB_HEALTH:
            self._foreign.append(f"{place}.FaultHandling {value}")
        return None

    def _frequency(self, custom: _Object) -> Mapping[str, FrequencyRule]:
        rules: dict[str, FrequencyRule] = {}
        table, other = self._table, EDITIONS[self._other]
        for place, entry in self._entries(custom, "FaultFrequency"):
            known = ("EventId", *table.frequency, "FaultHandling")
            self._known_keys(entry, place, known, tuple(other.frequency))
            ids = self._event_ids(entry, place)
            handling = self._handling(entry, place, table.frequency_types, "the entry is ignored")
            numbers: dict[str, int | None] = {}
            for key, limits in table.frequency.items():
                optional = key == "ReleaseTimeWindow" and handling is FaultType.MANUALLY_SEPARATE_NPU
                missing = key not in entry or (type(entry[key]) is int and entry[key] == 0)  # as for the platform
                if not (optional and missing):
                    numbers[key] = self._in_range(entry, place, key, limits, "the entry is ignored")
            if handling is None or None in numbers.values():
                continue
            window, times = numbers["TimeWindow"], numbers["Times"]
            assert window is not None and times is not None
            rule = FrequencyRule(window, times, handling, numbers.get("ReleaseTimeWindow"))
            for at, code in ids:
                self._first(rules, at, code, rule)
        return rules

    def _first(self, rules: dict[str, R], at: str, code: str, rule: R) -> None:
        """Keep a rule, unless the code has one."""
        if code in rules:
            self._problem(at, code, "a code with one rule", "ignored, as the first rule of a code counts")
        else:
            rules[code] = rule

    def _duration(self, custom: _Object) -> Mapping[str, DurationRule]:
        rules: dict[str, DurationRule] = {}
        table = self._table
        for place, entry in self._entries(custom, "FaultDuration"):
            self._known_keys(entry, place, ("EventId", *table.duration, "FaultHandling"))
            if (handling := self._duration_handling(entry, place)) is None:
                continue
            for at, code in self._event_ids(entry, place):
                if table.duration_codes and code not in table.duration_codes:
                    self._problem(at, code, " or ".join(sorted(table.duration_codes)), "ignored")
                    self._foreign.append(f"{at} {code}")
                elif (rule := self._duration_rule(entry, place, code, handling)) is not None:
                    self._first(rules, at, code, rule)
        if table.duration_defaults:
            rules = {**default_duration(self._edition, self._linkdown_timeout), **rules}
        return rules

    def _duration_handling(self, entry: _Object, place: str) -> FaultType | None:
        allowed = self._table.duration_types
        if not self._table.duration_defaults:
            return self._handling(entry, place, allowed, "the entry is ignored")
        (only,) = allowed
        if "FaultHandling" in entry:
            self._handling(entry, place, allowed, f"{only.word} is used")
        return only

    def _duration_rule(self, entry: _Object, place: str, code: str, handling: FaultType) -> DurationRule | None:
        table, found = self._table, dict[str, int]()
        for key, limits in table.duration.items():
            default = table.duration_of_code.get(code, {}).get(key, limits.default)
            if table.duration_defaults and key == "FaultTimeout":
                default = self._linkdown_timeout
            effect = f"{default} is used" if table.duration_defaults else "the entry is ignored"
            seconds = self._in_range(entry, place, key, limits._replace(default=default), effect)
            if seconds is None and table.duration_defaults:
                seconds = default
            if seconds is None:
                return None
            found[key] = seconds
        return DurationRule(found["FaultTimeout"], found["RecoverTimeout"], handling)


class _Said:
    """A description that stands in the place of a value."""

    def __init__(self, text: str) -> None:
        self.text = text
