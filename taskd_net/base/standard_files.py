"""Standard files that a process was started without (`2>&-`): the next file or socket would get their numbers.

It would then get what the application prints, and lose its descriptor to whoever closes or replaces a standard file.
"""

from __future__ import annotations

import io
import os
import select


def open_missing() -> None:
    """Open `/dev/null` at the numbers 0, 1 and 2, where nothing is open."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def has_room(descriptor: int, seconds: float) -> bool:
    """Wait a little until a write would not block: the reader of a full pipe, or of a terminal, may have stopped."""
    ready = select.poll()
    ready.register(descriptor, select.POLLOUT)
    return bool(ready.poll(1000 * seconds))


def descriptor_of(stream: object) -> int | None:
    """The descriptor below a text stream; None for one in memory, of a notebook, or closed."""
    buffer = getattr(stream, "buffer", None)
    raw = getattr(buffer, "raw", buffer)
    return raw.fileno() if isinstance(raw, io.FileIO) and not raw.closed else None
