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


def end_at_once() -> None:
    """From now on SIGTERM and SIGINT end the process with 128 + their number, the terminal as it was before.

    At once, in the middle of whatever it does: it may be writing into a pipe that nobody reads.
    """
    terminal = sys.stdin.fileno() if sys.stdin.isatty() else None
    before = termios.tcgetattr(terminal) if terminal is not None else None

    def end(number: int, _: object) -> None:
        if terminal is not None and before is not None:
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)
        os._exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)


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

    tty.setcbreak(terminal)
    loop.add_reader(terminal, read)
    try:
        yield
    finally:
        loop.remove_reader(terminal)
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
