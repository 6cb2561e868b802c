"""Processes frozen for a test, as by a debugger or a suspended machine."""

from __future__ import annotations

import os
import signal


def freeze(pid: int) -> None:
    """Stop a child process, and wait until all its threads stand.

    On a busy machine a thread may run on after SIGSTOP, and a SIGTERM that follows at once would still end the process.
    """
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
