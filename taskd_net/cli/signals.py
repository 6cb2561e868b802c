"""The end of a command by a signal."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

import click
import uvloop

T = TypeVar("T")

STDIN: Final = 0
"""Its file descriptor."""


def stop_signal() -> asyncio.Future[signal.Signals]:
    """Take SIGTERM and SIGINT over: the first one settles this future, the second one ends the process at once.

    No handler, no `finally` and no buffer is in the way of the second one.
    """
    loop = asyncio.get_running_loop()
    asked: asyncio.Future[signal.Signals] = loop.create_future()

    def on_signal(number: signal.Signals) -> None:
        if asked.done():
            os._exit(128 + number)
        asked.set_result(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    return asked


def pipe_alone(_: click.Context, option: click.Parameter, value: bool) -> bool:
    """Refuse an option that needs a pipe as the standard input, where that is something else."""
    if value:
        try:
            mode = os.fstat(STDIN).st_mode
        except OSError:
            mode = 0
        if not stat.S_ISFIFO(mode) and not stat.S_ISSOCK(mode):
            raise click.BadParameter("the standard input is no pipe, so its end says nothing", param=option)
    return value


def end_of_input() -> asyncio.Future[None]:
    """Make signals do nothing, and settle this future when the standard input, a pipe, ends.

    SIGUSR1 and SIGUSR2 are among them: Slurm may send such a signal to all processes of a step. A program that this
    process starts has their defaults again.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def on_input() -> None:
        if not os.read(STDIN, 4096):
            loop.remove_reader(STDIN)
            ended.set_result(None)

    loop.add_reader(STDIN, on_input)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
        loop.add_signal_handler(number, int)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # the other program blocks signals until here
    return ended


def run_until_signal(work: Callable[[], Coroutine[Any, Any, T]]) -> T | signal.Signals:
    """Run a coroutine in an event loop of its own. Returns its result, or the signal that cancelled it."""

    async def run() -> T | signal.Signals:
        stop, working = stop_signal(), asyncio.create_task(work())
        ends: set[asyncio.Future[Any]] = {working, stop}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            working.cancel()
            await asyncio.wait([working])
        return stop.result() if working.cancelled() else working.result()

    return uvloop.run(run())
