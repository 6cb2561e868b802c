"""Single keys from a terminal, and the end of such a command by a signal."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_KEY: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z~]|\x1bO[A-Za-z]|.", re.DOTALL)
"""A character, or the sequence of an arrow or a page key."""

_ENDING = (signal.SIGTERM, signal.SIGINT)


def end_at_once() -> None:
    """Let SIGTERM and SIGINT end the process at once.

    The system's own handling is in force: a handler of ours would not run while a write into a full pipe blocks.
    """
    for number in _ENDING:
        signal.signal(number, signal.SIG_DFL)


@contextmanager
def keys(pressed: Callable[[str], None] | None) -> Iterator[None]:
    """Hand over each key within this context, one that is a sequence as a whole; none without a terminal."""
    if pressed is None or not sys.stdin.isatty():
        yield
        return
    terminal, loop, wanted = sys.stdin.fileno(), asyncio.get_running_loop(), pressed
    before = termios.tcgetattr(terminal)

    def read() -> None:
        for key in _KEY.findall(os.read(terminal, 64).decode(errors="replace")):
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
