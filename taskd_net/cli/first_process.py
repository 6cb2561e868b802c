"""The first process of a container, which the system gives every orphan and no default of a signal.

A launcher in its place would have to take the exit statuses of processes that are not its own, beside those that are.
So this process starts the command again, as a child, hands it the signals, and takes the statuses of all orphans.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from typing import Final, NoReturn

REST_S: Final = 3.0
"""Seconds that other processes have to end after the command: a guardian ends training processes in that time. The
system kills those that are left."""

PASSED_ON: Final = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGTERM,
    signal.SIGCONT,
    signal.SIGWINCH,
)
"""Signals for the command."""


def live() -> NoReturn:
    """Start the command of this process as its child, and live as long as that; its exit status is this one's."""
    awaited = {signal.SIGCHLD, *PASSED_ON}
    signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    command = [sys.executable, *sys.orig_argv[1:]]
    # A group of its own: a terminal sends its signals to the command alone, and not twice.
    child = os.posix_spawn(sys.executable, command, os.environ, setpgroup=0, setsigmask=())
    if os.isatty(0):
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        with suppress(OSError):
            os.tcsetpgrp(0, child)
    status = None
    while status is None:
        number = signal.sigwait(awaited)
        if number == signal.SIGCHLD:
            status = ended_children().get(child)
        else:
            os.kill(child, number)
    until = time.monotonic() + REST_S
    while has_children() and (left := until - time.monotonic()) > 0.0:
        signal.sigtimedwait({signal.SIGCHLD}, left)
        ended_children()
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


def ended_children() -> dict[int, int]:
    """The statuses of all children that have ended, by pid."""
    ended: dict[int, int] = {}
    with suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            ended[found[0]] = found[1]
    return ended


def has_children() -> bool:
    """True while a child is left, or an orphan that this process was given."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True
