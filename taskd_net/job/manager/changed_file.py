"""Small files of others that are read when they have changed, and RetryTime in the platform's reset file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from taskd_net.base.bounded_file import read_file
from taskd_net.base.untrusted import json_value, shown

FILE_BYTES: Final = 1_048_576
"""Bytes of the reset file at most; it has a line for each failed rank."""

READ_S: Final = 1.0
"""Seconds for reading it."""

T = TypeVar("T")


def read_small(path: str | Path) -> bytes:
    """Read a small regular file.

    Raises:
        OSError: it cannot be read, or is not a regular file.
        ValueError: it is too large, or the path has a NUL.
    """
    return read_file(path, FILE_BYTES, READ_S, regular=True).data


class ChangedFile(Generic[T]):
    """Looks at a file. Its methods block for a bounded time, and run in one thread at a time.

    Args:
        path: the file; it may be missing.
        parse: makes the value of its text; raises ValueError.
        unreadable: takes the path, and the reason why the file cannot be read.

    Attributes:
        missing: the file was missing at the last look.
    """

    def __init__(self, path: str, parse: Callable[[str], T], unreadable: Callable[[str, str], None]) -> None:
        self._path = Path(path).absolute()
        self._parse = parse
        self._unreadable = unreadable
        self._data: bytes | None = None
        self._warned = False
        self.missing = False

    def look(self) -> T | None:
        """The value, if the file has changed since the last look; None if not.

        A file that is missing, or that cannot be read, counts as unchanged; the latter with one warning until it can be
        read again. A FIFO or a device cannot be read here.
        """
        self.missing = False
        try:
            data = read_small(self._path)
            value = None if data == self._data else self._parse(data.decode())
        except (FileNotFoundError, NotADirectoryError):
            self.missing = True
            return None
        except (OSError, ValueError) as error:
            if not self._warned:
                self._unreadable(str(self._path), str(error))
            self._warned = True
            return None
        self._data, self._warned = data, False
        return value


class ResetFile(ChangedFile[int]):
    """Looks at the file; see `ChangedFile`.

    Args:
        path: the file; it may be missing.
        log: takes the lines.
    """

    def __init__(self, path: str, log: Any) -> None:
        def unreadable(file: str, reason: str) -> None:
            log.warning("reset_file_unreadable", file=file, reason=reason)

        super().__init__(path, retry_time, unreadable)


def retry_time(text: str) -> int:
    """`RetryTime` in the text of a reset file.

    Raises:
        ValueError: there is none.
    """
    found = json_value(text)
    value = found.get("RetryTime") if isinstance(found, dict) else None
    if type(value) is not int:
        raise ValueError(f"RetryTime is {shown(value)}; expected a whole number")
    return value
