"""The guardian of an Agent's processes: a small process that ends them when the Agent is killed."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

from taskd_net.base.limits import KILLED_S
from taskd_net.base.logger import late_logger
from taskd_net.torch import guard

GRACE_S: Final = 1.0
"""Seconds from SIGTERM to SIGKILL for the training processes of an Agent that was killed. None is left after 3 s."""

log: Final = late_logger()


def ended(process: subprocess.Popen[bytes], seconds: float, killed: float = KILLED_S) -> bool:
    """Wait until a process has ended, and kill it after some seconds. Returns False for one that outlives that.

    Args:
        process: it.
        seconds: for its own end.
        killed: seconds from SIGKILL to its end.
    """
    for wait in (seconds, killed):
        try:
            process.wait(wait)
        except subprocess.TimeoutExpired:
            process.kill()
        else:
            return True
    return False


class Guardian:
    """Ends sessions of this process when this process ends, however that happens.

    It runs in a session of its own, so that signals of a terminal and of torchrun's end do not reach it.

    Args:
        grace: seconds from SIGTERM to SIGKILL for what is guarded.
        killed: seconds from SIGKILL to its end.
    """

    def __init__(self, grace: float = GRACE_S, killed: float = KILLED_S) -> None:
        self._grace = grace
        self._killed = killed
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-I", "-S", guard.__file__, str(grace)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    def guard(self, pid: int) -> None:
        """Guard the session of this child from now on."""
        self._tell("+", pid)

    def release(self, pid: int) -> None:
        """Forget the session of a child that has ended."""
        self._tell("-", pid)

    def close(self) -> None:
        """End what is guarded still, and the guardian; closing twice is closing once."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        # A training process that was forked without exec holds the other end, and keeps the guardian.
        if not ended(self._process, self._grace + self._killed, self._killed):
            log.error("guardian_stuck", pid=self._process.pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _tell(self, sign: str, pid: int) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{sign}{pid}\n".encode())
            self._process.stdin.flush()
        except OSError as error:  # someone has ended it
            log.error("guardian_lost", reason=str(error))
