"""Files of the platform that a Manager looks at."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TypeVar

from taskd_net import job_limits
from taskd_net.manager.threads import OwnThread

T = TypeVar("T")


async def watch(name: str, look: Callable[[], T | None], take: Callable[[T], None]) -> None:
    """Look at a file once a second, without end, in a thread of its own.

    Args:
        name: of the file, for its thread.
        look: returns what has changed, or None.
        take: is called with it in the thread that awaits.
    """
    thread = OwnThread(name)
    try:
        while True:
            with contextlib.suppress(TimeoutError):  # a file system that hangs: as if unchanged
                value = None if thread.busy else await thread.call(look, job_limits.RESET_READ_S)
                if value is not None:
                    take(value)
            await asyncio.sleep(job_limits.RESET_LOOK_S)
    finally:
        thread.stop()
