"""Repeated log lines of a node that is not joined: a single one is soon out of sight."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from taskd_net.base.logger import Logger


class Absence:
    """The time without a join, and its log lines.

    Args:
        log: the node's.
        upstream: the parent's address.
        trouble: the reason of the last failed attempt; empty without one.
        pause: seconds between two lines.
    """

    def __init__(self, log: Logger, upstream: str, trouble: Callable[[], str], pause: float) -> None:
        self._log = log
        self._upstream = upstream
        self._trouble = trouble
        self._pause = pause
        self._since = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Begin: the node has started or has lost its join."""
        if self._timer is None:
            self._since = asyncio.get_running_loop().time()
            self._arm()

    def end(self) -> None:
        """End: the node has joined or is closed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._pause, self._say)

    def _say(self) -> None:
        seconds = round(asyncio.get_running_loop().time() - self._since)
        reason = self._trouble() or "the parent itself has no way to the Mgr"
        self._log.warning("not_joined", upstream=self._upstream, seconds=seconds, reason=reason)
        self._arm()
