"""RetryTime of the platform's reset file."""

from __future__ import annotations

from typing import Any

from taskd_net.base.untrusted import json_value, shown
from taskd_net.job.manager.changed_file import ChangedFile


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
