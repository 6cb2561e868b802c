"""Room for descriptors: an event loop, or gRPC, ends a process in which it can open none."""

from __future__ import annotations

import os
from typing import Final

from taskd_net.base.codes import NodeError

_LEAST: Final = 16
"""Descriptors of a loop, of gRPC's poller, and of a first connection."""


def require_room() -> None:
    """Check that this process can open some more descriptors, by opening them.

    Raises:
        NodeError: the process, or the system, is at its limit of open files.
    """
    opened: list[int] = []
    try:
        while len(opened) < _LEAST:
            opened.append(os.eventfd(0))
    except OSError as error:
        text = f"the process can open {len(opened)} more files; expected {_LEAST}: {error.strerror}; see ulimit -n"
        raise NodeError(text) from None
    finally:
        for descriptor in opened:
            os.close(descriptor)
