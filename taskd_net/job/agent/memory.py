"""Kills by the kernel for want of memory, as the cgroup of a process counts them.

A SIGKILL has no sender. It was the kernel's if the cgroup's counter `oom_kill` has risen since the start of the
process. Version 2 has it in `memory.events`, version 1 in `memory.oom_control`. Kernels before 4.13 have none.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from taskd_net.base.untrusted import natural
from taskd_net.job.cgroups import CGROUPS, PROC, content, entries

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
        found = entries(self._proc / str(pid) / "cgroup")
        for controllers, path in found:
            if "memory" in controllers:
                return _first_there(self._cgroups / "memory", path, "memory.oom_control")
        for controllers, path in found:
            if not controllers:
                return _first_there(self._cgroups, path, "memory.events")
        return None


def _first_there(root: Path, path: str, name: str) -> Path | None:
    """The file of a cgroup. In a container its own cgroup may be at the root, whatever the path."""
    return next((file for file in (root / path / name, root / name) if file.is_file()), None)


def _count(file: Path) -> int | None:
    found = re.search(r"^oom_kill (\d+)$", content(file), re.MULTILINE)
    return None if found is None else natural(found[1], _MOST)
