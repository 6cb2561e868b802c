"""Every problem of a scenario file, with its line and the expected value."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias, cast

import yaml
from jsonschema import Draft202012Validator, ValidationError, validators

from taskd_net.base.untrusted import parsed, printable, shown
from taskd_net_lab.clusterd.course import Wait
from taskd_net_lab.clusterd.messages import Queue, Stream
from taskd_net_lab.clusterd.round import STRATEGIES
from taskd_net_lab.clusterd.table import TABLE, State

Place: TypeAlias = tuple[str | int, ...]

MARKS: Final = ("registered", "subscribed", "unsubscribed")
STREAMS: Final = (
    *Stream,
    "SubscribeSwitchNicSignal",
    "SubscribeStressTestResponse",
    "SubscribeDataTraceSwitch",
)
UNARY: Final = ("Init", "Register", "HealthCheck", *Queue, "ReportProcessFault", "SwitchNicTrack", "StressTest")
DOMAINS: Final = ("CommunicationOperator", "Step", "SaveCheckpoint", "FP", "DataLoader")
GRPC: Final = (
    *("CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS"),
    *("PERMISSION_DENIED", "UNAUTHENTICATED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED"),
    *("OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"),
)


class Problem(NamedTuple):
    """A problem of a scenario: its line, and a text that names the place, the value and the expected one."""

    line: int
    text: str


def _leaf(expected: str, **rules: object) -> dict[str, object]:
    return {**rules, "expected": expected}


def _one_of(*values: str) -> dict[str, object]:
    return _leaf(f"one of {', '.join(values)}", enum=list(values))


def _list(item: dict[str, object], least: int = 0) -> dict[str, object]:
    return _leaf(f"a list, each item {item['expected']}", type="array", items=item, minItems=least)


def _map(required: tuple[str, ...] = (), **properties: dict[str, object]) -> dict[str, object]:
    names = {name.rstrip("_"): rules for name, rules in properties.items()}
    return _leaf(
        f"a mapping with keys of {', '.join(names)}",
        type="object",
        properties=names,
        required=list(required),
        additionalProperties=False,
    )


_TEXT: Final = _leaf("a text", type="string", minLength=1)
_ANY_TEXT: Final = _leaf("a text", type="string")
_SWITCH: Final = _leaf("on or off", type="boolean")
_SECONDS: Final = _leaf("a number of seconds, at least 0", type="number", minimum=0, maximum=1e9)
_WHOLE: Final = _leaf("a whole number, at least 0", type="integer", minimum=0)
_POSITIVE: Final = _leaf("a whole number from 1 to 1000000", type="integer", minimum=1, maximum=1_000_000)
_CODE: Final = _leaf("a code from 0 to 9999", type="integer", minimum=0, maximum=9999)
_INT64: Final = _leaf(f"a whole number from 0 to {2**63 - 1}", type="integer", minimum=0, maximum=2**63 - 1)
_TYPE: Final = _leaf("0 (memory), 1 (other) or 2 (network)", type="integer", enum=[0, 1, 2])
_RANKS: Final = _list(_WHOLE, 1)
_WAITS: Final = _map((), **dict.fromkeys(map(str, Wait), _SECONDS))
_SETTINGS: Final = {
    **dict.fromkeys(("enabled", "known", "writable", "loses"), _SWITCH),
    "strategies": _list(_one_of(*STRATEGIES)),
}

ACTIONS: Final[Mapping[str, dict[str, object]]] = {
    "fault": _map(("ranks",), ranks=_RANKS, type=_TYPE, in_place=_SWITCH, pre_exit=_SWITCH),
    "hot_switch": _map(("ranks",), ranks=_RANKS, type=_TYPE),
    "switch_cards": _map(("ranks",), ranks=_RANKS, backup=_SWITCH),
    "stress_test": _map(
        ("ranks",),
        ranks=_RANKS,
        ops=_list(_leaf("0 (cores) or 1 (links between devices)", type="integer", enum=[0, 1]), 1),
    ),
    "profiling": _map((), **dict.fromkeys(DOMAINS, _SWITCH)),
    "signal": _map(
        ("type",),
        type=_TEXT,
        uuid=_TEXT,
        actions=_list(_TEXT),
        ranks=_RANKS,
        fault=_TYPE,
        strategy=_TEXT,
        timeout=_INT64,
        nodes=_list(_WHOLE),
        extra=_ANY_TEXT,
        count=_POSITIVE,
    ),
    "change": _map((), **_SETTINGS, waits=_WAITS),
    "away": _SECONDS,
    "end": _leaf("on", const=True),
}

SCHEMA: Final = _map(
    ("jobs",),
    jobs=_list(_map(("id",), id=_TEXT, nodes=_POSITIVE, processes=_POSITIVE, **_SETTINGS), 1),
    waits=_WAITS,
    outcomes=_list(_map(("state", "event"), state=_one_of(*State), event=_TEXT)),
    answers=_list(
        _map(
            ("call",),
            call=_one_of(*UNARY, *STREAMS),
            code=_CODE,
            info=_ANY_TEXT,
            grpc=_one_of(*GRPC),
            silent=_leaf("on", const=True),
            times=_POSITIVE,
            from_=_SECONDS,
            until=_SECONDS,
        )
    ),
    steps=_list(_map((), when=_one_of(*MARKS, *State), wait=_SECONDS, job=_TEXT, **ACTIONS)),
)


def _is_whole(_: object, value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(_: object, value: object) -> bool:
    return _is_whole(_, value) or (isinstance(value, float) and math.isfinite(value))


# By JSON Schema 2.0 is an integer, and NaN a number within any bounds.
_Validator: Final = validators.extend(
    Draft202012Validator,
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine_many({"integer": _is_whole, "number": _is_number}),
)


def check(text: str) -> dict[str, Any] | list[Problem]:
    """Read and check a scenario.

    Args:
        text: in YAML.

    Returns:
        The content, which `reader` takes as it is; or its problems, by line.
    """
    try:
        tree = parsed(_Tree, text)
    except (ValueError, yaml.YAMLError) as failed:
        mark = getattr(failed, "problem_mark", None)
        words = getattr(failed, "problem", None) or str(failed)
        return [Problem(1 if mark is None else mark.line + 1, f"no YAML: {' '.join(words.split())}")]
    problems = tree.problems
    wrong: set[Place] = set()
    for error in _Validator(SCHEMA).iter_errors(tree.value):
        if tuple(error.absolute_path) not in tree.missing:
            problems += _violations(tree, error)
        wrong.add(tuple(error.absolute_path)[:2])
    if not any(place[:1] in ((), ("jobs",)) and len(place) < 2 for place in wrong):
        problems += _contradictions(tree, wrong)
    return sorted(set(problems)) if problems else cast("dict[str, Any]", tree.value)


class _Tree:
    """Plain values of a YAML text, and the line of each place.

    Args:
        text: the text.

    Attributes:
        problems: values that cannot be read, and keys.
        missing: places of these values, which are None.

    Raises:
        yaml.YAMLError: it is no YAML.
    """

    def __init__(self, text: str) -> None:
        self.problems: list[Problem] = []
        self.missing: set[Place] = set()
        self._lines: dict[Place, int] = {}
        self._seen: set[int] = set()
        self._loader = yaml.SafeLoader(text)
        try:
            node = self._loader.get_single_node()
            self.value: Any = None if node is None else self._read(node, ())
        finally:
            self._loader.dispose()

    def line(self, place: Place) -> int:
        """The line of a place, or of the nearest one around it."""
        while place and place not in self._lines:
            place = place[:-1]
        return self._lines.get(place, 1)

    def _read(self, node: yaml.Node, place: Place) -> object:
        line = node.start_mark.line + 1
        self._lines.setdefault(place, line)
        if id(node) in self._seen:
            self._note_unread(line, place, "is an alias; expected the value itself")
            return None
        self._seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            return [self._read(item, (*place, index)) for index, item in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode):
            return dict(self._entries(node, place))
        try:
            return _encodable(self._loader.construct_object(node))
        except ValueError as error:
            words = str(error)
        except (LookupError, AttributeError, yaml.YAMLError):  # PyYAML's parsers of its tags fail in many ways
            words = f"it does not fit its tag {printable(node.tag)}"
        self._note_unread(line, place, f"is {shown(node.value)}, no value of YAML: {words}")
        return None

    def _note_unread(self, line: int, place: Place, text: str) -> None:
        self.missing.add(place)
        self.problems.append(Problem(line, f"{_name(place)} {text}"))

    def _entries(self, node: yaml.MappingNode, place: Place) -> Iterator[tuple[str, object]]:
        names = set()
        for key_node, value in node.value:
            line, key = key_node.start_mark.line + 1, key_node.value
            if not isinstance(key_node, yaml.ScalarNode):
                self.problems.append(Problem(line, f"a key in {_name(place)} is no text; expected a name"))
                continue
            if key in names:
                self.problems.append(Problem(line, f"{_name((*place, key))} is there twice; expected once"))
            names.add(key)
            self._lines[(*place, key)] = line
            yield key, self._read(value, (*place, key))


def _encodable(value: object) -> object:
    """A value, unless it is a text that no message can carry.

    Raises:
        UnicodeEncodeError: half of a surrogate pair, which YAML can write as an escape.
    """
    if isinstance(value, str):
        value.encode()
    return value


def _violations(tree: _Tree, error: ValidationError) -> Iterator[Problem]:
    place: Place = tuple(error.absolute_path)
    rules = error.schema
    assert isinstance(rules, Mapping)
    if error.validator == "required":
        for name in set(rules["required"]) - set(error.instance):
            expected = rules["properties"][name]["expected"]
            yield Problem(tree.line(place), f"{_name((*place, name))} is missing; expected {expected}")
    elif error.validator == "additionalProperties":
        for name in set(error.instance) - set(rules["properties"]):
            known = ", ".join(rules["properties"])
            inner = (*place, name)
            yield Problem(tree.line(inner), f"{_name(inner)} is unknown; expected one of {known}")
    else:
        yield Problem(tree.line(place), f"{_name(place)} is {shown(error.instance)}; expected {rules['expected']}")


def _contradictions(tree: _Tree, wrong: Collection[Place]) -> Iterator[Problem]:
    """Problems of values that are right alone, but not together. Values that are wrong alone have theirs already.

    Args:
        tree: a mapping with a list of jobs.
        wrong: entries with a value that is wrong alone.
    """

    def entries(name: str) -> Iterator[tuple[Place, Mapping[str, Any]]]:
        given = tree.value.get(name, ())
        for index, entry in enumerate(given if isinstance(given, list) else ()):
            if isinstance(entry, Mapping):
                yield (name, index), entry

    sizes: dict[str, int | None] = {}
    for place, job in entries("jobs"):
        name = str(job.get("id"))
        if job.get("id") is not None and name in sizes:
            yield Problem(tree.line(place), f"{_name((*place, 'id'))} is {name!r} again; expected another name")
        sizes[name] = None if place in wrong else job.get("nodes", 1) * job.get("processes", 1)
    for place, outcome in entries("outcomes"):
        if place not in wrong and outcome["event"] not in (events := list(TABLE[State(outcome["state"])])):
            inner = (*place, "event")
            text = f"{_name(inner)} is {outcome['event']!r}; expected one of {', '.join(events)}"
            yield Problem(tree.line(inner), text)
    for place, answer in entries("answers"):
        yield from _answer(tree, place, answer)
    for place, step in entries("steps"):
        yield from _step(tree, place, step, sizes)


def _answer(tree: _Tree, place: Place, answer: Mapping[str, object]) -> Iterator[Problem]:
    if len(answer.keys() & {"code", "grpc", "silent"}) != 1:
        yield Problem(tree.line(place), f"{_name(place)} has no single answer; expected one of code, grpc, silent")
    elif "code" in answer and answer.get("call") in STREAMS:
        inner = (*place, "code")
        yield Problem(tree.line(inner), f"{_name(inner)} is for a stream; expected grpc or silent")


def _step(tree: _Tree, place: Place, step: Mapping[str, Any], sizes: Mapping[str, int | None]) -> Iterator[Problem]:
    """Problems of a step; `sizes` has the ranks of each job, None where its size is wrong."""
    actions = step.keys() & ACTIONS.keys()
    if len(actions) != 1:
        found = f"has {len(actions)} actions"
        yield Problem(tree.line(place), f"{_name(place)} {found}; expected one of {', '.join(ACTIONS)}")
    name = step.get("job", next(iter(sizes), None))
    if isinstance(name, str) and name not in sizes:
        inner: Place = (*place, "job")
        yield Problem(tree.line(inner), f"{_name(inner)} is {name!r}; expected one of {', '.join(sizes)}")
    size = sizes.get(name) if isinstance(name, str) else None
    if size is None:
        return
    for action in actions - {"signal"}:
        ranks = step[action].get("ranks") if isinstance(step[action], Mapping) else None
        for index, rank in enumerate(ranks if isinstance(ranks, list) else ()):
            if isinstance(rank, int) and rank >= size:
                inner = (*place, action, "ranks", index)
                yield Problem(tree.line(inner), f"{_name(inner)} is {rank}; expected a rank below {size}")


def _name(place: Place) -> str:
    """A place in words: `steps[1].fault.ranks`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{printable(part)}" for part in place)
    return text.removeprefix(".") or "the file"
