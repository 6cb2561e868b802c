"""Single keys from a terminal, while a command shows something, and how such a command ends by a signal."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_ENDING = (signal.SIGTERM, signal.SIGINT)


def end_at_once() -> None:
    """From now on SIGTERM and SIGINT end the process, in the middle of whatever it does.

    By the operating system: it may be writing into a pipe that nobody reads, where no handler of ours would come.
    """
    for number in _ENDING:
        signal.signal(number, signal.SIG_DFL)


@contextmanager
def keys(pressed: Callable[[str], None] | None) -> Iterator[None]:
    """Hand over each key, as long as this lasts; nothing where there is no terminal, or nobody who wants them."""
    if pressed is None or not sys.stdin.isatty():
        yield
        return
    terminal, loop, wanted = sys.stdin.fileno(), asyncio.get_running_loop(), pressed
    before = termios.tcgetattr(terminal)

    def read() -> None:
        for key in os.read(terminal, 64).decode(errors="replace"):
            wanted(key)

    def end(number: int, _: object) -> None:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
        os._exit(128 + number)

    for number in _ENDING:
        signal.signal(number, end)
    tty.setcbreak(terminal)
    loop.add_reader(terminal, read)
    try:
        yield
    finally:
        loop.remove_reader(terminal)
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
