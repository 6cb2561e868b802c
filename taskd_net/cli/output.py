"""The standard output, line by line, without blocking the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import select
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final

from taskd_net import Message, limits
from taskd_net.untrusted import json_line, printable

STDOUT: Final = 1


class Output:
    """The standard output of a process with an event loop.

    A write into a full pipe waits for its reader, so a thread of its own writes, and the loop's links go on. A caller
    waits for its own line alone. Nothing is buffered.

    Args:
        gone: called once, in the loop, at the end of the reader (`| head`), also without a write.
        full: called in the loop when the disk has no room for a line. The line is written later.
    """

    def __init__(self, gone: Callable[[], object], full: Callable[[], object] = bool) -> None:
        self._loop = asyncio.get_running_loop()
        self._gone = gone
        self._full = full
        self._lines: SimpleQueue[tuple[bytes, asyncio.Future[bool]]] = SimpleQueue()
        for work in (self._write_lines, self._watch):
            threading.Thread(target=work, name=f"stdout {work.__name__}", daemon=True).start()

    async def line(self, text: str) -> bool:
        """Write a line. Returns True when it is written, False when it cannot be."""
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
            except BlockingIOError:  # another process has made it non-blocking
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
        # Without an event to wait for, `poll` returns only at the close of the other end; for a file, never.
        poller = select.poll()
        poller.register(STDOUT, 0)
        poller.poll()
        self._tell(self._gone)


def as_json(message: Message) -> str:
    """A message as one line of JSON."""
    fields = message._asdict() | {"src": str(message.src), "dst": str(message.dst)}
    return json_line(fields)


def as_text(message: Message) -> str:
    """A message in words: its sender, its kind, its body. It is one line, whatever the body has in it."""
    return printable(f"{message.src} {message.mtype} {message.body}")


def _settle(written: asyncio.Future[bool], done: bool) -> None:
    if not written.done():
        written.set_result(done)
