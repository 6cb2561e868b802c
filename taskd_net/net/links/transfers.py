"""`TransferMessage` as a parent serves it: one unary call for each message, its Ack the answer.

gRPC hands calls over one by one, however many wait. Decided on one by one, they would leave a batched link in batches
of one, each of which costs as much as a call. So messages that come together are gathered, and decided on together once
no further one has come for 0.4 ms, or 16 are there, or 2 ms have passed. A message that comes alone is not delayed.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Final

from taskd_net.base.codes import Code, Refusal
from taskd_net.core.frame import Ack, Frame
from taskd_net.core.ready import Ready
from taskd_net.core.routes import LinkId
from taskd_net.net.links.grpc_calls import GONE, Context, caller_of
from taskd_net.net.links.kind import Acceptor, Parent
from taskd_net.net.wire import codec

GATHER_IDLE_S: Final = 0.0004
"""Seconds without a further unary call after which the gathered ones are decided on: gRPC hands over the next one
within half of that, if it has it."""

GATHER_S: Final = 0.002
"""Seconds for which a message that comes by a unary call is gathered at most: a few round trips to the next hop."""

GATHER_MESSAGES: Final = 16
"""Messages that are gathered at most: twice as many in one batch gain nothing that can be measured."""

GATHER_DECISIONS: Final = 8
"""Decisions on one message alone after which calls no longer count as coming together."""

CALL_BYTES: Final = 21 * 1024
"""Bytes that gRPC and this node take for a call that waits for its answer, beside its message."""


@dataclass(slots=True, eq=False)
class _Call:
    """One call that waits for its answer."""

    frame: Frame
    came_from: LinkId
    context: Context
    answer: asyncio.Future[Ack]

    def reply(self, ack: Ack) -> None:
        """Answer it; an answer that comes after the caller has gone is dropped."""
        if not self.answer.done():
            self.answer.set_result(ack)


class Transfers(Acceptor):
    """The messages that children send by unary calls.

    Args:
        parent: whom they come to.
        idle, longest, most: as `GATHER_IDLE_S`, `GATHER_S` and `GATHER_MESSAGES`.
    """

    def __init__(
        self, parent: Parent, idle: float = GATHER_IDLE_S, longest: float = GATHER_S, most: int = GATHER_MESSAGES
    ) -> None:
        super().__init__(parent)
        self._idle = idle
        self._longest = longest
        self._most = most
        self._host = parent.host
        self._loop = asyncio.get_running_loop()
        self._gathered: list[_Call] = []
        self._unanswered = 0
        # Every call is gathered for so many decisions more: after several calls came together, others do.
        self._together = 0
        self._looking = False
        self._last_came = self._first_came = 0.0

    def close(self) -> None:
        """Decide on what has come in."""
        self.decide()

    @property
    def busy(self) -> bool:
        """True while received messages are not decided on."""
        return bool(self._gathered)

    async def take(self, data: bytes, context: Context) -> bytes:
        """Take a message in; returns its answer, serialized, when it is there."""
        parent, caller = self._parent, caller_of(context)
        if caller is None:
            return GONE
        # One coroutine for all of it: a second one that only watches for errors is a tenth of gRPC's own cost.
        try:
            frame = codec.read_frame(data)
            came_from = parent.bringer(frame, caller)
            quota = parent.quota(came_from)
            # The largest message fits into a `child_bytes` of its own size.
            size = len(data) + (CALL_BYTES if quota.messages else 0)
            try:
                quota.require(size)
            except Refusal as refusal:
                refusal.uuid = frame.uuid
                raise
            answer: asyncio.Future[Ack] = self._loop.create_future()
            quota.add(1, size)
            self._unanswered += 1
            try:
                self._gather(_Call(frame, came_from, context, answer))
                ack = await answer
            finally:
                self._unanswered -= 1
                quota.add(-1, -size)
        except Exception as error:  # noqa: BLE001 - a fault is answered and logged there
            ack = parent.failures.answer("TransferMessage", error, caller.remote)
        if ack.code:
            await parent.failures.end(ack, context, caller.remote)
        return codec.write_ack(ack)

    def decide(self) -> None:
        """Have the Router decide on all that has been gathered, but for callers that have gone."""
        host, router = self._host, self._host.router
        calls, self._gathered = [call for call in self._gathered if not call.answer.done()], []
        self._together = GATHER_DECISIONS if len(calls) > 1 else max(0, self._together - 1)
        now = host.now()
        for call in calls:
            try:
                budget = call.context.time_remaining()
                token = host.request(call.reply)
            except Exception as error:  # noqa: BLE001 - its own caller is told
                call.answer.set_exception(error)
                continue
            try:
                host.perform(
                    router.call_arrived(now, call.came_from, call.frame, token, budget, early=self.catching_up)
                )
            except Exception as error:
                # One bad message must not cost the others their answers; its own caller is told.
                if call.answer.done():
                    raise
                call.answer.set_exception(error)
                # The request is over: the node would keep it, and the connection with it.
                failed = Ready()
                failed.completed.append((token, Ack(call.frame.uuid, Code.SERVER_ERR, router.position)))
                host.perform(failed)

    def _gather(self, call: _Call) -> None:
        self._gathered.append(call)
        if (self._unanswered == 1 and not self._together) or len(self._gathered) >= self._most:
            self.decide()
            return
        self._last_came = time.monotonic()
        if len(self._gathered) == 1:
            self._first_came = self._last_came
        if not self._looking:
            self._looking = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        """Decide if no call has come for a while, or look again in the loop's next turn: its timers are too coarse."""
        if self._gathered:
            now = time.monotonic()
            if now - self._last_came < self._idle and now - self._first_came < self._longest:
                self._loop.call_soon(self._look)
                return
            self.decide()
        self._looking = False
