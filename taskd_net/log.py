"""The package's logger: one event per change of state, short verbs with fields, never a line per message.

Events go to the standard library's logger `taskd_net`, so that an application decides where they end up: a formatter
of the application's own sees each as one logfmt line. Nothing here adds a handler, and nothing below WARNING is printed
before somebody does; `logs.start` adds handlers that show the same events on a console and write them into a file.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, MutableMapping
from typing import Any

import structlog
from structlog.stdlib import BoundLogger, ProcessorFormatter

_logfmt = structlog.processors.LogfmtRenderer(key_order=["event"], bool_as_flag=False)


class Event(dict[str, Any]):
    """What one log line says. As a text it is logfmt, rendered only for a handler that asks for a text."""

    def __str__(self) -> str:
        return str(_logfmt(None, "", dict(self)))


def get_logger(**fields: object) -> BoundLogger:
    """A logger whose events all carry `fields`."""
    wrapped = structlog.wrap_logger(
        logging.getLogger("taskd_net"),
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.stdlib.add_log_level,
            structlog.processors.format_exc_info,
            _record,
        ],
        wrapper_class=BoundLogger,
        cache_logger_on_first_use=True,
    )
    bound: BoundLogger = wrapped.bind(**fields)
    return bound


def _record(
    logger: logging.Logger, method: str, event: MutableMapping[str, Any]
) -> tuple[tuple[Mapping[str, Any]], Mapping[str, Any]]:
    """Make the arguments of the standard logger's call."""
    return ProcessorFormatter.wrap_for_formatter(logger, method, Event(event))
