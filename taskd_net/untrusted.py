"""Texts and files from outside. Reading them ends with a value or a `ValueError`, in bounded time and memory.

Python's own readers do not promise that: `str.isdigit` takes `²`, `int` raises for more than 4,300 digits, parsers of
JSON and TOML end with RecursionError where brackets are nested deeply, so does `repr` of what they have read, and
opening a FIFO waits for ever.
"""

from __future__ import annotations

import json
import os
import reprlib
import select
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

T = TypeVar("T")

SHOWN_CHARS: Final = 80
"""Characters of one value in an error text."""


def natural(text: str, most: int) -> int | None:
    """A natural number in ASCII digits.

    Args:
        text: whatever stands where a number should.
        most: the greatest number that has a meaning there.

    Returns:
        The number, or None for any other text and for a greater number.
    """
    if not (text.isascii() and text.isdigit()):
        return None
    digits = text.lstrip("0") or "0"
    if len(digits) > len(str(most)) or int(digits) > most:
        return None
    return int(digits)


def parsed(parse: Callable[[str], T], text: str) -> T:
    """Run a parser over a text.

    Args:
        parse: such as `tomllib.loads`; says by ValueError what is wrong.
        text: what is parsed.

    Raises:
        ValueError: the text is not what the parser reads, or is nested too deeply for it.
    """
    try:
        return parse(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def json_value(text: str) -> object:
    """Read a JSON text.

    Raises:
        ValueError: it is none, is nested too deeply, or has a number of thousands of digits.
    """
    value: object = parsed(json.loads, text)
    return value


def shown(value: object) -> str:
    """A value for an error text: its `repr`, cut to `SHOWN_CHARS` characters and a few levels."""
    try:
        return _short.repr(value)
    except ValueError:  # an int of thousands of digits
        return f"<{type(value).__name__}>"


class Content(NamedTuple):
    """What was in a file, and its mode, which is that of the file that was read."""

    data: bytes
    mode: int


def read_file(path: str | Path, most: int, seconds: float) -> Content:
    """Read a whole file, which may be anything that a path can lead to: a FIFO, a device, a folder.

    Args:
        path: the file.
        most: bytes that it may have.
        seconds: how long to wait for what comes out of it. A network file system that hangs can take longer.

    Raises:
        OSError: it cannot be opened or read.
        ValueError: the path has a NUL in it, the file has more bytes, or nothing came, or no end, in time.
    """
    give_up_at = time.monotonic() + seconds
    # Without O_NONBLOCK, opening a FIFO waits for whoever writes into it.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        data = bytearray()
        while len(data) <= most:
            left = give_up_at - time.monotonic()
            if left <= 0.0 or not poller.poll(left * 1000):
                raise ValueError(f"it could not be read to its end within {seconds:g} s")
            try:
                part = os.read(descriptor, most + 1 - len(data))
            except BlockingIOError:  # somebody else was faster
                continue
            if not part:
                return Content(bytes(data), os.fstat(descriptor).st_mode)
            data += part
    finally:
        os.close(descriptor)
    raise ValueError(f"it has more than {most} bytes")


_short: Final = reprlib.Repr()
_short.maxlevel = 3
_short.maxstring = _short.maxother = _short.maxlong = SHOWN_CHARS
