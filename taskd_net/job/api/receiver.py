"""The thread in which the application's handlers run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from taskd_net.base import threads, vocabulary
from taskd_net.base.body import Body
from taskd_net.base.limits import HANDLER_GRACE_S
from taskd_net.base.position import Position
from taskd_net.base.untrusted import natural
from taskd_net.job.api.member import Refused, log
from taskd_net.net.wire.codec import Message
from taskd_net.node.blocking import BlockingNode
from taskd_net.node.reading import Reading, Unreadable

_TERM_MOST: Final = 2**63 - 1


class Receiver:
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


def from_mgr(message: Message) -> bool:
    """True for a message of the Mgr; any other sender is one line in the log, within the budget of lines.

    The sender's parent has checked that a sender speaks for itself.
    """
    src = message.src.identity
    if src == Position.mgr():
        return True
    log.warning("command_refused", src=str(src), uuid=message.uuid, reason="commands come from Mgr/0 alone")
    return False


class Terms:
    """The fencing numbers of the Mgr's commands to one process: a Mgr that was replaced commands nothing more.

    A command without one passes: of a Mgr with its state in a file, or of the original's.
    """

    def __init__(self) -> None:
        self._newest = 0

    def admits(self, message: Message, body: Body) -> bool:
        """True for a command of the newest leader seen, or of a newer one; any other is one line in the log."""
        term = natural(body.extension.get(vocabulary.TERM, "0"), _TERM_MOST) or 0
        if term == 0 or term >= self._newest:
            self._newest = max(self._newest, term)
            return True
        reason = f"its Mgr led in term {term}, and another one leads since term {self._newest}"
        log.warning("command_refused", src=str(message.src.identity), uuid=message.uuid, reason=reason)
        return False


def read_body(message: Message) -> Body:
    """The body of a message of TaskD's own traffic.

    Raises:
        Unreadable: it is none.
    """
    try:
        return Body.parse(message.body)
    except ValueError as error:
        raise Unreadable(str(error)) from None
