"""Messages of a Worker or an Agent with its Mgr: reports, until they are taken, and the admission of commands."""

from __future__ import annotations

import asyncio
from typing import Final
from uuid import uuid4

from taskd_net.base import vocabulary
from taskd_net.base.body import Body
from taskd_net.base.codes import NodeClosed, describe
from taskd_net.base.position import Position
from taskd_net.base.untrusted import natural
from taskd_net.job.member import log
from taskd_net.net.wire.codec import Message
from taskd_net.node.node import Node
from taskd_net.node.reading import Unreadable

RETRY_S: Final = 1.0
"""Seconds before a report that the Mgr did not acknowledge is sent again, as TaskD's Agents do."""

REGISTER_EVERY_S: Final = 30.0
"""Seconds between a node's registrations with the Mgr, and between an Agent's repeats of an unanswered 201 or 202: so
long may a Mgr that was restarted not know of them. 5,000 Workers cost it 170 messages a second, a few per cent of what
it can take."""

MGR: Final = Position.mgr()
_TERM_MOST: Final = 2**63 - 1


class ReportQueue:
    """Sends reports one after another, each until the Mgr has it, with one uuid. Belongs to the node's thread.

    A newer report of one kind (msg_type and code) replaces an older one that waits. So an outbox is bounded, and a Mgr
    that was away gets the last state.

    Args:
        node: the Agent's node.
        mtype: the kind of message.
        retry: seconds before a report that the Mgr has not taken is sent again.
    """

    def __init__(self, node: Node, mtype: str, retry: float = RETRY_S) -> None:
        self._node = node
        self._mtype = mtype
        self._retry = retry
        self._waiting: dict[tuple[str, int], tuple[Body, str]] = {}
        self._filled = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self._failing = False

    def put(self, body: Body) -> None:
        """Send a report after those that wait, with a uuid of its own."""
        kind = (body.msg_type, body.code)
        self._waiting.pop(kind, None)
        self._waiting[kind] = (body, str(uuid4()))
        self._empty.clear()
        self._filled.set()

    async def empty(self) -> None:
        """Wait until the Mgr has every report."""
        await self._empty.wait()

    async def run(self) -> None:
        """Send, until the node is closed."""
        while True:
            await self._filled.wait()
            kind, report = next(iter(self._waiting.items()))
            try:
                sent = await self._sent(*report)
            except NodeClosed:
                return  # what runs beside the node is cancelled in a moment
            if not sent:
                await asyncio.sleep(self._retry)
            elif self._waiting[kind] is report:
                del self._waiting[kind]
            if not self._waiting:
                self._filled.clear()
                self._empty.set()

    async def _sent(self, body: Body, uuid: str) -> bool:
        await self._node.joined()
        ack = await self._node.send(body.to_json(), to=MGR, mtype=self._mtype, uuid=uuid, wait=False)
        if not ack.ok and not self._failing:
            log.warning("report_not_taken", node=str(self._node.position), code=body.code, reason=describe(ack.code))
        self._failing = not ack.ok
        return ack.ok


class Heartbeat:
    """Sends KEEP_ALIVEs, each once: the next one is as good. Belongs to the node's thread."""

    def __init__(self, node: Node, mtype: str) -> None:
        self._node = node
        self._mtype = mtype
        self._task: asyncio.Task[object] | None = None

    def beat(self, body: Body) -> None:
        """Send one, unless the one before is still on its way."""
        if self._task is None or self._task.done():
            send = self._node.send(body.to_json(), to=MGR, mtype=self._mtype, wait=False)
            self._task = asyncio.create_task(send)

    def close(self) -> None:
        """Give up the one on its way."""
        if self._task is not None:
            self._task.cancel()


def from_mgr(message: Message) -> bool:
    """True for a message of the Mgr; any other sender is one line in the log, within the budget of lines.

    The sender's parent has checked that a sender speaks for itself.
    """
    src = message.src.identity
    if src == Position.mgr():
        return True
    log.warning("command_refused", src=str(src), uuid=message.uuid, reason="commands come from Mgr/0 alone")
    return False


class Fencing:
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
