"""The standard output, line by line, without blocking the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from itertools import chain
from queue import SimpleQueue
from typing import Final

from taskd_net import Message
from taskd_net.base import threads
from taskd_net.base.untrusted import json_pieces, printable_pieces

RETRY_S: Final = 1.0
"""Seconds before a line for which the disk had no room is written again."""

STDOUT: Final = 1
"""Descriptor of the standard output."""

WRITE_BYTES: Final = 16_384
"""Bytes of a long line from which on they are written."""

REST: Final = 6.0
"""Rest of the writing thread after a part of a long line, as a multiple of the time that the part took to make. A part
is made while the interpreter is held, and a body of the largest size takes up to 0.2 s of it: a seventh of a core."""

SWITCH_S: Final = 0.0002
"""Seconds after which a thread that runs lets another one run."""


class Output:
    """The standard output of a process with an event loop.

    A write into a full pipe waits for its reader, so a thread of its own writes, and the loop's links go on. The thread
    also makes the pieces of a long line. A caller waits for its own line alone. Nothing is buffered. The interpreter
    changes between threads more often than by default, because the loop would wait for each piece.

    Args:
        gone: called once, in the loop, at the end of the reader (`| head`), also without a write.
        full: called in the loop when the disk has no room for a line. The line is written later.
        pause: seconds before that.
    """

    def __init__(self, gone: Callable[[], object], full: Callable[[], object] = bool, pause: float = RETRY_S) -> None:
        sys.setswitchinterval(SWITCH_S)
        self._loop = asyncio.get_running_loop()
        self._gone = gone
        self._full = full
        self._pause = pause
        self._lines: SimpleQueue[tuple[Iterator[str], asyncio.Future[bool]]] = SimpleQueue()
        for work in (self._write_lines, self._watch):
            threads.start(work, f"stdout {work.__name__}")

    async def line(self, pieces: Iterator[str]) -> bool:
        """Write the pieces of a line. Returns True when they are written, False when they cannot be."""
        written: asyncio.Future[bool] = self._loop.create_future()
        self._lines.put((pieces, written))
        return await written

    def _write_lines(self) -> None:
        while True:
            pieces, written = self._lines.get()
            done = all(self._write(data) for data in _rested(_joined(pieces)))
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
                time.sleep(self._pause)
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


def as_json(message: Message) -> Iterator[str]:
    """A message as one line of JSON, in pieces."""
    return json_pieces(message._asdict() | {"src": str(message.src), "dst": str(message.dst)})


def as_text(message: Message) -> Iterator[str]:
    """A message in words: its sender, its kind, its body. It is one line, whatever the body has in it; in pieces."""
    return chain(printable_pieces(f"{message.src} {message.mtype} "), printable_pieces(message.body))


def _joined(pieces: Iterator[str]) -> Iterator[bytes]:
    """The bytes of a line, a short one whole, so that lines of other processes do not come in between."""
    data = b""
    for piece in pieces:
        data += piece.encode()
        if len(data) >= WRITE_BYTES:
            yield data
            data = b""
    yield data + b"\n"


def _rested(parts: Iterator[bytes]) -> Iterator[bytes]:
    """The parts of a line, with a rest for the event loop behind each large one."""
    begun = time.thread_time()
    for part in parts:
        made = time.thread_time()
        yield part
        if len(part) >= WRITE_BYTES:
            time.sleep(REST * (made - begun))
        begun = time.thread_time()


def _settle(written: asyncio.Future[bool], done: bool) -> None:
    if not written.done():
        written.set_result(done)
