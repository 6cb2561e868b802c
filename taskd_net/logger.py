"""The package's logger: one event per change of state, short verbs with fields, never a line per message.

Events go to the standard library's logger `taskd_net`, so the application decides on their destination: its formatters
see each as one logfmt line. No handler is added here, and without one nothing below WARNING is printed; `logs.start`
adds a console and a file.

structlog is imported with the first logger: where rich is installed it imports that too, and then takes longer than the
rest of this package.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, cast

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
            structlog.stdlib.add_log_level,
            structlog.processors.format_exc_info,
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


def _record(
    logger: logging.Logger, method: str, event: MutableMapping[str, Any]
) -> tuple[tuple[Mapping[str, Any]], Mapping[str, Any]]:
    """Make the arguments of the standard logger's call."""
    from structlog.stdlib import ProcessorFormatter

    return ProcessorFormatter.wrap_for_formatter(logger, method, Event(event))
