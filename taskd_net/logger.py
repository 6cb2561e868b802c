"""The package's logger: one event per change of state, short verbs with fields, never a line per message.

Events go to the standard library's logger `taskd_net`, so the application decides on their destination: its formatters
see each as one logfmt line. No handler is added here, and without one nothing below WARNING is printed; `logs.start`
adds a console and a file.

The logger is a gate for text from outside: values are cut and printable, and `log_budget` bounds the lines of each
event and peer. So every handler gets short, single lines, whatever peers send.

structlog is imported with the first logger: where rich is installed it imports that too, and then takes longer than the
rest of this package.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, Final, cast

from taskd_net import limits
from taskd_net.log_budget import LogBudget
from taskd_net.untrusted import printable, shown

if TYPE_CHECKING:
    from structlog.stdlib import BoundLogger


class Event(dict[str, Any]):
    """The fields of one log line. As a text it is logfmt, rendered only for a handler that asks for a text."""

    def __str__(self) -> str:
        from structlog.processors import LogfmtRenderer

        return str(LogfmtRenderer(key_order=["event"], bool_as_flag=False)(None, "", dict(self)))


def get_logger(**fields: object) -> BoundLogger:
    """A logger whose events all carry `fields`."""
    import structlog

    wrapped = structlog.wrap_logger(
        logging.getLogger("taskd_net"),
        processors=[
            structlog.stdlib.filter_by_level,
            _budget(),
            structlog.stdlib.add_log_level,
            structlog.processors.format_exc_info,
            _cut,
            _record,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    return cast("BoundLogger", wrapped.bind(**fields))


def late_logger() -> BoundLogger:
    """A logger without fields for a module's own use: made when it is first used."""
    return cast("BoundLogger", _Late())


class _Late:
    def __getattr__(self, name: str) -> Any:
        made = get_logger()
        self.__dict__ = {method: getattr(made, method) for method in ("debug", "info", "warning", "error", "exception")}
        return self.__dict__[name]


def _budget() -> Callable[[logging.Logger, str, MutableMapping[str, Any]], MutableMapping[str, Any]]:
    """A processor that leaves out lines beyond the budget of a logger."""
    from structlog import DropEvent

    budget = LogBudget()

    def admit(_: logging.Logger, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        left_out = budget.admit(time.monotonic(), event, warns=method in _WARNS)
        if left_out is None:
            raise DropEvent
        return {**event, "left_out": left_out} if left_out else event

    return admit


_WARNS: Final = ("warning", "error", "exception")


def _cut(_: logging.Logger, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Make every value short and printable."""
    return {name: _traceback(value) if name == "exception" else _value(value) for name, value in event.items()}


def _value(value: object) -> object:
    if value is None or isinstance(value, float) or (isinstance(value, int) and value.bit_length() <= 64):
        return value
    text = value if isinstance(value, str) else shown(value)
    if len(text) > limits.LOG_VALUE_CHARS:
        text = f"{text[: limits.LOG_VALUE_CHARS]}… ({len(text)} characters)"
    return printable(text)


def _traceback(text: str) -> str:
    """Both ends of a traceback. No line of it begins like a line of the log, whatever the text of the exception."""
    if len(text) > limits.LOG_TRACEBACK_CHARS:
        half = limits.LOG_TRACEBACK_CHARS // 2
        text = f"{text[:half]}…\n…{text[-half:]}"
    return "\n".join("  " + printable(line) for line in text.split("\n"))


def _record(
    logger: logging.Logger, method: str, event: MutableMapping[str, Any]
) -> tuple[tuple[Mapping[str, Any]], Mapping[str, Any]]:
    """Make the arguments of the standard logger's call. The fields have the traceback, so the record has none."""
    from structlog.stdlib import ProcessorFormatter

    arguments, named = ProcessorFormatter.wrap_for_formatter(logger, method, Event(event))
    return arguments, {**named, "exc_info": None}
