"""The file with the record of a node's events (`NodeConfig.record`)."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

from taskd_net.base.bounded_file import open_to_write
from taskd_net.base.codes import ConfigError


class RecordFile:
    """A file of lines, the last of which is whole. Its first failure ends it: one line in the log, and nothing else.

    Args:
        path: the file; one that exists is emptied.
        log: takes the line.

    Raises:
        ConfigError: the file cannot be written.
    """

    def __init__(self, path: str, log: Any) -> None:
        self._path = path
        self._log = log
        self._bytes = 0
        self._descriptor: int | None
        try:
            self._descriptor = open_to_write(path, os.O_TRUNC)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ConfigError(f"record is {path!r}; expected a file that can be written: {reason}") from None

    @property
    def closed(self) -> bool:
        """True after `close`, or after a failure."""
        return self._descriptor is None

    def write(self, line: str) -> bool:
        """Write a line at once. Returns False if the record has ended, and takes no more lines."""
        descriptor = self._descriptor
        if descriptor is None:
            return False
        left = data = f"{line}\n".encode()
        try:
            if os.fstat(descriptor).st_nlink == 0:
                raise FileNotFoundError(0, "the file was removed")
            while left:
                left = left[os.write(descriptor, left) :]
        except OSError as error:
            with suppress(OSError):  # a device has no length
                os.ftruncate(descriptor, self._bytes)
            self.close()
            self._log.error("record_ended", file=self._path, reason=error.strerror)
            return False
        self._bytes += len(data)
        return True

    def close(self) -> None:
        """Close the file. Idempotent."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with suppress(OSError):  # network file systems report a lack of room here
                os.close(descriptor)
