"""Room for the threads and descriptors of gRPC, which crashes where it can have none.

gRPC starts its threads with the first channel or server of the process, and ends them with the last.
"""

from __future__ import annotations

import os
from typing import Final, TypeAlias
from weakref import WeakSet

import grpc

from taskd_net.base import descriptors, threads

User: TypeAlias = grpc.aio.Channel | grpc.aio.Server

_OTHERS: Final = 8
"""Threads beside gRPC's pool: its timers, the growth of the pool, look-ups of names, the poller, four to spare."""

_users: Final[WeakSet[User]] = WeakSet()


def require_room() -> None:
    """Check that gRPC can open a connection, and start its threads, unless it has.

    Raises:
        NodeError: the process is at its limit of threads or open files.
    """
    descriptors.require_room()
    if not _users:
        # gRPC's pool has a thread for each processor, within these bounds.
        threads.require_room(min(max(os.cpu_count() or 1, 4), 16) + _OTHERS)


def note(user: User) -> None:
    """Note that gRPC's threads live at least as long as this channel or server."""
    _users.add(user)
