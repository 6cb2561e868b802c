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
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Final, Generic, Never, TypeVar

from taskd_net.base import fork
from taskd_net.base.codes import NodeError
from taskd_net.base.waiting import taken

T = TypeVar("T")

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

_BEGIN_S: Final = 10.0
"""Seconds for a thread to begin: it takes microseconds, or for ever if it finds no memory."""

_PIECE: Final = 4096
"""Bytes that Python takes from the C library, not from a pool of its own."""

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


def uninterrupted(work: Callable[[], T], undo: Callable[[], object] | None = None) -> T:
    """Do something that no exception of a signal handler ends halfway: those are raised in the main thread alone.

    Args:
        work: done in a thread for the moment, if this is the main thread. It goes on after such an exception here.
        undo: done after it then, before the exception is raised.

    Raises:
        BaseException: of `work`, or of a signal handler.
    """
    # As the interpreter ends, no thread runs that is started.
    if threading.current_thread() is not threading.main_thread() or sys.is_finalizing():
        return work()
    task = _Task(work)
    try:
        task.begin("start or end")
        result = taken(task.result)
    except BaseException:
        _undo(task, undo)
        raise
    return result()


def _undo(task: _Task[T], undo: Callable[[], object] | None) -> None:
    if undo is None or task.claim():  # it never begins
        return
    last = _Task(lambda: (task.ended.get(), undo()))
    last.begin("undo")
    taken(last.result)


class _Task(Generic[T]):
    """Work in a thread for the moment. Its queues are in C: no exception of a signal handler leaves them half changed.

    Attributes:
        result: gets a function with the result, or one that raises.
        ended: gets an element then, too.
    """

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._claim = SimpleQueue[None]()
        self._claim.put(None)
        self.result: SimpleQueue[Callable[[], T]] = SimpleQueue()
        self.ended = SimpleQueue[None]()

    def claim(self) -> bool:
        """Take the right to do the work; True for the first caller."""
        try:
            self._claim.get_nowait()
        except Empty:
            return False
        return True

    def begin(self, name: str) -> None:
        """Start the thread, or do the work here at a limit of threads or memory.

        `Thread.start` waits, and is not interrupted without harm, so another thread calls it.
        """
        try:
            _thread.start_new_thread(self._start, (f"taskd_net {name}",))
        except (RuntimeError, MemoryError):
            self._run()

    def _start(self, name: str) -> None:
        try:
            start(self._run, name)
        except NodeError:  # at the limit of threads
            self._run()

    def _run(self) -> None:
        if not self.claim():
            return
        result: Callable[[], T]
        try:
            result = partial(_same, self._work())
        except BaseException as error:  # noqa: BLE001 - raised in the main thread
            result = partial(_raise, error)
        self.ended.put(None)
        self.result.put(result)


def _same(value: T) -> T:
    return value


def _raise(error: BaseException) -> Never:
    raise error


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

    Each thread takes memory as those would before the next one starts: the C library reserves 64 MiB of addresses for
    a thread's first piece, if it can, which are then missing for the stack of the next.

    Args:
        count: how many.

    Raises:
        NodeError: it cannot.
    """
    gate, begun, ended, started = fork.Lock(), SimpleQueue[None](), SimpleQueue[int](), 0

    def wait() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, _SENT)
        with suppress(MemoryError):  # the next thread has no room either
            bytearray(_PIECE)
        begun.put(None)
        with gate:
            ended.put(threading.get_native_id())

    try:
        with gate:
            for _ in range(count):
                _thread.start_new_thread(wait, ())
                started += 1
                begun.get(timeout=_BEGIN_S)
    except (RuntimeError, MemoryError, Empty):  # empty: a thread of Python's that had no memory to begin
        raise NodeError(f"the process can start {started} more threads; expected {count}: {_SEE}") from None
    finally:
        # They count in the limits until the system has taken them away.
        give_up_at = time.monotonic() + _END_S
        for _ in range(started):
            number: int | None = None
            with suppress(Empty):
                number = ended.get(timeout=max(0.0, give_up_at - time.monotonic()))
            while os.path.exists(f"/proc/self/task/{number}") and time.monotonic() < give_up_at:  # noqa: PTH110 - slower
                time.sleep(0)
