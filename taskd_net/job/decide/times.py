"""Times in a job's state, and their change when the clock of its Manager has moved.

The clock moves by a step of the host's clock, while the machine is suspended, and between the end of one Manager and
the start of the next one. That may be days, or on a host with another clock. Each time in a state has one of two kinds:

- A `Moment` is a fact, such as the arrival of a report. It stays, but is never later than the present.
- A `Timer` is the begin or the end of a wait. It moves with the clock. So the time that was waited counts, the rest is
  waited, and the gap counts for nothing.
"""

from __future__ import annotations

import typing
from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass
from functools import lru_cache
from types import UnionType
from typing import Annotated, Any, Final, NamedTuple

_MOMENT: Final = "moment"
_TIMER: Final = "timer"

Moment = Annotated[float, _MOMENT]
"""The time of something that has happened, in seconds since the epoch; 0 for never."""

Timer = Annotated[float, _TIMER]
"""The begin or the end of a wait, in seconds since the epoch; 0 or infinity for none."""


class _Fields(NamedTuple):
    """Names of a dataclass's fields."""

    moments: tuple[str, ...]
    timers: tuple[str, ...]
    others: tuple[str, ...]


def moved(timer: float, then: float, now: float) -> float:
    """A timer after the clock has moved from `then` to `now`; 0 and infinity stay."""
    return timer + (now - then) if timer > 0.0 else timer


def move(value: object, then: float, now: float) -> None:
    """Change the times in a dataclass, and in all that it holds, after the clock has moved from `then` to `now`."""
    if is_dataclass(value):
        kind: Any = type(value)
        names = _fields(kind)
        for name in names.moments:
            if getattr(value, name) > now:
                setattr(value, name, now)
        for name in names.timers:
            setattr(value, name, moved(getattr(value, name), then, now))
        _move_each((getattr(value, name) for name in names.others), then, now)
    elif isinstance(value, Mapping):
        _move_each(value.values(), then, now)
    elif isinstance(value, list):
        _move_each(value, then, now)


def move_plain(value: object, kind: Any, then: float, now: float) -> object:
    """The JSON value of a type after the clock has moved from `then` to `now`; see `decide.plain` and `move`."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    match value:
        case None:
            return None
        case _ if origin is UnionType:  # with None
            return move_plain(value, args[0], then, now)
        case int() | float() if origin is Annotated and _TIMER in args:
            return moved(value, then, now)
        case int() | float() if origin is Annotated and _MOMENT in args:
            return min(value, now)
        case dict() if is_dataclass(kind):
            hints = _hints(typing.cast(Any, kind))
            return {name: move_plain(item, hints.get(name), then, now) for name, item in value.items()}
        case dict() if args:
            return {name: move_plain(item, args[1], then, now) for name, item in value.items()}
        case list() if args:
            return [move_plain(item, args[0], then, now) for item in value]
    return value


def _move_each(values: Iterable[object], then: float, now: float) -> None:
    for each in values:
        if not isinstance(each, str | int | float):
            move(each, then, now)


@lru_cache(maxsize=128)
def _fields(kind: Any) -> _Fields:
    hints = _hints(kind)
    kinds = {name: getattr(hint, "__metadata__", ("",))[0] for name, hint in hints.items()}
    found = ([name for name, each in kinds.items() if each == wanted] for wanted in (_MOMENT, _TIMER, ""))
    return _Fields(*map(tuple, found))


@lru_cache(maxsize=128)
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind, include_extras=True)
