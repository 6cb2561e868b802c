"""The log lines of this package's own processes (Mgr, Proxy, commands), rendered by structlog.

A record has its fields already (`taskd_net.base.logger`), so structlog only renders: `structlog.configure` is the
application's, and is never called. A library in a training process has the plain forms of `taskd_net.base.logs`, as
structlog costs several MiB there.
"""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from datetime import UTC, datetime
from typing import Any

from structlog.dev import ConsoleRenderer, plain_traceback
from structlog.processors import JSONRenderer, format_exc_info
from structlog.stdlib import ProcessorFormatter, add_log_level
from structlog.typing import Processor

from taskd_net.base.logs import Rendering


def _with_time(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Put the record's time before the fields."""
    at = datetime.fromtimestamp(event["_record"].created, UTC)
    return {"timestamp": at.isoformat(timespec="milliseconds"), **event}


def _formatter(renderer: Processor) -> logging.Formatter:
    return ProcessorFormatter(
        foreign_pre_chain=[add_log_level],
        processors=[_with_time, ProcessorFormatter.remove_processors_meta, format_exc_info, renderer],
    )


def _json() -> logging.Formatter:
    return _formatter(JSONRenderer(ensure_ascii=False, default=str))


def _console(colored: bool) -> logging.Formatter:
    return _formatter(ConsoleRenderer(colors=colored, exception_formatter=plain_traceback))


STRUCTLOG = Rendering(file=_json, console=_console)
"""JSON in files; columns, with colors on a terminal, on a console."""
