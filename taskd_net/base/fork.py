"""Forked children: their nodes are closed, and nothing in them touches gRPC.

Training scripts fork (data loaders, `multiprocessing`). A forked child has the memory of gRPC without its threads: a
call into gRPC can wait for ever, or end the links of the parent. So in a child of a process that has started a node,
every node is closed for good: calls raise `NodeForked` or answer False. Children that need a node are spawned or
exec'd, or come from a fork server, which is exec'd itself.

A lock that another thread holds during a fork stays locked in the child, which does not have that thread. So every lock
of this package is a `Lock`, which is free in a child. No lock is taken before a fork: a node that starts or closes
holds one for seconds, perhaps in a thread that waits for the one that forks.
"""

from __future__ import annotations

import _thread
import ctypes
import os
import weakref
from typing import Final, Protocol

REASON: Final = "this process was forked off one that has a node and can have none itself; spawn or exec it instead"


class Forkable(Protocol):
    """An owner of objects of gRPC."""

    def forked(self) -> None:
        """Called in a forked child, in which nothing may touch gRPC any more."""


class Lock(_thread.RLock):  # type: ignore[misc]
    """A re-entrant lock that is free in a forked child. Use it as `with lock`.

    Re-entrant for signal handlers, which run in the thread that holds it. The guarded state must be valid at every
    moment, because a child may get it in the middle of a change. `with` calls no function in Python: the exception of a
    signal handler there, before the lock is given back or after it is taken, would leave it locked for ever.
    """

    def __init__(self) -> None:
        _process.locks.add(self)

    def mine(self) -> bool:
        """True in the thread that holds it."""
        held: bool = self._is_owned()  # type: ignore[attr-defined]
        return held

    def in_child(self) -> None:
        """Free the lock after a fork, in the child, unless the thread that forked holds it."""
        if self.acquire(blocking=False):
            self.release()
        else:
            self._at_fork_reinit()  # type: ignore[attr-defined]


class _Process:
    """The state of this process."""

    def __init__(self) -> None:
        self.has_grpc = False
        self.forked = False
        self.holders: weakref.WeakSet[Forkable] = weakref.WeakSet()
        self.locks: weakref.WeakSet[Lock] = weakref.WeakSet()

    def in_child(self) -> None:
        """Close all nodes after a fork, in the child."""
        self.forked = self.has_grpc
        for lock in list(self.locks):
            lock.in_child()
        for holder in list(self.holders):
            # gRPC's destructors crash in a child, also at its end: a reference that nobody gives back prevents them.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(holder))
            holder.forked()


_process: Final = _Process()
os.register_at_fork(after_in_child=_process.in_child)


def forked() -> bool:
    """True in a process that was forked off one that has started a node."""
    return _process.forked


def protect(holder: Forkable) -> None:
    """Note that this process starts gRPC, on behalf of `holder`."""
    _process.has_grpc = True
    _process.holders.add(holder)
