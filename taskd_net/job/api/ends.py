"""The ends of worker processes, noticed by their pidfds. Belongs to the node's thread."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection

from taskd_net.job.api.member import log


class Ends:
    """Calls back when a process ends, once for each. The Agent's look every second remains, for systems without pidfds.

    Args:
        ended: called in the event loop.
    """

    def __init__(self, ended: Callable[[], None]) -> None:
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._watched: dict[int, int | None] = {}  # file descriptors by pid; None: it has ended, or cannot be watched

    def watch(self, pids: Collection[int]) -> None:
        """Watch these processes, and forget all others."""
        for pid in self._watched.keys() - pids:
            self._close(pid)
            del self._watched[pid]
        for pid in pids:
            if pid not in self._watched:
                self._watched[pid] = self._open(pid)

    def close(self) -> None:
        """Forget all of them."""
        self.watch(())

    def _open(self, pid: int) -> int | None:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            return None  # the framework has taken its exit status, so the next look shows it
        except OSError as error:
            log.warning("worker_not_watched", pid=pid, reason=str(error))
            return None
        self._loop.add_reader(descriptor, self._readable, pid)
        return descriptor

    def _readable(self, pid: int) -> None:
        # A pidfd stays readable until the framework takes the exit status.
        self._close(pid)
        self._ended()

    def _close(self, pid: int) -> None:
        descriptor, self._watched[pid] = self._watched[pid], None
        if descriptor is not None:
            self._loop.remove_reader(descriptor)
            os.close(descriptor)
