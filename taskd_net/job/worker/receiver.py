"""The thread in which the application's handlers run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from taskd_net.base import threads
from taskd_net.base.body import Body
from taskd_net.base.limits import HANDLER_GRACE_S
from taskd_net.job.exchange import read_body
from taskd_net.job.member import Refused
from taskd_net.net.wire.codec import Message
from taskd_net.node.blocking import BlockingNode
from taskd_net.node.reading import Reading


class HandlerThread:
    """Hands the messages of a node on, one by one, until the node is closed.

    Handlers run outside the event loop, so a slow one delays no link and no answer: the inbox fills up behind it, and
    senders get 5001. No message and no handler ends it.

    Args:
        node: whose messages.
        take: handles one message. Its errors are logged, SystemExit too, which would end this thread alone, and with it
            all later commands.
    """

    def __init__(self, node: BlockingNode, take: Callable[[Message, Body], None]) -> None:
        self._node = node
        self._take = take
        self._reading = Reading(node)
        self._thread: threading.Thread | None = None
        self._closed = False

    def start(self) -> None:
        """Begin, unless it has begun.

        Raises:
            NodeError: the thread cannot be started.
        """
        if self._thread is None:
            self._thread = threads.start(self._run, "taskd_net handlers", application=True)

    def join(self, seconds: float = HANDLER_GRACE_S) -> None:
        """Wait for the end of the thread, after the node is closed, perhaps by a handler.

        Args:
            seconds: for a handler to return.

        Raises:
            Refused: it has not.
        """
        self._closed = True
        if self._thread is None or self._thread is threading.current_thread():
            return
        self._thread.join(seconds)
        if self._thread.is_alive():
            raise Refused(f"a handler has not returned within {seconds:g} s; the node is closed")

    def _run(self) -> None:
        # `Reading` has logged the error that ended it; nobody else is there to catch it.
        with suppress(Exception), self._reading:
            while not self._closed:
                for message in self._node.receive_all():
                    if not self._closed:
                        self._handle(message)

    def _handle(self, message: Message) -> None:
        with self._reading.survive(message):
            body = read_body(message)
            with self._reading.survive(message, code=body.code, msg_type=body.msg_type):
                self._take(message, body)
