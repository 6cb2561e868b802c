"""The thread in which the application's handlers run."""

from __future__ import annotations

import threading
from collections.abc import Callable

from taskd_net import limits
from taskd_net.api.body import Body
from taskd_net.api.member import Refused, log
from taskd_net.blocking import BlockingNode
from taskd_net.codes import NodeClosed
from taskd_net.wire.codec import Message


class Receiver:
    """Hands the messages of a node on, one by one, until the node is closed.

    One by one and outside the event loop, so that a slow handler delays neither the node's links nor an answer to a
    sender: the inbox fills up behind it, and then senders get 5001.

    Args:
        node: whose messages.
        take: what is done with each; what it raises is logged, and the next message is taken.
    """

    def __init__(self, node: BlockingNode, take: Callable[[Message, Body], None]) -> None:
        self._node = node
        self._take = take
        self._thread = threading.Thread(target=self._run, name="taskd_net handlers", daemon=True)
        self._closed = False
        self._unreadable = 0

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def join(self) -> None:
        """Wait for the end of the thread, once the node is closed; a handler may itself be what has closed it.

        Raises:
            Refused: a handler has not returned within `limits.HANDLER_GRACE_S`.
        """
        self._closed = True
        if not self._thread.is_alive() or self._thread is threading.current_thread():
            return
        self._thread.join(limits.HANDLER_GRACE_S)
        if self._thread.is_alive():
            raise Refused(f"a handler has not returned within {limits.HANDLER_GRACE_S} s; the node is closed")

    def _run(self) -> None:
        while not self._closed:
            try:
                messages = self._node.receive_all()
            except NodeClosed:
                return
            for message in messages:
                if not self._closed:
                    self._handle(message)

    def _handle(self, message: Message) -> None:
        try:
            body = Body.parse(message.body)
        except ValueError as error:
            # The first one only: a line per message is no help.
            self._unreadable += 1
            if self._unreadable == 1:
                log.warning("body_unreadable", src=str(message.src), uuid=message.uuid, reason=str(error))
            return
        try:
            self._take(message, body)
        except BaseException:
            # SystemExit as well: it would end nothing but this thread, and with it all later commands.
            log.exception("handler_failed", code=body.code, msg_type=body.msg_type, uuid=message.uuid)
