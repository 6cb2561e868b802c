"""What becomes of nodes in a forked child: nothing that could touch gRPC.

A training script forks (data loaders, `multiprocessing`), and a forked child has the memory of gRPC without its
threads: a call into gRPC can wait for ever, or end the links of the parent. So in a child that was forked off a process
which has started a node, every node is closed and stays so: calls raise `NodeForked` or answer False. Children that
need a node of their own are spawned or exec'd, or come from a fork server, which is exec'd itself.

A lock that another thread holds at the moment of a fork stays locked in the child for ever: its owner is not there. So
every lock of this package is a `Lock`, which is free in a child. None is taken before a fork: some are held for
seconds, while a node starts or closes, and perhaps by a thread that waits for the one that forks.
"""

from __future__ import annotations

import os
import threading
import weakref
from types import TracebackType
from typing import Final, Protocol

REASON: Final = "this process was forked off one that has a node and can have none itself; spawn or exec it instead"


class Forkable(Protocol):
    """What holds objects of gRPC."""

    def forked(self) -> None:
        """Called in a forked child, in which nothing may touch gRPC any more."""


class Lock:
    """A re-entrant lock that no thread of the parent's holds in a forked child. Use it as `with lock`.

    Re-entrant, as a signal handler may come by in the thread that holds it. What it guards has to make sense at every
    moment, as a child may find it in the middle of a change.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _process.locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lock.release()

    def in_child(self) -> None:
        """After a fork, in the child: free, unless the thread that forked holds it, and will release it."""
        if self._lock.acquire(blocking=False):
            self._lock.release()
        else:
            self._lock = threading.RLock()


class _Process:
    """What matters of this process."""

    def __init__(self) -> None:
        self.has_grpc = False
        self.forked = False
        self.holders: weakref.WeakSet[Forkable] = weakref.WeakSet()
        self.locks: weakref.WeakSet[Lock] = weakref.WeakSet()

    def in_child(self) -> None:
        """After a fork, in the child."""
        self.forked = self.has_grpc
        for lock in list(self.locks):
            lock.in_child()
        for holder in list(self.holders):
            holder.forked()


_process: Final = _Process()
os.register_at_fork(after_in_child=_process.in_child)


def forked() -> bool:
    """True in a process that was forked off one that has started a node."""
    return _process.forked


def protect(holder: Forkable) -> None:
    """Say that this process starts gRPC now, on behalf of `holder`."""
    _process.has_grpc = True
    _process.holders.add(holder)
