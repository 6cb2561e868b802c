"""Start of this package's threads, in a process whose signals and limits belong to the application.

A thread of ours blocks all signals that a process is sent. So a write to a broken socket returns an error, whatever the
application has set for SIGPIPE. A signal that the application waits for with `sigwait` or a signalfd never goes to
a thread of ours, where its default would end the process. gRPC's threads are started in ours, and inherit that.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Final

from taskd_net.codes import NodeError

_SENT: Final = signal.valid_signals() - {
    signal.SIGABRT,
    signal.SIGBUS,
    signal.SIGFPE,
    signal.SIGILL,
    signal.SIGPROF,
    signal.SIGSEGV,
    signal.SIGSYS,
    signal.SIGTRAP,
}
"""Signals from outside a thread, and of a failed write. The others are for faults of a thread, and for profilers."""


class _Starter(threading.local):
    """The signal mask of the application's thread that has started this one, directly or not; None in its own."""

    mask: set[signal.Signals | int] | None = None


_starter: Final = _Starter()


def start(work: Callable[[], object], name: str, *, application: bool = False) -> threading.Thread:
    """Start a thread whose end the end of the process does not wait for.

    Args:
        work: to be done in the thread.
        name: of the thread.
        application: True if `work` calls functions of the application. They may start programs, which inherit a mask,
            so the thread has that of the application.

    Raises:
        NodeError: the process is at its limit of threads or memory.
    """
    mask = _starter.mask

    def run() -> None:
        inherited = signal.pthread_sigmask(signal.SIG_BLOCK, _SENT)
        _starter.mask = inherited if mask is None else mask
        if application:
            signal.pthread_sigmask(signal.SIG_SETMASK, _starter.mask)
        work()

    thread = threading.Thread(target=run, name=name, daemon=True)
    try:
        thread.start()
    except (RuntimeError, MemoryError) as error:
        text = f"the process cannot start the thread {name!r}: {error}; expected room below its limits (ulimit -u, -v)"
        raise NodeError(text) from None
    return thread
