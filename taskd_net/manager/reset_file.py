"""RetryTime of the platform's reset file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from taskd_net import job_limits
from taskd_net.bounded_file import read_file
from taskd_net.untrusted import json_value, shown


class ResetFile:
    """Looks at the file. Its methods block for a bounded time, and run in one thread at a time.

    Args:
        path: the file; it may be missing.
        log: takes the lines.
    """

    def __init__(self, path: str, log: Any) -> None:
        self._path = Path(path)
        self._log = log
        self._data: bytes | None = None
        self._warned = False

    def look(self) -> int | None:
        """RetryTime, if the file has changed since the last look; None if not, or if it has none.

        A file that is missing, or that cannot be read, counts as unchanged; the latter with one warning until it can be
        read again.
        """
        try:
            data = read_file(self._path, job_limits.RESET_BYTES, job_limits.RESET_READ_S).data
            value = None if data == self._data else retry_time(data.decode())
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            if not self._warned:
                self._log.warning("reset_file_unreadable", file=str(self._path), reason=str(error))
            self._warned = True
            return None
        self._data, self._warned = data, False
        return value


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
