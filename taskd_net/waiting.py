"""A wait in an application's thread that keeps no signal handler from its turn.

CPython runs handlers in the main thread, between two bytecodes. A signal that comes after the last of them, while the
thread goes into a wait, does not interrupt the wait; its handler would run when the wait ends by itself, if ever.
"""

from __future__ import annotations

import threading
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
