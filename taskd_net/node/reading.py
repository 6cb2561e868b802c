"""The loops that read a node's inbox for the application. Each runs in a `Reading`:

    with Reading(node) as reading:
        for message in node.messages():
            with reading.survive(message):
                ...

No message and no exception of a handler ends such a loop. When a loop does end while the node lives, the inbox is
closed: senders get 5000, instead of 0 for messages that nobody reads.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from taskd_net.base.codes import NodeClosed, TaskdNetError
from taskd_net.base.logger import get_logger
from taskd_net.net.wire.codec import Message
from taskd_net.node.blocking import BlockingNode
from taskd_net.node.node import Node

_ENDS: Final = (NodeClosed, KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError)
"""Errors that end a reader on purpose."""


class Unreadable(TaskdNetError, ValueError):
    """The body of a message has another form than its reader expects; the text says why."""


class Reading:
    """One reader of a node's inbox, as a context: its end closes the inbox.

    Args:
        node: the node. The context may be left in any thread.
    """

    def __init__(self, node: Node | BlockingNode) -> None:
        self._node = node
        self._log = get_logger(node=str(node.position))

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
        """Handle a message. An exception is logged, and the reader goes on.

        SystemExit and KeyboardInterrupt pass in the main thread, where they end the process. In any other thread they
        would end the reader alone, so they are logged as well.

        Args:
            message: the message.
            fields: further fields of the log line.
        """
        return _Surviving(self, message, fields)

    def _took(self, message: Message, error: BaseException, fields: Mapping[str, object]) -> bool:
        """Log an exception of a handler. Returns whether the reader goes on."""
        if not isinstance(error, Exception):
            main = threading.current_thread() is threading.main_thread()
            if main or not isinstance(error, SystemExit | KeyboardInterrupt):
                return False
        said = {"src": str(message.src), "uuid": message.uuid, **fields}
        if isinstance(error, Unreadable):
            self._log.warning("body_unreadable", reason=str(error), **said)
        else:
            self._log.error("handler_failed", exc_info=error, **said)
        return True


@dataclass(slots=True)
class _Surviving:
    """The handling of one message."""

    reading: Reading
    message: Message
    fields: Mapping[str, object]

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        return error is not None and self.reading._took(self.message, error, self.fields)
