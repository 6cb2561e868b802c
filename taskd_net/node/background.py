"""The thread with an event loop that all `BlockingNode`s of a process share.

gRPC's poller belongs to one event loop, and serves several badly. The thread starts with the first node and ends with
the last.
"""

from __future__ import annotations

import asyncio
import os
import threading
from functools import partial
from typing import Final

import uvloop

from taskd_net.base import descriptors, fork, standard_files, threads
from taskd_net.base.codes import NodeError


class Background:
    """The loop, its thread, and the number of nodes that use them."""

    def __init__(self) -> None:
        self._changing = fork.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._users: set[object] = set()

    def acquire(self, user: object) -> asyncio.AbstractEventLoop:
        """The running loop, for a user until its `release`. Neither call is for the main thread; see `uninterrupted`.

        Raises:
            NodeError: the process is at its limit of threads or open files.
        """
        with self._changing:
            if self._loop is None:
                descriptors.require_room()
                standard_files.open_missing()
                loop = uvloop.new_event_loop()
                try:
                    self._thread = threads.start(partial(_run, loop), "taskd_net")
                except NodeError:
                    loop.close()
                    raise
                self._loop = loop
            self._users.add(user)
            return self._loop

    def release(self, user: object) -> None:
        """Give the loop back; idempotent. The last release waits for the end of the thread."""
        with self._changing:
            self._users.discard(user)
            if self._users or self._loop is None or self._thread is None:
                return
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
            loop.call_soon_threadsafe(loop.stop)
            thread.join()

    def runs_here(self) -> bool:
        """True in the loop's own thread, which must not wait for itself."""
        return threading.current_thread() is self._thread

    def in_forked_child(self) -> None:
        """Forget the thread, which a fork does not copy."""
        self.__init__()  # type: ignore[misc]


shared: Final = Background()
os.register_at_fork(after_in_child=shared.in_forked_child)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    executor = threads.executor()
    loop.set_default_executor(executor)
    try:
        loop.run_forever()
        # Calls that wait in other threads get an error now.
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        executor.shutdown(wait=False)
        loop.close()
