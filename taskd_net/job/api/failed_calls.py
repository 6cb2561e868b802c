"""Lines in the log about the framework's functions that fail."""

from __future__ import annotations

from taskd_net.job.api.member import Refused, log
from taskd_net.job.api.plans import Call, Look


class Malformed(Refused):
    """An answer of one of the framework's functions is of no use.

    Args:
        kind: of the fault; a second answer of this kind is no news.
        text: the answer, and the expected one.
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class FailedCalls:
    """One line for each failure; of looks, which come every second, one for each kind."""

    def __init__(self) -> None:
        self._kinds: set[str] = set()

    def report(self, call: Call, error: Exception) -> None:
        """Log a failure, unless it is a further one of its kind."""
        if isinstance(call, Look):
            kind = error.kind if isinstance(error, Malformed) else type(error).__name__
            if kind in self._kinds:
                return
            self._kinds.add(kind)
        # A fault of the application's functions, so with a traceback.
        traceback = None if isinstance(error, Refused) else error
        log.error("command_failed", call=type(call).__name__, reason=str(error), exc_info=traceback)
