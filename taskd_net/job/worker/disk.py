"""The bound on the profiling folder that all ranks of a node share (TaskD API reference, `init_taskd_worker`).

The reference names neither the folder nor its files. Here a rank's files are all that lies below `<folder>/<rank>/`, at
any depth: `profiling/3/step-100/trace.json` is rank 3's. Everything beside these folders is left alone.

All ranks keep the bound at the same time, on the files of all. Each removes the oldest files first, in one order for
all ranks, so together they remove no more than one would alone.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from taskd_net.base import limits, logs, threads
from taskd_net.base.position import is_rank
from taskd_net.base.waiting import EndFlag
from taskd_net.job.member import log

PRUNE_S: Final = 60.0
"""Seconds between two looks at the profiling folder: how long it may be above its bound."""

FILES_KEPT: Final = 3
"""Newest files of each rank that stay in the profiling folder whatever they take: one may be being written."""

PATH: Final = "TASKD_NET_PROFILING_PATH"
MOUNTED: Final = Path("/user/cluster-info/profiling")
"""The profiling folder that TaskD's platform mounts."""


class _ProfilingFile(NamedTuple):
    """A file; the order is that of removal."""

    modified_ns: int
    path: str
    size: int


def folder() -> Path:
    """The profiling folder.

    It is `TASKD_NET_PROFILING_PATH`, else `/user/cluster-info/profiling` where that exists, else `profiling` in the
    folder of the log files.
    """
    if configured := os.environ.get(PATH):
        return Path(configured).absolute()
    if MOUNTED.is_dir():
        return MOUNTED
    return Path(os.environ.get(logs.PATH) or logs.DEFAULT_PATH).absolute() / "profiling"


def prune(profiling: Path, limit: int, ended: EndFlag | None = None) -> int:
    """Remove the oldest files until all together have at most `limit` bytes, or only the newest of each rank are left.

    Args:
        profiling: the folder; need not exist.
        limit: bytes.
        ended: set to stop early.

    Returns:
        The number of files removed by this call.
    """
    ranks = {rank: sorted(_files(rank)) for rank in _rank_folders(profiling)}
    total = sum(file.size for files in ranks.values() for file in files)
    removed = 0
    for file in sorted(file for files in ranks.values() for file in files[:-FILES_KEPT]):
        if total <= limit or (ended is not None and ended.is_set()):
            break
        try:
            Path(file.path).unlink()
            removed += 1
        except FileNotFoundError:
            pass  # another rank was quicker
        except OSError:
            continue  # not ours to remove: then the others have to do
        total -= file.size
    return removed


class Pruner:
    """A thread that keeps the bound until `close`.

    Args:
        limit_mb: MB (1,048,576 bytes) that the files of all ranks may take.
        every: seconds between two looks.
    """

    def __init__(self, limit_mb: int, every: float = PRUNE_S) -> None:
        self._every = every
        self._limit = limit_mb * 1024 * 1024
        self._folder = folder()
        self._ended = EndFlag()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin, unless it has begun.

        Raises:
            NodeError: the thread cannot be started.
        """
        if self._thread is None:
            self._thread = threads.start(self._run, "taskd_net profiling")

    def close(self) -> None:
        """End the thread, if it has begun."""
        self._ended.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(limits.HANDLER_GRACE_S)

    def _run(self) -> None:
        while not self._ended.is_set():
            if removed := prune(self._folder, self._limit, self._ended):
                log.info("profiling_pruned", folder=str(self._folder), files=removed, limit_bytes=self._limit)
            self._ended.wait(self._every)


def _rank_folders(profiling: Path) -> Iterator[Path]:
    with suppress(OSError), os.scandir(profiling) as entries:
        for entry in entries:
            if is_rank(entry.name) and entry.is_dir(follow_symlinks=False):
                yield Path(entry.path)


def _files(rank: Path) -> Iterator[_ProfilingFile]:
    for parent, _, names in os.walk(rank):  # follows no links
        for name in names:
            path = f"{parent}/{name}"
            with suppress(OSError):  # gone since it was listed
                status = os.lstat(path)
                if stat.S_ISREG(status.st_mode):
                    yield _ProfilingFile(status.st_mtime_ns, path, status.st_size)
