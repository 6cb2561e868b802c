"""The signals of a launcher, in every state of it: while it waits for the Mgr or for nodes, trains, and ends.

SIGINT ends the job; a second one ends the launcher at once, and the guardian its workers. SIGTERM, and whatever else
ends a launcher, ends the workers of the node within their grace, and the others wait for the node's return; a second
one changes nothing. SIGUSR1 and SIGUSR2 are passed on to the workers that have a handler for them.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from types import FrameType, TracebackType
from typing import Any, Final, NoReturn, Self

from taskd_net.base import threads
from taskd_net.base.logger import late_logger

PASSED_ON: Final = (signal.SIGUSR1, signal.SIGUSR2)
"""Signals that end no launcher."""

log: Final = late_logger()


class EarlySigint:
    """Takes SIGINT over while a launcher imports torch, and knows no Manager yet. A second one ends it at once.

    SIGUSR1 and SIGUSR2 are dropped: no worker runs that they could be passed on to.

    Attributes:
        has_come: SIGINT has come.
    """

    def __init__(self) -> None:
        self.has_come = False
        signal.signal(signal.SIGINT, self._note)
        for number in PASSED_ON:
            signal.signal(number, _drop)

    def _note(self, number: int, _: FrameType | None) -> None:
        if self.has_come:
            _end_at_once()
        self.has_come = True


class LauncherSignals:
    """Handlers of a launcher's signals, for the time of a block. They are those of the main thread.

    Args:
        end: makes the exception that ends the launcher by a signal; it has a `sigval`.
        ending: the signals that end it.

    Attributes:
        workers: gives the pids of the workers that run, by global rank.
        said: the Manager knows of the signal that ends the job.
    """

    def __init__(self, end: Callable[[signal.Signals], Exception], ending: Collection[signal.Signals]) -> None:
        self.workers: Callable[[], Mapping[int, int]] = dict
        self.said = False
        self._make_end = end
        self._handlers: dict[signal.Signals, Any] = dict.fromkeys(ending, self._end)
        self._handlers |= {number: self._pass_on for number in PASSED_ON if number not in self._handlers}
        self._before: dict[signal.Signals, Any] = {}
        self._ended = False
        self._to_pass = SimpleQueue[signal.Signals | None]()

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.getsignal(number) for number in self._handlers}
            self.renew()
            threads.start(self._pass_all_on, "passes signals on")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._to_pass.put(None)

    def renew(self) -> None:
        """Take the signals over again, where somebody else has."""
        for number in self._before:
            signal.signal(number, self._handlers[number])

    def take(self, early: EarlySigint) -> None:
        """End by the signal that has come before this block.

        Raises:
            Exception: that of `end`.
        """
        if early.has_come:
            self._end(signal.SIGINT, None)

    def _end(self, number: int, _: FrameType | None) -> None:
        if not self._ended:
            self._ended = True
            raise self._make_end(signal.Signals(number))
        if number == signal.SIGINT:
            _end_at_once()

    def _pass_on(self, number: int, _: FrameType | None) -> None:
        # In another thread, since this one may hold a lock of the log. Such a queue has no lock that it could hold.
        self._to_pass.put(signal.Signals(number))

    def _pass_all_on(self) -> None:
        while (number := self._to_pass.get()) is not None:
            pass_on(number, self.workers())


def _drop(_: int, __: FrameType | None) -> None:
    """Do nothing. Programs that this process starts have the default again, which an ignored signal would not."""


def _end_at_once() -> NoReturn:
    """End this process at a second SIGINT. A write by the number of the file waits for no lock of this thread."""
    with suppress(OSError):
        os.write(2, b"taskd-net run: ended at once, by a second SIGINT\n")
    os._exit(128 + signal.SIGINT)


def pass_on(number: signal.Signals, workers: Mapping[int, int]) -> None:
    """Send a signal to those workers that have a handler for it, and name the others in one line.

    Its default would end them.

    Args:
        number: the signal.
        workers: pids by global rank.
    """
    without = []
    for rank, pid in sorted(workers.items()):
        if catches(pid, number):
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        else:
            without.append(rank)
    if without or not workers:
        text = f"they have no handler for {number.name}" if workers else "no worker runs"
        log.warning("signal_not_passed_on", signal=number.name, ranks=",".join(map(str, without)), reason=text)


def catches(pid: int, number: signal.Signals) -> bool:
    """True for a process with a handler of its own for a signal."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return False
    masks = [line.partition(":")[2] for line in lines if line.startswith("SigCgt:")]
    return any(int(mask, 16) >> (number - 1) & 1 for mask in masks)
