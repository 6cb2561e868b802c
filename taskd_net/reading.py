"""The loops that read a node's inbox for the application. All of them are in a `Reading`:

    with Reading(node) as reading:
        for message in node.messages():
            with reading.survive(message):
                ...

Two promises hold for each. Nothing that a message holds, and nothing that a handler raises, ends the loop. And where it
does end, while the node lives, the inbox is closed: its senders get 5000, instead of 0 for what nobody will read.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from types import TracebackType
from typing import Final, Self

from taskd_net import limits
from taskd_net.blocking import BlockingNode
from taskd_net.codes import NodeClosed, TaskdNetError
from taskd_net.core.identity import ViolationReports
from taskd_net.logger import get_logger
from taskd_net.node import Node
from taskd_net.wire.codec import Message

_ENDS: Final = (NodeClosed, KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError)
"""Errors that somebody has meant to end a reader with."""


class Unreadable(TaskdNetError, ValueError):
    """The body of a message is not what its reader reads; the text says why."""


class Reading:
    """One reader of a node's inbox, as a context: its end closes the inbox.

    Args:
        node: whose inbox it reads. The context may be left in any thread.
    """

    def __init__(self, node: Node | BlockingNode) -> None:
        self._node = node
        self._log = get_logger(node=str(node.position))
        self._kinds = ViolationReports(limits.READER_LOG_S, limits.READER_KINDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None and not isinstance(error, _ENDS):
            self._log.error("reader_failed", reason=repr(error), exc_info=error)
        with suppress(NodeClosed):
            self._node.close_inbox()

    def survive(self, message: Message, **fields: object) -> AbstractContextManager[None, bool]:
        """Do something with a message. What is raised is logged, and the reader goes on.

        SystemExit and KeyboardInterrupt pass in the main thread, where they end the process. In any other thread they
        would end nothing but the reader, so they are an error like any other.

        Args:
            message: the message.
            fields: of the line in the log.
        """
        return _Surviving(self, message, fields)

    def _took(self, message: Message, error: BaseException, fields: Mapping[str, object]) -> bool:
        """An error was raised over a message. Returns whether the reader goes on."""
        if not isinstance(error, Exception):
            main = threading.current_thread() is threading.main_thread()
            if main or not isinstance(error, SystemExit | KeyboardInterrupt):
                return False
        if count := self.due(error):
            said = {"src": str(message.src), "uuid": message.uuid, "count": count, **fields}
            if isinstance(error, Unreadable):
                self._log.warning("body_unreadable", reason=str(error), **said)
            else:
                self._log.error("handler_failed", exc_info=error, **said)
        return True

    def due(self, error: BaseException) -> int:
        """Count an error. Returns how many a line in the log would now be about; 0: too early for the next of its kind.

        Of one kind are errors of one type from one line of code: no message can make up ever new ones.
        """
        at = error.__traceback__
        while at is not None and at.tb_next is not None:
            at = at.tb_next
        place = "" if at is None else f"{at.tb_frame.f_code.co_filename}:{at.tb_lineno}"
        return self._kinds.add(time.monotonic(), f"{type(error).__name__} {place}")


class _Surviving:
    """What a reader does with one message."""

    __slots__ = ("_fields", "_message", "_reading")

    def __init__(self, reading: Reading, message: Message, fields: Mapping[str, object]) -> None:
        self._reading = reading
        self._message = message
        self._fields = fields

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        return error is not None and self._reading._took(self._message, error, self._fields)
