"""A wait in an application's thread that keeps no signal handler from its turn.

CPython runs handlers in the main thread, between two bytecodes. A signal that comes after the last of them, while the
thread goes into a wait, does not interrupt the wait; its handler would run when the wait ends by itself, if ever.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final, TypeVar

T = TypeVar("T")

HANDLER_LATE_S: Final = 1.0
"""Seconds a signal handler may run late, where its signal comes just as the main thread begins to wait. So often the
thread wakes, while the application waits."""


def taken(waiting: SimpleQueue[T]) -> T:
    """Wait for an element of a queue, and take it.

    In the main thread the wait is left and taken up again every `HANDLER_LATE_S` seconds, so that a handler runs at
    most that much later. A handler may put into the queue: a SimpleQueue has no lock that its own thread could hold.
    """
    if threading.current_thread() is not threading.main_thread():
        return waiting.get()
    while True:
        try:
            return waiting.get(timeout=HANDLER_LATE_S)
        except Empty:
            continue


class EndFlag:
    """A flag that one thread waits for, and any other may set.

    `threading.Event` has a lock in Python, which the exception of a signal handler in `set` would leave locked.
    """

    def __init__(self) -> None:
        self._set = False
        self._waiter = SimpleQueue[None]()

    def set(self) -> None:
        """Set it, and wake the thread that waits."""
        self._set = True
        self._waiter.put(None)

    def is_set(self) -> bool:
        """True after `set`."""
        return self._set

    def wait(self, seconds: float) -> None:
        """Wait until it is set, for some seconds at most."""
        if not self._set:
            with suppress(Empty):
                self._waiter.get(timeout=seconds)
