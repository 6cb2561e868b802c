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

LOOK_S = 0.05
"""Seconds between two looks at process groups, each some milliseconds."""


def main(grace: float) -> None:
    """Read the input to its end, and then end all processes that are left.

    Args:
        grace: seconds from SIGTERM to SIGKILL.
    """
    # Slurm may send SIGUSR1 or SIGUSR2 to all processes of a step, before its time is over.
    users = (signal.SIGUSR1, signal.SIGUSR2)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, *users):
        signal.signal(number, signal.SIG_IGN)
    guarded: set[int] = set()
    for line in sys.stdin:
        (guarded.add if line[0] == "+" else guarded.discard)(int(line[1:]))
    send(guarded, signal.SIGTERM)
    send(guarded, signal.SIGCONT)
    await_end(guarded, grace, groups=True)
    send(guarded, signal.SIGKILL)


def send(pids: Collection[int], number: signal.Signals) -> None:
    """Send a signal to sessions."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.killpg(pid, number)


def await_end(pids: Collection[int], grace: float, groups: bool = False) -> None:
    """Wait until these processes have ended, for some seconds at most.

    Args:
        pids: of sessions' leaders.
        grace: the seconds.
        groups: wait for everything else in their process groups, too. A shell that started Python ends before it.
    """
    until = time.monotonic() + grace
    for pid in pids:
        with suppress(ProcessLookupError):
            descriptor = os.pidfd_open(pid)
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            poll.poll(max(0.0, until - time.monotonic()) * 1000)
            os.close(descriptor)
    while groups and not running_groups().isdisjoint(pids) and time.monotonic() < until:
        time.sleep(LOOK_S)


def running_groups() -> set[int]:
    """The process groups of all processes that run."""
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 - without an import of pathlib, 10 ms
        with suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123 - the same
            state, _, group = file.read().rpartition(b")")[2].split()[:3]
            if state not in (b"Z", b"X"):
                found.add(int(group))
    return found


if __name__ == "__main__":
    main(float(sys.argv[1]))
