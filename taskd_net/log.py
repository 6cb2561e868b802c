"""The package's logger: one event per change of state, short verbs with fields, never a line per message.

Events go to the standard library's logger `taskd_net`, so that an application decides where they end up; nothing is
printed by default below WARNING.
"""

from __future__ import annotations

import logging

import structlog
from structlog.stdlib import BoundLogger


def get_logger(**fields: object) -> BoundLogger:
    """A logger whose events all carry `fields`."""
    wrapped = structlog.wrap_logger(
        logging.getLogger("taskd_net"),
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.stdlib.add_log_level,
            structlog.processors.format_exc_info,
            structlog.processors.LogfmtRenderer(key_order=["event"], bool_as_flag=False),
        ],
        wrapper_class=BoundLogger,
        cache_logger_on_first_use=True,
    )
    bound: BoundLogger = wrapped.bind(**fields)
    return bound
