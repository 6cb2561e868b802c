"""The package's logger: one event per change of state, short verbs with fields, never a line per message.

Events go to the standard library's logger `taskd_net`, so the application decides on their destination: its formatters
see each as one logfmt line. No handler is added here, and without one nothing below WARNING is printed; `logs.start`
adds a console and a file.

The logger is a gate for text from outside: values are cut and printable, and `log_budget` bounds the lines of each
event and peer. So every handler gets short, single lines, whatever peers send. `handlers` calls them.
"""

from __future__ import annotations

import logging
import sys
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from taskd_net.base import handlers, limits
from taskd_net.base.log_budget import LogBudget
from taskd_net.base.untrusted import printable, shown

TRACEBACK_CHARS: Final = 4000
"""Characters of a traceback in a log line, half of them from its end: some thirty frames."""

_logger: Final = logging.getLogger("taskd_net")
_logger.callHandlers = handlers.call  # type: ignore[method-assign]


class Event(dict[str, Any]):
    """The fields of one log line. As a text it is logfmt, rendered only for a handler that asks for a text."""

    def __str__(self) -> str:
        return f"event={_logfmt(self.get('event'))}{self.rest()}"

    def rest(self) -> str:
        """The fields but for the event, each with a space before it."""
        return "".join(f" {name}={_logfmt(value)}" for name, value in self.items() if name != "event")


class Logger:
    """A logger whose events all carry the same fields. Any thread may use it.

    The methods take the name of the event and further fields. Of these `exc_info` is an exception, or True for the one
    that is being handled; the line has its traceback.

    Args:
        fields: of all events.
    """

    def __init__(self, fields: Mapping[str, object]) -> None:
        self._fields = fields
        self._budget = LogBudget()

    def debug(self, event: str, **fields: object) -> None:
        """Log a detail, for whoever looks for a fault."""
        self._log(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: object) -> None:
        """Log a change of state."""
        self._log(logging.INFO, event, fields)

    def warning(self, event: str, **fields: object) -> None:
        """Log something that an operator may have to look at."""
        self._log(logging.WARNING, event, fields)

    def error(self, event: str, **fields: object) -> None:
        """Log a failure."""
        self._log(logging.ERROR, event, fields)

    def exception(self, event: str, **fields: object) -> None:
        """Log a failure with the traceback of the exception that is being handled."""
        self._log(logging.ERROR, event, {"exc_info": True, **fields})

    def _log(self, level: int, name: str, fields: Mapping[str, object]) -> None:
        if not _logger.isEnabledFor(level):
            return
        said = {**self._fields, **fields, "event": name}
        left_out = self._budget.admit(time.monotonic(), said, warns=level >= logging.WARNING)
        if left_out is None:
            return
        if left_out:
            said["left_out"] = left_out
        error = said.pop("exc_info", None)
        event = Event({name: _value(value) for name, value in said.items()})
        event["level"] = method = logging.getLevelName(level).lower()
        if (text := _traceback_of(error)) is not None:
            event["exception"] = _traceback(text)
        # The event has the traceback, so the record has none. By the two attributes, handlers of an application that
        # format with structlog see the fields. The line is that of the caller of `info` and the others.
        # An application's filter may raise; no call of this package does.
        with suppress(Exception):
            _logger.log(level, event, extra={"_logger": _logger, "_name": method}, stacklevel=3)


def get_logger(**fields: object) -> Logger:
    """A logger whose events all carry `fields`. Its budget of lines is its own."""
    return Logger(fields)


def late_logger() -> Logger:
    """A logger without fields, for a module's own use."""
    return Logger({})


def _traceback_of(error: object) -> str | None:
    """The traceback of an exception, or of the one that is being handled; None where there is none."""
    found = error if isinstance(error, BaseException) else sys.exception() if error else None
    return None if found is None else "".join(traceback.format_exception(found)).removesuffix("\n")


def _value(value: object) -> object:
    if value is None or isinstance(value, float) or (isinstance(value, int) and value.bit_length() <= 64):
        return value
    text = value if isinstance(value, str) else shown(value)
    if len(text) > limits.LOG_VALUE_CHARS:
        text = f"{text[: limits.LOG_VALUE_CHARS]}… ({len(text)} characters)"
    return printable(text)


def _traceback(text: str) -> str:
    """Both ends of a traceback. No line of it begins like a line of the log, whatever the text of the exception."""
    if len(text) > TRACEBACK_CHARS:
        half = TRACEBACK_CHARS // 2
        text = f"{text[:half]}…\n…{text[-half:]}"
    return "\n".join("  " + printable(line) for line in text.split("\n"))


def _logfmt(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    text, quoted = str(value), ""
    if " " in text or "=" in text or '"' in text:
        text, quoted = text.replace("\\", "\\\\").replace('"', '\\"'), '"'
    text = text.replace("\n", "\\n")
    return f"{quoted}{text}{quoted}"
