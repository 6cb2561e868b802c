"""The folder with the rules for faults of devices, read when it has changed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from taskd_net import job_limits
from taskd_net.bounded_file import read_file
from taskd_net.faults import editions
from taskd_net.faults.rules import FILES
from taskd_net.jobs.devices import as_texts


class Seen(NamedTuple):
    """The folder at a look.

    Args:
        files: the texts of the files, by name.
        reason: they cannot be read; empty where they can.
    """

    files: Mapping[str, str]
    reason: str = ""


class RuleFolder:
    """Looks at the folder. Its methods block for a bounded time, and run in one thread at a time.

    Args:
        folder: the folder; it may be missing.
    """

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._seen: Seen | None = None

    def look(self) -> Seen | None:
        """The files, if they have changed since the last look."""
        try:
            files = {name: data for name in FILES if (data := self._read(name)) is not None}
            seen = Seen(as_texts(files))
        except (OSError, ValueError) as error:
            seen = Seen({}, str(error))
        if seen == self._seen:
            return None
        self._seen = seen
        return seen

    def _read(self, name: str) -> bytes | None:
        try:
            return read_file(self._folder / name, editions.FILE_BYTES, job_limits.RESET_READ_S).data
        except (FileNotFoundError, NotADirectoryError):
            return None
