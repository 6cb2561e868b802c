"""Files about devices: the ranks that they have, and the list of those that a person has to give free.

The mapping file gives the global rank of each device:

    {"host-a/Ascend910-0": 0, "host-a/Ascend910-1": 1, "host-b/Ascend910-0": 2}

The list has the names of separated devices, with commas or spaces between. The Manager alone adds names, and people
only remove them, as with TaskD's platform.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from taskd_net.base.bounded_file import open_to_write
from taskd_net.base.codes import NodeError
from taskd_net.base.untrusted import json_value, shown
from taskd_net.job.faults.events import device_name
from taskd_net.job.manager import keeping
from taskd_net.job.manager.changed_file import ChangedFile, read_small
from taskd_net.job.manager.threads import OwnThread
from taskd_net.job.manager.watching import LOOK_S, watch

REMOVED_S: Final = 0.5
"""Seconds after which names that are missing in the list of separated devices have been removed: a file that somebody
rewrites in place is empty for a moment. Less than `STORE_S`, in which the list is written."""

RANK_MOST: Final = 2**31 - 1
"""The highest rank: int32, as on the wire of ClusterD."""
_BETWEEN: Final = re.compile(r"[,\s]+")


def read_ranks(text: str) -> dict[str, int]:
    """Ranks by device, in the text of a mapping file.

    Raises:
        ValueError: names the entry, its value and the expected one.
    """
    ranks = json_value(text)
    if not isinstance(ranks, dict):
        raise ValueError(f"the mapping is {shown(ranks)}; expected an object with ranks by device")
    for device, rank in ranks.items():
        device_name(device)
        if type(rank) is not int or not 0 <= rank <= RANK_MOST:
            raise ValueError(f"the rank of {shown(device)} is {shown(rank)}; expected a whole number, at least 0")
    return ranks


def read_names(text: str) -> frozenset[str]:
    """Names in the text of a list."""
    return frozenset(filter(None, _BETWEEN.split(text)))


class SeparatedList:
    """The list of separated devices, as a file.

    A missing or unreadable file releases nothing, and is written again, but for a folder, FIFO or device, which is left
    as it is. A name is removed when two looks miss it, `REMOVED_S` apart: an editor that rewrites a file in
    place empties it first.

    Args:
        path: the file.
        seen: takes the names in the file, whenever they have changed, and after each write; None, once a second, while
            the file is missing or the last write has failed, so that it is written.
        log: takes the lines.
    """

    def __init__(self, path: str, seen: Callable[[Collection[str] | None], None], log: Any) -> None:
        self._path = path
        self._file = ChangedFile(path, read_names, self._unreadable)
        self._seen = seen
        self._log = log
        self._thread = OwnThread(f"writes {path}")
        self._failed = False
        self._written = frozenset[str]()
        # The names at the last look, and those that have been told.
        self._read: frozenset[str] | None = None
        self._read_at = 0.0
        self._told = frozenset[str]()

    async def watch(self, every: float = LOOK_S) -> None:
        """Look at the file when it changes, without end, and every so many seconds."""
        await watch(self._path, self._look, lambda found: self._seen(found[0]), every=every)

    def _look(self) -> tuple[frozenset[str] | None] | None:
        now = time.monotonic()
        if (names := self._file.look()) is not None:
            self._read, self._read_at = names, now
        if self._read is not None and (self._told <= self._read or now - self._read_at >= REMOVED_S):
            self._told, self._read = self._read, None
            return (self._told,)
        return (None,) if self._failed or self._file.missing else None

    async def write(self, names: Collection[str], listed: Collection[str]) -> None:
        """Write the names, but for those that people have removed since.

        Args:
            names: to be in the file.
            listed: those of them that the file is known to have had.
        """
        try:
            written, added = await self._thread.call(lambda: _write(self._path, names, listed), keeping.STORE_S)
        except (OSError, ValueError, TimeoutError, NodeError) as error:
            if not self._failed:
                reason = str(error) or f"not within {keeping.STORE_S:g} s"
                self._log.error("separated_list_not_written", file=self._path, reason=reason)
            self._failed = True
            return
        if self._failed:
            self._failed = False
            self._log.info("separated_list_written", file=self._path)
        if added := added - self._written:
            reason = "only the Manager adds names; people remove them"
            self._log.warning("separated_names_undone", devices=",".join(sorted(added)[:16]), reason=reason)
        self._written = self._told = written
        self._seen(written)

    def _unreadable(self, file: str, reason: str) -> None:
        self._log.warning("separated_list_unreadable", file=file, reason=reason)

    def close(self) -> None:
        """End the thread that writes."""
        self._thread.stop()


def _read(path: str) -> frozenset[str]:
    return read_names(read_small(path).decode())


def _write(path: str, names: Collection[str], listed: Collection[str]) -> tuple[frozenset[str], frozenset[str]]:
    """Replace the file in one step. Returns the names in it, and those of others that are no longer there."""
    try:
        present = _read(path)
        if not present.issuperset(listed):
            time.sleep(REMOVED_S)
            present |= _read(path)
        removed = frozenset(listed) - present
    except (FileNotFoundError, NotADirectoryError, ValueError):
        present = removed = frozenset()
    written = frozenset(names) - removed
    real = Path(path).resolve()  # a link stays one
    new = f"{real}.new"
    real.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(open_to_write(new, os.O_TRUNC), "w", encoding="utf-8") as file:
        _give_rights(real, file.fileno())
        file.write(",".join(sorted(written)) + "\n")
        file.flush()
        # After a loss of power the file could be empty otherwise, and that releases every device.
        os.fsync(file.fileno())
    Path(new).replace(real)
    return written, present - frozenset(names)


def _give_rights(old: Path, descriptor: int) -> None:
    """Give a new file the owner, group and mode of the old one, as far as this process may, so its editors stay."""
    try:
        status = old.stat()
    except FileNotFoundError:
        return
    for owner, group in ((-1, status.st_gid), (status.st_uid, -1)):
        with suppress(OSError):  # only root gives files away
            os.fchown(descriptor, owner, group)
    with suppress(OSError):
        os.fchmod(descriptor, stat.S_IMODE(status.st_mode))
