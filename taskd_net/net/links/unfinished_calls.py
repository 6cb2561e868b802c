"""Calls of gRPC whose messages have not come whole, at a parent.

gRPC keeps what has come of a message, and hands it over when it is whole. A handler of unary calls sees a call only
then. So every call is served as one with a stream of requests, whose first message is read here: the call is known from
its beginning on. One whose message does not come whole within some looks counts with the longest message, in the same
account as unfinished frames of direct links. It ends when others need the memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final, cast

import grpc

from taskd_net.base import limits
from taskd_net.base.codes import Code
from taskd_net.core.frame import Ack
from taskd_net.net.links.grpc_calls import Context, Failures, Handler, caller_of
from taskd_net.net.links.remote import Remote
from taskd_net.net.links.session import Host
from taskd_net.net.links.unfinished import Receiver, Unfinished

LOOK_S: Final = 0.02
"""Seconds between two looks at the calls of gRPC whose messages have not come whole."""

LOOKS: Final = 3
"""Looks that such a call has seen before it counts, so after 40 to 60 ms. Until then its peer can send as much as the
network carries. Looks count, not seconds: a busy loop has read what is whole before it looks for the third time."""

CHILD_LOOKS: Final = 100
"""The same for calls over the connection of a child: 2 s, in which a Proxy has brought 25 MB at 100 Mbit/s."""

SILENT_CALL_S: Final = 60.0
"""Seconds after which such a call stands still, as a frame without a byte does. Nobody waits longer for an answer."""

_NEEDED: Final = "its message did not come whole, and other messages needed the memory"
_SHARE: Final = "too many messages of its connection have not come whole"


class _Call:
    """A call whose message has not come whole for a while."""

    __slots__ = ("_calls", "context", "remote")

    def __init__(self, calls: UnfinishedCalls, context: Context, remote: Remote) -> None:
        self._calls = calls
        self.context = context
        self.remote = remote

    def give_way(self) -> None:
        """End the call: others need its memory."""
        self._calls.end(self, _NEEDED)


class UnfinishedCalls:
    """The calls of one parent's server.

    Args:
        host: the node.
        failures: answers children of the original's.
        unfinished: the account of messages that have not come whole.
        is_child: True for a connection over which a child has its stream. Its calls count later, and have no share: a
            Proxy's connection may carry many large messages at once, over a slow network, too.
    """

    def __init__(
        self,
        host: Host,
        failures: Failures,
        unfinished: Unfinished[Receiver],
        is_child: Callable[[Remote], object],
    ) -> None:
        self._host = host
        self._is_child = is_child
        self._failures = failures
        self._unfinished = unfinished
        self._most = max(1, host.router.limits.child_bytes // limits.RECEIVE_BYTES)
        self._loop = asyncio.get_running_loop()
        # The number of looks when each call began, oldest first; those of children later; then the calls that count.
        self._new: dict[Context, int] = {}
        self._of_children: dict[Context, int] = {}
        self._counted: dict[Context, _Call] = {}
        self._of: Counter[Remote] = Counter()
        # Until the handler of each has ended.
        self._ending: dict[Context, asyncio.Task[None]] = {}
        self._looks = 0
        self._timer: asyncio.TimerHandle | None = None

    def close(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def bounded(self, handler: Handler) -> Handler:
        """A handler whose calls count until their messages are whole; those with a stream of requests for good."""
        make = (
            grpc.stream_stream_rpc_method_handler
            if handler.response_streaming
            else grpc.stream_unary_rpc_method_handler
        )
        served = self._served(handler)
        return cast("Handler", make(served, handler.request_deserializer, handler.response_serializer))

    def all_bounded(self, handlers: grpc.GenericRpcHandler) -> grpc.GenericRpcHandler:
        """The same for each handler of a service."""
        return _Bounded(self, handlers)

    def _served(self, handler: Any) -> Callable[[AsyncIterator[Any], Context], Any]:
        if handler.request_streaming:
            streamed: Callable[[AsyncIterator[Any], Context], AsyncIterator[Any]] = handler.stream_stream

            async def answers(requests: AsyncIterator[Any], context: Context) -> AsyncIterator[Any]:
                self._begin(context)
                try:
                    async for answer in streamed(requests, context):
                        yield answer
                finally:
                    self._whole(context)
                    self._ending.pop(context, None)

            return answers
        method: Callable[[Any, Context], Awaitable[Any]] = handler.unary_stream or handler.unary_unary
        assert inspect.iscoroutinefunction(method)

        async def served(_: AsyncIterator[Any], context: Context) -> Any:
            self._begin(context)
            try:
                request: object = await context.read()
                if (ending := self._ending.get(context)) is not None:
                    # The message came whole while the call was being ended. gRPC wants its handler to raise the abort,
                    # as a further read does.
                    await asyncio.wait([ending])
                    request = await context.read()
            finally:
                self._whole(context)
                self._ending.pop(context, None)
            if request is grpc.aio.EOF:
                await context.abort(grpc.StatusCode.INTERNAL, "the call has no message")
            return await method(request, context)

        return served

    def _begin(self, context: Context) -> None:
        self._new[context] = self._looks
        if self._timer is None:
            self._timer = self._loop.call_later(LOOK_S, self._look)

    def _whole(self, context: Context) -> None:
        """The message of a call is whole, or the call is over."""
        if self._new.pop(context, None) is not None or self._of_children.pop(context, None) is not None:
            return
        if (call := self._counted.get(context)) is not None:
            self._unfinished.release(call, self._place(call))
            self._forget(call)

    def _look(self) -> None:
        self._timer = None
        self._looks += 1
        for context in _begun(self._new, self._looks - LOOKS):
            began = self._new.pop(context)
            caller = caller_of(context)
            if caller is None:
                continue  # it is past its deadline, and gRPC ends it
            if self._is_child(caller.remote):
                self._of_children[context] = began
            else:
                self._count(context, caller.remote, self._most)
        for context in _begun(self._of_children, self._looks - CHILD_LOOKS):
            del self._of_children[context]
            if (caller := caller_of(context)) is not None:
                self._count(context, caller.remote)
        if self._new or self._of_children:
            self._timer = self._loop.call_later(LOOK_S, self._look)

    def _count(self, context: Context, remote: Remote, share: int | None = None) -> None:
        call = _Call(self, context, remote)
        self._counted[context] = call
        self._of[remote] += 1
        if share is not None and self._of[remote] > share:
            self.end(call, _SHARE)
            return
        # Bytes of a call are not seen as they come: it stands still after the time for which anybody may wait.
        moved = self._loop.time() + SILENT_CALL_S
        for other in self._unfinished.hold(call, self._place(call), limits.RECEIVE_BYTES, moved):
            other.give_way()

    def end(self, call: _Call, reason: str) -> None:
        """End a call that is in the account no more."""
        self._forget(call)
        self._host.log.info("call_ended", peer=call.remote.place, reason=reason)
        self._ending[call.context] = self._loop.create_task(self._abort(call, reason))

    async def _abort(self, call: _Call, reason: str) -> None:
        # gRPC leaves an abort by an exception, also this one beside the handler, whose read raises the same.
        with contextlib.suppress(grpc.aio.AbortError, grpc.aio.UsageError, grpc.aio.InternalError):
            busy = Ack("", Code.RECV_BUF_BUSY, self._host.router.position, reason)
            await self._failures.end(busy, call.context, call.remote)
            await call.context.abort(grpc.StatusCode.UNAVAILABLE, reason)

    def _forget(self, call: _Call) -> None:
        del self._counted[call.context]
        self._of[call.remote] -= 1
        if not self._of[call.remote]:
            del self._of[call.remote]

    @staticmethod
    def _place(call: _Call) -> str:
        """The place in the account: beside that of direct links, whose frames are in the order of their last bytes."""
        return f"calls of {call.remote.place}"


def _begun(calls: Mapping[Context, int], before: int) -> list[Context]:
    """The calls, oldest first, that began at a look or before it."""
    return list(itertools.takewhile(lambda context: calls[context] <= before, calls))


class _Bounded(grpc.GenericRpcHandler):
    """The handlers of a service whose messages count until they are whole."""

    def __init__(self, calls: UnfinishedCalls, handlers: grpc.GenericRpcHandler) -> None:
        self._calls = calls
        self._handlers = handlers

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Handler | None:
        """The handler of a method; None for one that is not of this service."""
        handler = self._handlers.service(handler_call_details)
        return None if handler is None else self._calls.bounded(handler)
