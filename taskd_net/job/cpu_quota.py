"""The CPUs that the cgroup of this process permits: a limit of CPUs is a quota of time, and takes no CPU out of sight.

Version 2 has it in `cpu.max`, version 1 in `cpu.cfs_quota_us` and `cpu.cfs_period_us`. Each cgroup above counts, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from taskd_net.base.untrusted import natural
from taskd_net.job.cgroups import CGROUPS, PROC, content, entries

OWN: Final = PROC / "self" / "cgroup"

_MOST: Final = 2**63 - 1


def permitted_cpus(own: Path = OWN, cgroups: Path = CGROUPS) -> float | None:
    """The CPUs of time that the cgroups of this process permit; None without a limit.

    Args:
        own, cgroups: places of the kernel's files.
    """
    limits = [limit for folder in _folders(own, cgroups) if (limit := _limit(folder)) is not None]
    return min(limits, default=None)


def bounded(processes: int, cpus: float | None) -> int:
    """The number of processes, one for each CPU, that a limit leaves: whole CPUs, and one at least."""
    return processes if cpus is None else max(1, min(processes, int(cpus)))


def _folders(own: Path, cgroups: Path) -> Iterator[Path]:
    """The folders of the cgroup and of those above. In a container its own may be at the root, whatever the path."""
    for controllers, path in entries(own):
        if not controllers or "cpu" in controllers:
            root = cgroups / "cpu" if controllers else cgroups
            below = PurePosixPath(path)
            yield from (root / each for each in (below, *below.parents) if ".." not in each.parts)


def _limit(folder: Path) -> float | None:
    """The CPUs that one cgroup permits; None without a limit."""
    words = content(folder / "cpu.max").split()
    if len(words) != 2:
        words = [content(folder / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period")]
    quota, period = (natural(word, _MOST) for word in words)
    return quota / period if quota and period else None
