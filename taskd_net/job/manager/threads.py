"""A thread for calls that may hang: a disk's, or a user's plugin's."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Final, TypeVar

from taskd_net.base import threads

T = TypeVar("T")

STACK_CALLS: Final = 5
"""Calls of a stack that are told: a value in the log has 500 characters at most."""


def described(error: BaseException) -> str:
    """The kind and the text of an error of the application, whose own `__str__` may raise."""
    try:
        return f"{type(error).__name__}: {error}"
    except BaseException:  # noqa: BLE001 - the application's
        return type(error).__name__


def _has_text(error: BaseException) -> bool:
    """False for an error that a line of the log cannot show."""
    try:
        return bool(f"{error}{error!r}")
    except BaseException:  # noqa: BLE001 - the application's
        return False


class OwnThread:
    """A thread that runs one call after another. Its end is not waited for by the end of the process.

    Args:
        name: of the thread.
        application: True if its calls are functions of the application; see `threads.start`.
    """

    def __init__(self, name: str, *, application: bool = False) -> None:
        self._name = name
        self._application = application
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._running = 0

    @property
    def busy(self) -> bool:
        """True while a call is running."""
        return self._running > 0

    async def call(self, work: Callable[[], T], seconds: float | None) -> T:
        """Run a call, and await its result, for some seconds at most; None for without end.

        Raises:
            TimeoutError: it has not ended in time; it still runs, and further calls wait for it.
            NodeError: the thread cannot be started.
        """
        if self._thread is None:
            self._thread = threads.start(self._run, self._name, application=self._application)
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        self._running += 1
        process = os.getpid()

        def end(result: T | None, error: BaseException | None) -> None:
            self._running -= 1
            if done.cancelled():
                return
            if error is not None:
                done.set_exception(error)
            else:
                done.set_result(result)  # type: ignore[arg-type]

        def run() -> None:
            result: T | None = None
            error: BaseException | None = None
            try:
                result = work()
            except BaseException as raised:  # noqa: BLE001 - raised at the await
                # A future takes no StopIteration, and the loop would end by a KeyboardInterrupt.
                fits = isinstance(raised, Exception) and not isinstance(raised, StopIteration) and _has_text(raised)
                error = raised if fits else RuntimeError(f"it has raised {described(raised)}")
                error.__traceback__ = raised.__traceback__
            if os.getpid() != process:
                # The call has forked. The child must not go on as this process: it holds its sockets.
                os._exit(error is not None)
            try:
                loop.call_soon_threadsafe(end, result, error)
            except RuntimeError:
                return  # the loop is closed, and nobody awaits the result

        self._calls.put(run)
        # `wait_for` of Python 3.11 loses a cancellation that comes as the call ends.
        async with asyncio.timeout(seconds):
            return await done

    def stack(self) -> str:
        """The calls that the thread is in, the last one first, in one line."""
        frame = None if self._thread is None else sys._current_frames().get(self._thread.ident or 0)
        calls = [] if frame is None else reversed(traceback.extract_stack(frame)[-STACK_CALLS:])
        return " < ".join(f"{Path(call.filename).name}:{call.lineno} {call.name}: {call.line}" for call in calls)

    async def end(self, last: Callable[[], object], seconds: float) -> None:
        """End the thread after a last call.

        Raises:
            TimeoutError: the call has not ended in time; or the error of the call. The thread ends nevertheless.
        """
        try:
            if self._thread is not None:
                await self.call(last, seconds)
        finally:
            self.stop()

    def stop(self) -> None:
        """End the thread after its calls, without waiting for that."""
        self._calls.put(None)

    def abandon(self) -> None:
        """End the thread. A call that hangs in it, and computes without end, is interrupted.

        A call that waits in the system, or catches SystemExit, keeps the thread.
        """
        if self._running and self._thread is not None and self._thread.ident is not None:
            import ctypes  # it is rarely needed, and takes a while

            # The thread lives: it waits for its next call at least, which `stop` brings.
            raised = ctypes.py_object(SystemExit)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread.ident), raised)
        self.stop()

    def join(self, seconds: float) -> None:
        """Wait until it has ended, for some seconds at most."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _run(self) -> None:
        with contextlib.suppress(SystemExit):  # of `abandon`
            while (run := self._calls.get()) is not None:
                run()
