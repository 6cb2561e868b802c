"""Calls of the handlers of the package's log, which may be the application's, and may call the package.

- No handler of the application gets a line that was logged while it runs in the same thread, such as the failure of its
  own report to the Manager. The others get it.
- An error of a handler ends where logging puts it, on stderr, and never in a call of this package.
- A thread of the package runs no handler of the application: it would wait for a handler that waits for this thread.
  A thread for the moment does, in the order of the lines. The package's waits a little, so that lines are seen in time.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections import deque
from contextlib import suppress
from typing import Any, Final

from taskd_net.base import fork, standard_files, threads
from taskd_net.base.codes import NodeError

WAITING: Final = 1000
"""Lines of the package's threads that wait for a handler of the application; the oldest goes. Budgets allow some 100 at
once."""

WAIT_S: Final = 0.1
"""Seconds that such a thread waits for a handler that is free, so that lines are there when a call returns."""


class Own(logging.Handler):
    """A handler of this package: it calls nothing of the application, and runs in any thread."""

    def handle(self, record: logging.LogRecord) -> Any:
        """Write a record. The lock is taken in C: an exception of a signal handler does not leave it locked."""
        passed = self.filter(record)
        if passed and self.lock is not None:
            with self.lock:
                self.emit(record)
        return passed


class _Running(threading.local):
    """The handlers that run in this thread."""

    handlers: tuple[logging.Handler, ...] = ()


class _Elsewhere:
    """Lines of the package's threads on their way to the application's handlers."""

    def __init__(self) -> None:
        self._changing = fork.Lock()
        self._lines: deque[tuple[logging.Handler, logging.LogRecord]] = deque(maxlen=WAITING)
        self._thread: threading.Thread | None = None

    def hand_over(self, handler: logging.Handler, record: logging.LogRecord) -> None:
        """Have a handler called in another thread, and wait for that, unless it has others to call."""
        with self._changing:
            self._lines.append((handler, record))
            # In a forked child it is not alive.
            if self._thread is not None and self._thread.is_alive():
                return
            try:
                thread: threading.Thread | None
                thread = self._thread = threads.start(self._run, "taskd_net log", application=True)
            except NodeError:  # at the limit of threads
                self._lines.pop()
                thread = None
        if thread is None:
            _run(handler, record)
        else:
            thread.join(WAIT_S)

    def _run(self) -> None:
        while True:
            with self._changing:
                if not self._lines:
                    self._thread = None
                    return
                handler, record = self._lines.popleft()
            _run(handler, record)


_running: Final = _Running()
_elsewhere: Final = _Elsewhere()


def call(record: logging.LogRecord) -> None:
    """Call the handlers of a record of the logger `taskd_net`, as `logging.Logger.callHandlers` finds them."""
    logger: logging.Logger | None = logging.getLogger("taskd_net")
    found = False
    while logger is not None:
        for handler in list(logger.handlers):
            found = True
            if record.levelno >= handler.level:
                _call(handler, record)
        logger = logger.parent if logger.propagate else None
    last = logging.lastResort
    if not found and last is not None and record.levelno >= last.level:
        _call(last, record)


def _call(handler: logging.Handler, record: logging.LogRecord) -> None:
    if isinstance(handler, Own):  # one may tell of itself
        _run(handler, record)
    elif handler in _running.handlers:
        return
    elif handler is logging.lastResort:
        descriptor = standard_files.descriptor_of(sys.stderr)
        if descriptor is None or standard_files.has_room(descriptor, WAIT_S):
            _run(handler, record)
    elif threads.is_own():
        _elsewhere.hand_over(handler, record)
    else:
        _run(handler, record)


def _run(handler: logging.Handler, record: logging.LogRecord) -> None:
    before = _running.handlers
    _running.handlers = (*before, handler)
    try:
        handler.handle(record)
    except Exception:  # noqa: BLE001 - the application's
        with suppress(Exception):
            handler.handleError(record)
    finally:
        _running.handlers = before
