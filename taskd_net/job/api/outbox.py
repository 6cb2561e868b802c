"""An Agent's reports on their way to the Mgr."""

from __future__ import annotations

import asyncio
from uuid import uuid4

from taskd_net.base.body import Body
from taskd_net.base.codes import describe
from taskd_net.job.api.member import log
from taskd_net.job.api.reporting import MGR, RETRY_S
from taskd_net.node.node import Node


class Outbox:
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
        """Send, without end."""
        while True:
            await self._filled.wait()
            kind, report = next(iter(self._waiting.items()))
            if not await self._sent(*report):
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
