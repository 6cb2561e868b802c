"""The standard output, line by line, without ever holding up the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import select
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final

from taskd_net import Message, limits

STDOUT: Final = 1


class Output:
    """The standard output of a process with an event loop.

    A reader may be slow, or stopped, and a write into a full pipe waits: so a thread of its own writes, and the loop's
    links go on. What waits for its line to be written holds back only itself. Nothing is buffered.

    Args:
        gone: called once, in the loop, when nobody reads any more (`| head`), also while nothing is written.
        full: called in the loop when the disk has no room for a line, which is written when it has again.
    """

    def __init__(self, gone: Callable[[], object], full: Callable[[], object] = bool) -> None:
        self._loop = asyncio.get_running_loop()
        self._gone = gone
        self._full = full
        self._lines: SimpleQueue[tuple[bytes, asyncio.Future[bool]]] = SimpleQueue()
        for work in (self._write_lines, self._watch):
            threading.Thread(target=work, name=f"stdout {work.__name__}", daemon=True).start()

    async def line(self, text: str) -> bool:
        """Write a line. Returns when it is written: True, or False when it cannot be."""
        written: asyncio.Future[bool] = self._loop.create_future()
        self._lines.put((text.encode() + b"\n", written))
        return await written

    # ---- in the threads

    def _write_lines(self) -> None:
        while True:
            data, written = self._lines.get()
            done = self._write(data)
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                self._loop.call_soon_threadsafe(_settle, written, done)

    def _write(self, data: bytes) -> bool:
        waited = False
        while data:
            try:
                data = data[os.write(STDOUT, data) :]
            except BlockingIOError:  # somebody else has set it so
                select.select([], [STDOUT], [])
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    return False
                if not waited:
                    waited = True
                    self._tell(self._full)
                time.sleep(limits.OUTPUT_RETRY_S)
        return True

    def _tell(self, what: Callable[[], object]) -> None:
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(what)

    def _watch(self) -> None:
        # Without any event asked for, this returns only when the other end is closed; for a file, never.
        poller = select.poll()
        poller.register(STDOUT, 0)
        poller.poll()
        self._tell(self._gone)


def as_json(message: Message) -> str:
    """A message as one line of JSON."""
    fields = message._asdict() | {"src": str(message.src), "dst": str(message.dst)}
    return json.dumps(fields, ensure_ascii=False)


def as_text(message: Message) -> str:
    """A message for people: who sent it, its kind, its body."""
    return f"{message.src} {message.mtype} {message.body}"


def _settle(written: asyncio.Future[bool], done: bool) -> None:
    if not written.done():
        written.set_result(done)
