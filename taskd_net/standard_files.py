"""Standard files that a process was started without (`2>&-`): the next file or socket would get their numbers.

It would then get what the application prints, and lose its descriptor to whoever closes or replaces a standard file.
"""

from __future__ import annotations

import os


def open_missing() -> None:
    """Open `/dev/null` at the numbers 0, 1 and 2, where nothing is open."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
