"""The program of the guardian: it outlives the Agent that started it just long enough to end the Agent's workers.

It imports nothing of this package, so that it is small and starts fast. A line of its input is `+` and the pid of a
session's leader, to guard that session, or `-` and the pid, to forget it. The input ends with the Agent.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Collection
from contextlib import suppress


def main(grace: float) -> None:
    """Read the input to its end, and then end all processes that are left.

    Args:
        grace: seconds from SIGTERM to SIGKILL.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    guarded: set[int] = set()
    for line in sys.stdin:
        (guarded.add if line[0] == "+" else guarded.discard)(int(line[1:]))
    send(guarded, signal.SIGTERM)
    send(guarded, signal.SIGCONT)
    await_end(guarded, grace)
    send(guarded, signal.SIGKILL)


def send(pids: Collection[int], number: signal.Signals) -> None:
    """Send a signal to sessions."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.killpg(pid, number)


def await_end(pids: Collection[int], grace: float) -> None:
    """Wait until these processes have ended, for some seconds at most."""
    until = time.monotonic() + grace
    for pid in pids:
        with suppress(ProcessLookupError):
            descriptor = os.pidfd_open(pid)
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            poll.poll(max(0.0, until - time.monotonic()) * 1000)
            os.close(descriptor)


if __name__ == "__main__":
    main(float(sys.argv[1]))
