"""What becomes of nodes in a forked child: nothing that could touch gRPC.

A training script forks (data loaders, `multiprocessing`), and a forked child has the memory of gRPC without its
threads: a call into gRPC can wait for ever, or end the links of the parent. So in a child that was forked off a process
which has started a node, every node is closed and stays so: calls raise `NodeForked` or answer False. Children that
need a node of their own are spawned or exec'd, or come from a fork server, which is exec'd itself.
"""

from __future__ import annotations

import os
import weakref
from typing import Final, Protocol

REASON: Final = "this process was forked off one that has a node and can have none itself; spawn or exec it instead"


class Forkable(Protocol):
    """What holds objects of gRPC."""

    def forked(self) -> None:
        """Called in a forked child, in which nothing may touch gRPC any more."""


class _Process:
    """What matters of this process."""

    def __init__(self) -> None:
        self.has_grpc = False
        self.forked = False
        self.holders: weakref.WeakSet[Forkable] = weakref.WeakSet()

    def in_child(self) -> None:
        """After a fork, in the child."""
        self.forked = self.has_grpc
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
