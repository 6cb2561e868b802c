"""A filter for gRPC's own log lines, which bounds their rate."""

from __future__ import annotations

import logging
import time
from typing import Final

from taskd_net.base.limits import LOG_PEER_REFILL_S

_OF_PEERS: Final = ("Invalid encoding", "ExecuteBatchError raised in core")
"""First words of gRPC's lines about peers: metadata that is not UTF-8, and connections lost during an answer."""


class _RateLimit(logging.Filter):
    """Lets through one line a while about what a peer has done, without its traceback.

    gRPC logs an error with a traceback each time, and goes on: a peer could fill the disk.
    """

    def __init__(self) -> None:
        super().__init__()
        self._last = float("-inf")

    def filter(self, record: logging.LogRecord) -> bool:
        """True if a record is logged."""
        if not str(record.msg).startswith(_OF_PEERS):
            return True
        if time.monotonic() - self._last < LOG_PEER_REFILL_S:
            return False
        self._last = time.monotonic()
        record.exc_info = record.exc_text = None
        record.levelno, record.levelname = logging.WARNING, logging.getLevelName(logging.WARNING)
        return True


_rate_limit: Final = _RateLimit()


def filter_grpc_logs() -> None:
    """Do so from now on, in this process; again changes nothing."""
    logging.getLogger("grpc._cython.cygrpc").addFilter(_rate_limit)
