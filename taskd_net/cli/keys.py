"""Single keys from a terminal, while a command shows something."""

from __future__ import annotations

import asyncio
import os
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager


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
