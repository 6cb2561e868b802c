"""`TransferMessage` as a parent serves it: one unary call for each message, its Ack the answer.

gRPC hands calls over one by one. Decided on one by one, they would leave a batched link in batches of one, each of
which costs as much as a call. So what comes in while the message before it waits for its answer is gathered, and
decided on together as soon as that is there. A message that comes alone is not delayed, any other by 2 ms at most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import grpc

from taskd_net import limits
from taskd_net.codes import Refusal
from taskd_net.core.frame import Ack, Frame
from taskd_net.core.routes import LinkId
from taskd_net.links.host import Host
from taskd_net.links.quota import Quota
from taskd_net.links.session import Context
from taskd_net.transport.channel import SERVICE
from taskd_net.transport.permissions import Permissions
from taskd_net.wire import codec


class Calls(grpc.GenericRpcHandler):
    """The four calls as gRPC hands them over.

    Args:
        methods: what serves each, by its name.
    """

    def __init__(self, methods: Mapping[str, grpc.RpcMethodHandler[bytes, bytes]]) -> None:
        self._methods = {f"/{SERVICE}/{name}": handler for name, handler in methods.items()}
        self._count = 0

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        """One call more."""
        self._count += 1
        return self._methods.get(handler_call_details.method)

    async def rest(self, seconds: float) -> None:
        """Wait until no call has come for some looks of a draining node, or so many seconds at most."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        count, looks = self._count, 0
        # Looks, not seconds: of a loop that stood still, time alone would say that nothing came.
        while looks < limits.DRAIN_LOOKS and loop.time() < until:
            await asyncio.sleep(limits.DRAIN_LOOK_S)
            looks = looks + 1 if count == self._count else 0
            count = self._count


class _Call:
    """One call that waits for its answer."""

    __slots__ = ("answer", "came_from", "context", "frame", "transfers")

    def __init__(
        self, transfers: Transfers, frame: Frame, came_from: LinkId, context: Context, answer: asyncio.Future[Ack]
    ) -> None:
        self.transfers = transfers
        self.frame = frame
        self.came_from = came_from
        self.context = context
        self.answer = answer

    def reply(self, ack: Ack) -> None:
        """Answer it; an answer that comes after the caller has gone is dropped."""
        if self is self.transfers.awaited:
            self.transfers.was_answered()
        if not self.answer.done():
            self.answer.set_result(ack)


class Transfers:
    """The messages that children send by unary calls.

    Args:
        host: the node.
        gate: says which child brings a message.
        quota: what a child's messages cost that wait for their answers.

    Attributes:
        catching_up: the node has begun to drain, and what comes in now counts as having come before that.
        awaited: the call that was decided on last, until it is answered.
    """

    def __init__(self, host: Host, permissions: Permissions, quota: Callable[[LinkId], Quota]) -> None:
        self._host = host
        self._permissions = permissions
        self._quota = quota
        self._loop = asyncio.get_running_loop()
        self._gathered: list[_Call] = []
        self._timer: asyncio.TimerHandle | None = None
        self.awaited: _Call | None = None
        self.catching_up = False

    @property
    def busy(self) -> bool:
        """Whether messages have come in that are not decided on."""
        return bool(self._gathered)

    async def take(self, data: bytes, context: Context) -> Ack:
        """Take a message in; returns when it is answered.

        Raises:
            Refusal: it is not taken in.
        """
        frame = codec.read_frame(data, self._host.router.limits)
        came_from = self._permissions.bringer(frame, context)
        quota, size = self._quota(came_from), len(data)
        try:
            quota.require(size)
        except Refusal as refusal:
            refusal.uuid = frame.uuid
            raise
        answer: asyncio.Future[Ack] = self._loop.create_future()
        quota.add(1, size)
        try:
            self._gather(_Call(self, frame, came_from, context, answer))
            return await answer
        finally:
            quota.add(-1, -size)

    def decide(self) -> None:
        """Have the Router decide on all that has been gathered, but for callers that have gone."""
        host, router = self._host, self._host.router
        calls, self._gathered = [call for call in self._gathered if not call.answer.done()], []
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.awaited = calls[-1] if calls else None
        arrived = router.frame_had_arrived if self.catching_up else router.frame_arrived
        for call in calls:
            try:
                budget = call.context.time_remaining()
                host.perform(arrived(host.now(), call.came_from, call.frame, call.reply, budget))
            except Exception as error:
                # One bad message must not cost the others their answers; its own caller is told.
                if call.answer.done():
                    raise
                call.answer.set_exception(error)

    def was_answered(self) -> None:
        """The call that was decided on last has its answer: the next ones go, after those that are answered with it."""
        self.awaited = None
        if self._gathered:
            self._loop.call_soon(self.decide)

    def _gather(self, call: _Call) -> None:
        self._gathered.append(call)
        if self.awaited is None or len(self._gathered) >= limits.GATHER_MESSAGES:
            self.decide()
        elif self._timer is None:
            self._timer = self._loop.call_later(limits.GATHER_S, self.decide)
