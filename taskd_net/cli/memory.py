"""The memory of a process of ours: its allocator, tuned for large messages, and its garbage collection.

By default glibc gives freed memory back to the kernel, from some megabytes on. A message of 8 MiB is in several blocks
on its way through a node, and the kernel clears each page of each block again: up to 7 ms a block, in which the event
loop stands still. A process that is nothing but a node keeps some freed memory instead.
"""

from __future__ import annotations

import ctypes
import gc
import os
from typing import Final

FREED_BYTES_KEPT: Final = 64 * 1024 * 1024
"""Bytes of freed memory that a process of ours keeps: the blocks of a message of 8 MiB on its way, and the share of one
peer. A training process keeps its own allocator as it is."""

HEAP_BLOCK_BYTES: Final = 16 * 1024 * 1024
"""Bytes of a block up to which freed memory serves it: more than gRPC's buffer for the largest message."""

# `mallopt(3)` has the numbers.
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3

_OF_THE_USER: Final = frozenset({"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"})


def keep_freed_memory() -> bool:
    """Keep freed memory for the next large message, up to `FREED_BYTES_KEPT`.

    Returns:
        False where the C library has another allocator (musl, macOS), or the user has tuned it by the environment.
    """
    if not _OF_THE_USER.isdisjoint(os.environ):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_MMAP_THRESHOLD, HEAP_BLOCK_BYTES) and mallopt(_TRIM_THRESHOLD, FREED_BYTES_KEPT))


def leave_start_uncollected() -> None:
    """Leave everything that the start has made out of later garbage collections: it stays until the end anyway.

    A full collection walks over some 100,000 objects of modules for 10 to 30 ms, in which the event loop stands still.
    """
    gc.collect()
    gc.freeze()
