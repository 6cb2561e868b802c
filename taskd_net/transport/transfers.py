"""`TransferMessage` as a parent serves it: one unary call for each message, its Ack the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import grpc

from taskd_net import limits
from taskd_net.codes import Refusal
from taskd_net.core.frame import Ack
from taskd_net.core.routes import LinkId
from taskd_net.transport.channel import SERVICE
from taskd_net.transport.gate import Gate
from taskd_net.transport.host import Host
from taskd_net.transport.shares import Share
from taskd_net.transport.stream import Context
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


class Transfers:
    """The messages that children send by unary calls.

    Args:
        host: the node.
        gate: says which child brings a message.
        share: what a child's messages cost that wait for their answers.

    Attributes:
        catching_up: the node has begun to drain, and what comes in now counts as having come before that.
    """

    def __init__(self, host: Host, gate: Gate, share: Callable[[LinkId], Share]) -> None:
        self._host = host
        self._gate = gate
        self._share = share
        self._loop = asyncio.get_running_loop()
        self.catching_up = False

    async def take(self, data: bytes, context: Context) -> Ack:
        """Take a message in; returns when it is answered.

        Raises:
            Refusal: it is not taken in.
        """
        host, router = self._host, self._host.router
        frame = codec.read_frame(data, router.limits)
        came_from = self._gate.bringer(frame, context)
        share, size = self._share(came_from), len(data)
        try:
            share.require(size)
        except Refusal as refusal:
            refusal.uuid = frame.uuid
            raise
        answer: asyncio.Future[Ack] = self._loop.create_future()

        def reply(ack: Ack) -> None:
            # An answer that comes after the caller has gone is dropped.
            if not answer.done():
                answer.set_result(ack)

        share.add(1, size)
        try:
            arrived = router.frame_had_arrived if self.catching_up else router.frame_arrived
            host.perform(arrived(host.now(), came_from, frame, reply, context.time_remaining()))
            return await answer
        finally:
            share.add(-1, -size)
