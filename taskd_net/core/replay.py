"""Runs of a Router that are written down and repeated: for bug reports, and for tests.

A record is lines of JSON. The first says which node it was, each other has one event and its `Ready`. A message is
recorded by its header and its size alone; a Router never looks at the body. Sessions and sockets are names.

    Recorder(router, config, write, limit)     # before the first event
    differences = replay(lines)                                   # the events again: [] if everything is the same
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from sys import intern
from typing import Any, Final

from taskd_net.base.codes import Code, Refusal
from taskd_net.base.peer_limits import Limits
from taskd_net.base.position import Destination, Position
from taskd_net.core.acks import UNTOLD, Answer, Told
from taskd_net.core.certificate_name import CertificateName
from taskd_net.core.frame import Ack, Adapted, Failure, Frame, Probe, Traced
from taskd_net.core.identity import Credentials, Violation
from taskd_net.core.links import Terms
from taskd_net.core.quirks import Quirks
from taskd_net.core.ready import Kind, Ready, Writes
from taskd_net.core.router import Router, RouterConfig

EVENTS: Final = (
    "announce_all",
    "announce_answered",
    "announced",
    "answers_arrived",
    "bounds_broken",
    "call_arrived",
    "cancel",
    "close",
    "close_inbox",
    "confirm",
    "drain",
    "forget",
    "inbox_taken",
    "link_down",
    "link_up",
    "messages_arrived",
    "parent_told",
    "posts_answered",
    "probe",
    "refuse",
    "register",
    "register_pause",
    "renewed",
    "report_violation",
    "reset_inbox",
    "signs_of_life",
    "submit",
    "tick",
    "upstream_down",
    "upstream_up",
    "withdraw",
    "withdraw_again",
    "withdrawn",
    "written",
)
"""The entrances of a Router."""

_TUPLES: Final = (Answer, Told, Ack, Failure, Terms, Position)
_SETTINGS: Final = (Quirks, Credentials, CertificateName, Limits, RouterConfig)
_TYPES: Final[dict[str, Any]] = {kind.__name__: kind for kind in (*_TUPLES, *_SETTINGS, Kind)}
_TYPES["Untold"] = lambda: UNTOLD
_FRAMES: Final[dict[str, Any]] = {kind.__name__: kind for kind in (Frame, Adapted, Traced, Probe)}


class _Names:
    """Names for sessions, in the order in which they come up."""

    def __init__(self) -> None:
        self._known: list[object] = []

    def of(self, session: object) -> int:
        """The name of a session."""
        for number, known in enumerate(self._known):
            if known is session:
                return number
        self._known.append(session)
        return len(self._known) - 1


class EventRecorder:
    """Writes down the events of a Router and their outcome.

    Args:
        router: just made; it has seen no event.
        config: its settings.
        write: takes a line; the record ends if it returns False.
        limit: characters in all; beyond it nothing more is written.
    """

    def __init__(self, router: Router, config: RouterConfig, write: Callable[[str], object], limit: int) -> None:
        self._write = write
        self._left = limit
        self._names = _Names()
        self._line({"node": self._encode([router.position, router.upstream is not None, config])})
        for event in EVENTS:
            setattr(router, event, self._recorded(event, getattr(router, event)))

    def _recorded(self, event: str, entrance: Callable[..., Any]) -> Callable[..., Any]:
        def recorded(*given: Any, **named: Any) -> Any:
            if self._left <= 0:
                return entrance(*given, **named)
            # Iterators can be read once, and the Router may keep and change lists.
            given = tuple(list(one) if isinstance(one, Iterator) else one for one in given)
            line: dict[str, Any] = {"event": event, "given": self._encode(given)}
            if named:
                line["named"] = self._encode(named)
            outcome = entrance(*given, **named)
            line["ready"] = self._encode(outcome)
            self._line(line)
            return outcome

        return recorded

    def _line(self, line: dict[str, Any]) -> None:
        text = json.dumps(line, separators=(",", ":"))
        self._left -= len(text)
        if self._write(text if self._left > 0 else '{"end":"the record has reached its limit"}') is False:
            self._left = 0

    def _encode(self, value: Any) -> Any:
        return encode(value, self._names.of)


def encode(value: Any, name: Callable[[object], int]) -> Any:
    """A value as JSON has it; `name` names what is no data (sessions)."""
    if value is UNTOLD:
        return {"Untold": []}
    if isinstance(value, Kind):
        return {type(value).__name__: value.value}
    if isinstance(value, Enum):
        return int(value) if isinstance(value, int) else str(value.value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Frame):
        hops = value.hops if isinstance(value, Probe) else None
        src, dst = encode(value.src, name), encode(value.dst.position, name)
        return {type(value).__name__: [value.uuid, value.sync, src, dst, len(value.data), hops]}
    if isinstance(value, Refusal):
        return {type(value).__name__: [int(value.code), value.detail, value.uuid, value.sync]}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {type(value).__name__: [encode(one, name) for one in value]}
    if isinstance(value, list | tuple | range):
        return [encode(one, name) for one in value]
    if isinstance(value, set | frozenset):
        return {"set": sorted((encode(one, name) for one in value), key=json.dumps)}
    if isinstance(value, dict):
        return {"map": [[encode(key, name), encode(one, name)] for key, one in value.items()]}
    for kind in (Ready, Writes):
        if isinstance(value, kind):
            known = {slot: getattr(value, slot) for slot in kind.__slots__}
            return {kind.__name__: {slot: encode(one, name) for slot, one in known.items() if one is not None}}
    if is_dataclass(value):
        return {type(value).__name__: {field.name: encode(getattr(value, field.name), name) for field in fields(value)}}
    if isinstance(value, Iterable):
        return [encode(one, name) for one in value]
    return {"session": name(value)}


def decode(value: Any, session: Callable[[int], object]) -> Any:
    """The value that `encode` has written; of messages a body of the same size."""
    if isinstance(value, list):
        return [decode(one, session) for one in value]
    if isinstance(value, str):
        return intern(value)  # a text may name a session, and sessions are told apart by identity
    if not isinstance(value, dict):
        return value
    ((kind, known),) = value.items()
    if kind == "session":
        return session(known)
    if kind == "set":
        return frozenset(decode(known, session))
    if kind == "map":
        return {decode(key, session): decode(one, session) for key, one in known}
    if kind in _FRAMES:
        uuid, sync, src, dst, size, hops = known
        frame = uuid, sync, decode(src, session), Destination.of(decode(dst, session)), bytes(size)
        if kind == "Probe":
            return Probe(*frame, hops)
        return Traced(*frame, {}) if kind == "Traced" else _FRAMES[kind](*frame)
    if kind in ("Refusal", "Violation"):
        code, detail, uuid, sync = known
        return {"Refusal": Refusal, "Violation": Violation}[kind](Code(code), detail, uuid, sync=sync)
    if isinstance(known, dict):
        return _TYPES[kind](**{field: decode(one, session) for field, one in known.items()})
    given = decode(known, session)
    return _TYPES[kind](*given) if isinstance(known, list) else _TYPES[kind](given)


class _Session:
    """A session of a run that is repeated."""


def replay(lines: Iterable[str]) -> list[str]:
    """Repeat a run. Returns where the outcome differs from the record: empty if nowhere."""
    sessions: dict[int, object] = {}
    names = _Names()

    def session(number: int) -> object:
        if number not in sessions:
            sessions[number] = _Session()
            names.of(sessions[number])
        return sessions[number]

    differences: list[str] = []
    router: Router | None = None
    for number, text in enumerate(lines, 1):
        line = json.loads(text)
        if "node" in line:
            position, upstream, config = decode(line["node"], session)
            router = Router(position, upstream=upstream, config=config)
        elif "event" in line:
            if line["event"] not in EVENTS:
                raise ValueError(f"line {number}: {line['event']!r} is no event of a Router")
            assert router is not None, "a record begins with its node"
            named = decode(line["named"], session) if "named" in line else {}
            outcome = getattr(router, line["event"])(*decode(line["given"], session), **named)
            again = json.loads(json.dumps(encode(outcome, names.of)))
            if again != line["ready"]:
                differences.append(f"line {number}, {line['event']}: {again} and not {line['ready']}")
    return differences
