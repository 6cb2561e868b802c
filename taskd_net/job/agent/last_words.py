"""The last words of a launcher: on its standard error, and in the file that Kubernetes shows as a pod's message."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Sequence
from typing import Final

from taskd_net.base.logger import late_logger

log: Final = late_logger()

TERMINATION_LOG: Final = "/dev/termination-log"
"""The file of a container whose content is its message, if it has no other `terminationMessagePath`."""

TERMINATION_BYTES: Final = 4096
"""Bytes that Kubernetes takes of it."""

HEAD_BYTES: Final = 1024
"""Bytes of them for the beginning of longer words: what has failed. The rest is for the end: the error."""

_LEFT_OUT: Final = b"\n[...]\n"


def say(lines: Sequence[str], path: str = TERMINATION_LOG) -> None:
    """Say the last words.

    Args:
        lines: they; nothing is said without any.
        path: the file for them, if it is there.
    """
    if not lines:
        return
    text = "".join(f"{line}\n" for line in lines)
    try:
        keep(text, path)
    except OSError as error:
        log.warning("termination_log_unwritable", path=path, reason=str(error))
    sys.stderr.write(f"taskd-net run: {text}")


def keep(text: str, path: str) -> None:
    """Write into a regular file that is there, in place: it is a mount, which no other file can replace.

    Raises:
        OSError: it cannot be written.
    """
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return
        descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    with os.fdopen(descriptor, "wb") as file:
        file.truncate(0)
        file.write(bounded(text))


def bounded(text: str) -> bytes:
    """The first and the last bytes of a text, in whole characters."""
    data = text.encode("utf-8", "backslashreplace")
    if len(data) <= TERMINATION_BYTES:
        return data
    tail = TERMINATION_BYTES - HEAD_BYTES - len(_LEFT_OUT)
    parts = data[:HEAD_BYTES], data[-tail:]
    return _LEFT_OUT.join(part.decode("utf-8", "ignore").encode() for part in parts)
