"""Kills by the kernel for want of memory, as the cgroup of a process counts them.

A SIGKILL has no sender. It was the kernel's if the cgroup's counter `oom_kill` has risen since the start of the
process. Version 2 has it in `memory.events`, version 1 in `memory.oom_control`. Kernels before 4.13 have none.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from taskd_net.base.bounded_file import read_file
from taskd_net.base.untrusted import natural

PROC: Final = Path("/proc")
CGROUPS: Final = Path("/sys/fs/cgroup")

FILE_BYTES: Final = 64 * 1024
"""Bytes of a file of the kernel's that is read; they have some hundred."""

READ_S: Final = 1.0
"""Seconds for the read of one."""

_MOST: Final = 2**63 - 1


class MemoryKills:
    """The kills of processes in the cgroups of a node's ranks.

    Args:
        proc, cgroups: places of the kernel's files.
    """

    def __init__(self, proc: Path = PROC, cgroups: Path = CGROUPS) -> None:
        self._proc = proc
        self._cgroups = cgroups
        self._known: dict[int, tuple[Path, int]] = {}

    def begin(self, pid: int) -> None:
        """A process has started."""
        if (place := self._place(pid)) is not None and (count := _count(place)) is not None:
            self._known[pid] = place, count

    def end(self, pid: int, *, killed: bool) -> bool:
        """A process has ended. Returns whether the kernel has killed it for want of memory.

        A kill counts for one process alone: one that another SIGKILL has ended later is no further one.

        Args:
            pid: the process.
            killed: SIGKILL has ended it.
        """
        place, before = self._known.pop(pid, (None, 0))
        count = _count(place) if killed and place is not None else None
        if place is None or count is None or count <= before:
            return False
        for other, (its, known) in self._known.items():
            if its == place:
                self._known[other] = its, known + 1
        return True

    def _place(self, pid: int) -> Path | None:
        """The file with the counter of a process's cgroup; None if there is none."""
        text = _text(self._proc / str(pid) / "cgroup") or ""
        entries = re.findall(r"^\d+:([^:\n]*):/?(.*)$", text, re.MULTILINE)
        for controllers, path in entries:
            if "memory" in controllers.split(","):
                return _first_there(self._cgroups / "memory", path, "memory.oom_control")
        for controllers, path in entries:
            if not controllers:
                return _first_there(self._cgroups, path, "memory.events")
        return None


def _first_there(root: Path, path: str, name: str) -> Path | None:
    """The file of a cgroup. In a container its own cgroup may be at the root, whatever the path."""
    return next((file for file in (root / path / name, root / name) if file.is_file()), None)


def _count(file: Path) -> int | None:
    found = re.search(r"^oom_kill (\d+)$", _text(file) or "", re.MULTILINE)
    return None if found is None else natural(found[1], _MOST)


def _text(file: Path) -> str | None:
    """The text of one of the kernel's files; None if it cannot be read: the process or its cgroup is gone."""
    try:
        return read_file(file, FILE_BYTES, READ_S).data.decode("utf-8", "replace")
    except (OSError, ValueError):
        return None
