"""Files at paths from outside: neither reading nor opening one waits without end, whatever the path leads to."""

from __future__ import annotations

import errno
import os
import select
import stat
import time
from pathlib import Path
from typing import NamedTuple


class Content(NamedTuple):
    """The bytes of a file, and the mode of the file that was read."""

    data: bytes
    mode: int


def read_file(path: str | Path, most: int, seconds: float, *, regular: bool = False) -> Content:
    """Read a whole file; the path may lead to a FIFO, a device or a folder.

    Args:
        path: the file.
        most: bound on its bytes.
        seconds: bound on the wait. A network file system that hangs can take longer.
        regular: refuse a FIFO and a device. These have no content that lasts: an empty read says nothing about them.

    Raises:
        OSError: it cannot be opened or read, or is not regular as demanded.
        ValueError: the path has a NUL, the file has more bytes, or its end did not come in time.
    """
    give_up_at = time.monotonic() + seconds
    # Without O_NONBLOCK, opening a FIFO waits for whoever writes into it.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if regular and not stat.S_ISREG(mode := os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, f"it is a {_kind(mode)}; expected a regular file")
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


def read_end(path: str | Path, most: int) -> bytes:
    """Read the last bytes of a regular file. One that others write has what it had at the call.

    Args:
        path: the file.
        most: bound on the bytes.

    Raises:
        OSError: it cannot be opened or read, or is not regular.
        ValueError: the path has a NUL.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, f"it is a {_kind(found.st_mode)}; expected a regular file")
        return os.pread(descriptor, most, max(0, found.st_size - most))
    finally:
        os.close(descriptor)


def _kind(mode: int) -> str:
    return "folder" if stat.S_ISDIR(mode) else "FIFO" if stat.S_ISFIFO(mode) else "device"


def open_to_write(path: str | Path, flags: int = 0) -> int:
    """Open a file to write at its end; made if it is missing. Neither this nor a later write waits for a reader.

    Args:
        path: the file.
        flags: further ones of `os.open`.

    Returns:
        Its descriptor.

    Raises:
        OSError: it cannot be opened, or is a FIFO or a socket.
        ValueError: the path has a NUL.
    """
    fifo = OSError(errno.ENXIO, "it is a FIFO or a socket")
    try:
        # Without O_NONBLOCK, opening a FIFO waits for a reader.
        always = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(path, always | flags, 0o666)
    except OSError as error:
        raise fifo if error.errno == errno.ENXIO else error from None
    if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise fifo
    return descriptor
