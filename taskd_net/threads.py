"""Start of this package's threads, in a process whose signals and limits belong to the application.

A thread of ours blocks all signals that a process is sent. So a write to a broken socket returns an error, whatever the
application has set for SIGPIPE. A signal that the application waits for with `sigwait` or a signalfd never goes to
a thread of ours, where its default would end the process. gRPC's threads are started in ours, and inherit that.

Threads of ours that call functions of the application have its own mask: programs that these start inherit it.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from typing import Final

from taskd_net import fork
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


_END_S: Final = 1.0
"""Seconds for the system to take a thread away that has ended: microseconds, unless it is very busy."""

_SEE: Final = "see ulimit -u and -v, and pids.max of its control group"


class _Starter(threading.local):
    """The signal mask of the application's thread that has started this one, directly or not; None in its own.

    Attributes:
        own: this thread calls no function of the application.
    """

    mask: set[signal.Signals | int] | None = None
    own = False


_starter: Final = _Starter()


def start(work: Callable[[], object], name: str, *, application: bool = False) -> threading.Thread:
    """Start a thread whose end the end of the process does not wait for.

    Args:
        work: to be done in the thread.
        name: of the thread.
        application: True if `work` calls functions of the application. They may start programs, which inherit a mask,
            so the thread has that of the application.

    Raises:
        NodeError: the process is at its limit of threads or memory, or the interpreter ends.
    """
    if sys.is_finalizing():  # the thread would never run, and the start would wait for it
        raise NodeError(f"the process cannot start the thread {name!r}: the interpreter ends")
    mask = _starter.mask

    def run() -> None:
        inherited = signal.pthread_sigmask(signal.SIG_BLOCK, _SENT)
        _starter.mask = inherited if mask is None else mask
        _starter.own = not application
        if application:
            signal.pthread_sigmask(signal.SIG_SETMASK, _starter.mask)
        work()

    thread = threading.Thread(target=run, name=name, daemon=True)
    try:
        thread.start()
    except (RuntimeError, MemoryError) as error:
        raise NodeError(f"the process cannot start the thread {name!r}: {error}; {_SEE}") from None
    return thread


def executor() -> ThreadPoolExecutor:
    """The default executor of a loop in a thread of ours. Its threads call functions of the application."""
    mask = _starter.mask
    return ThreadPoolExecutor(
        thread_name_prefix="taskd_net executor",
        initializer=None if mask is None else partial(signal.pthread_sigmask, signal.SIG_SETMASK, mask),
    )


def _in_forked_child() -> None:
    """Give a child that is forked in a thread of ours the application's mask: SIGTERM must end it."""
    if _starter.mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, _starter.mask)


os.register_at_fork(after_in_child=_in_forked_child)


def is_own() -> bool:
    """True in a thread of this package that calls no function of the application."""
    return _starter.own


def require_room(count: int) -> None:
    """Check that this process can start some more threads, by starting them.

    Limits of processes and of memory, of the user and of the control group, have no common answer. The threads of C
    libraries end the process where one cannot be started, so there must be room before one of these begins.

    Args:
        count: how many.

    Raises:
        NodeError: it cannot.
    """
    gate, ended, started = fork.Lock(), SimpleQueue[int](), 0

    def wait() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, _SENT)
        with gate:
            ended.put(threading.get_native_id())

    try:
        with gate:
            for _ in range(count):
                _thread.start_new_thread(wait, ())
                started += 1
    except (RuntimeError, MemoryError):
        raise NodeError(f"the process can start {started} more threads; expected {count}: {_SEE}") from None
    finally:
        # They count in the limits until the system has taken them away.
        give_up_at = time.monotonic() + _END_S
        for _ in range(started):
            number = ended.get()
            while os.path.exists(f"/proc/self/task/{number}") and time.monotonic() < give_up_at:  # noqa: PTH110 - slower
                time.sleep(0)
