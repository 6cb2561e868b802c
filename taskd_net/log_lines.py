"""The forms of a log line: logfmt, JSON, and columns for people. Values are short and printable already (`logger`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, TypeAlias

Fields: TypeAlias = Mapping[str, object]
"""One log line: `event` is its name, `level` its level in small letters, `exception` a traceback of several lines."""

_LEVEL_WIDTH: Final = 9
_EVENT_WIDTH: Final = 30

_RESET: Final = "\x1b[0m"
_BRIGHT: Final = "\x1b[1m"
_DIM: Final = "\x1b[2m"
_OF_LEVEL: Final = {"debug": "\x1b[32m", "info": "\x1b[32m", "warning": "\x1b[33m"}
_OF_ERRORS: Final = "\x1b[31m"
_OF_NAMES: Final = "\x1b[36m"
_OF_VALUES: Final = "\x1b[35m"

_NEED_QUOTES: Final = frozenset(" \t\r\n=\"'")


def logfmt(fields: Fields) -> str:
    """A line of `name=value`, the event first."""
    rest = ((name, value) for name, value in fields.items() if name != "event")
    return " ".join(f"{name}={_logfmt_value(value)}" for name, value in (("event", fields.get("event")), *rest))


def _logfmt_value(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    text, quoted = str(value), ""
    if " " in text or "=" in text or '"' in text:
        text, quoted = text.replace("\\", "\\\\").replace('"', '\\"'), '"'
    text = text.replace("\n", "\\n")
    return f"{quoted}{text}{quoted}"


def json_object(fields: Fields) -> str:
    """One JSON object."""
    return json.dumps(fields, default=str, ensure_ascii=False)


def columns(fields: Fields, *, colored: bool) -> str:
    """Time, level and event in columns, the other fields by name, and the traceback below."""
    left = dict(fields)
    exception = left.pop("exception", None)
    timestamp, level, event = (str(left.pop(name, "")) for name in ("timestamp", "level", "event"))
    cells = [
        _styled(timestamp, _DIM, colored),
        f"[{_styled(level.ljust(_LEVEL_WIDTH), _OF_LEVEL.get(level, _OF_ERRORS) + _BRIGHT, colored)}]",
        _styled(event.ljust(_EVENT_WIDTH), _BRIGHT, colored),
    ]
    for name in sorted(left):
        value = left[name]
        text = value if isinstance(value, str) and _NEED_QUOTES.isdisjoint(value) else repr(value)
        cells.append(f"{_styled(name, _OF_NAMES, colored)}={_styled(text, _OF_VALUES, colored)}")
    line = " ".join(cells).rstrip(" ")
    return line if exception is None else f"{line}\n{exception}"


def _styled(text: str, style: str, colored: bool) -> str:
    return f"{style}{text}{_RESET}" if colored else text
