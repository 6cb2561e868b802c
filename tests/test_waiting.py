"""Waits of an application's thread, and the handlers of signals."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
import time
from collections.abc import Iterator
from queue import SimpleQueue

import pytest

from taskd_net.base import waiting
from taskd_net.base.waiting import HANDLER_LATE_S, taken
from tests.polling import PATIENCE_S

MAIN = threading.main_thread().ident


@pytest.fixture
def handled() -> Iterator[SimpleQueue[str]]:
    """A queue into which the handler of SIGUSR1 puts."""
    queue: SimpleQueue[str] = SimpleQueue()
    before = signal.signal(signal.SIGUSR1, lambda _, __: queue.put("handled"))
    yield queue
    signal.signal(signal.SIGUSR1, before)


def waits() -> bool:
    """The main thread is in `taken`."""
    assert MAIN is not None
    return sys._current_frames()[MAIN].f_code is waiting.taken.__code__


def test_handler_of_a_signal_that_did_not_interrupt_the_wait_runs_soon(handled: SimpleQueue[str]) -> None:
    over = threading.Event()

    def lose() -> None:
        while not waits():
            time.sleep(0.001)
        time.sleep(HANDLER_LATE_S / 10)  # nothing tells when the wait has begun; before that the test proves less
        # As the system's own handler of a signal that comes just before the wait: noted, and nobody is woken.
        _thread.interrupt_main(signal.SIGUSR1)
        if not over.wait(PATIENCE_S):
            handled.put("never")

    losing = threading.Thread(target=lose)
    losing.start()
    assert taken(handled) == "handled"
    over.set()
    losing.join()


def test_element_is_taken_at_once_in_any_thread() -> None:
    queue: SimpleQueue[int] = SimpleQueue()
    queue.put(1)
    assert taken(queue) == 1
    answers: SimpleQueue[int] = SimpleQueue()
    other = threading.Thread(target=lambda: answers.put(taken(queue)))
    other.start()
    queue.put(2)
    assert taken(answers) == 2
    other.join()


def test_exception_of_a_handler_leaves_the_wait() -> None:
    def refuse(_: int, __: object) -> None:
        raise InterruptedError("by a handler")

    before = signal.signal(signal.SIGUSR1, refuse)
    try:
        threading.Timer(0.05, _thread.interrupt_main, (signal.SIGUSR1,)).start()
        with pytest.raises(InterruptedError, match="by a handler"):
            taken(SimpleQueue[int]())
    finally:
        signal.signal(signal.SIGUSR1, before)
