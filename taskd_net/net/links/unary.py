"""Upstream messages over `TransferMessage`: one unary call per message, many in flight, ordered where that is promised.

Concurrent unary calls may arrive in any order. The sender of a `sync=false` message has its answer before the message
arrives, and may send the next one. Until the call returns, later messages of the same flow wait here: those of the same
sender to the same destination. A sync message has no promised order with messages sent beside it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import grpc

from taskd_net.base import limits
from taskd_net.base.codes import Code, Refusal
from taskd_net.base.position import Position
from taskd_net.core.frame import Ack, Frame
from taskd_net.net.links import grpc_status
from taskd_net.net.links.grpc_calls import unary_call
from taskd_net.net.links.large_writes import LARGE_WRITE_BYTES, LargeWriter
from taskd_net.net.links.peer import Profile
from taskd_net.net.links.turns import Turns
from taskd_net.net.wire import codec

CALLS: Final = 1024
"""Most calls in flight. More gain nothing, and a parent permits a connection some 2,000 (`streams_per_connection`)."""

CALL_BYTES: Final = 4 * limits.LINK_BYTES
"""Most bytes of messages in flight. Further messages wait in the queue that the Router counts."""

_Flow: TypeAlias = tuple[Position, Position]


@dataclass(slots=True)
class _Waiting:
    frame: Frame
    deadline: float
    begun: bool = False


class UnaryWriter:
    """The `TransferMessage` calls of one joined node to its parent.

    Args:
        channel: to the parent.
        here: the position of this node.
        parent: the parent's position, the `src` of answers that the network gives in its place.
        profile: the parent's kind of peer.
        ack_timeout: seconds for the parent's answer to a `sync=false` message.
        large_writes: the turns of the node's large messages.
        written: called with a frame when its call begins. It no longer waits here.
        answered: called with a frame and its answer.

    Attributes:
        most: calls in flight, as `CALLS`.
    """

    most = CALLS

    def __init__(
        self,
        channel: grpc.aio.Channel,
        here: Position,
        parent: Position,
        profile: Profile,
        ack_timeout: float,
        large_writes: Turns,
        written: Callable[[Frame], None],
        answered: Callable[[Frame, Ack], None],
    ) -> None:
        self._call = unary_call(channel, "TransferMessage")
        self._here = here
        self._parent = parent
        self._profile = profile
        self._ack_timeout = ack_timeout
        self._large = LargeWriter(large_writes)
        self._written = written
        self._answered = answered
        self._loop = asyncio.get_running_loop()
        self._queue: deque[_Waiting] = deque()
        self._flows: dict[_Flow, deque[_Waiting]] = {}
        self._under_way: dict[asyncio.Task[None], _Waiting] = {}
        self._bytes = 0
        self._paused = False

    def put(self, frame: Frame, timeout: float) -> None:
        """Queue a message. `timeout`: seconds after which nobody waits for its answer."""
        self._queue.append(_Waiting(frame, self._loop.time() + timeout))
        self._start()

    def withdraw(self, frame: Frame) -> bool:
        """Withdraw a message that nobody awaits any more. Returns whether its call had not begun.

        The call of a sync message is cancelled, which frees its place. The call of a `sync=false` message goes on:
        later messages of its flow must not overtake it.
        """
        for line in (self._queue, *self._flows.values()):
            for waiting in line:
                if waiting.frame is frame:
                    line.remove(waiting)
                    return True
        for task, waiting in self._under_way.items():
            if waiting.frame is frame and (frame.sync or not waiting.begun):
                task.cancel()
                return not waiting.begun
        return False

    def close(self) -> list[Frame]:
        """Cancel every call. `sync=false` messages in flight are answered 6001.

        Returns:
            The frames whose call had not begun.
        """
        left = [waiting.frame for flow in self._flows.values() for waiting in flow]
        left += [waiting.frame for waiting in self._queue]
        self._flows.clear()
        self._queue.clear()
        under_way, self._under_way = self._under_way, {}
        for task, waiting in under_way.items():
            task.cancel()
            frame = waiting.frame
            if not frame.sync:
                self._answered(frame, Ack(frame.uuid, Code.NETWORK_ACK_LOST, self._parent, "the upstream was lost"))
        return left

    async def pause(self) -> None:
        """Begin no more calls. Returns when no message waits for an earlier one of its flow."""
        self._paused = True
        while self._flows:
            await asyncio.wait([task for task, waiting in self._under_way.items() if not waiting.frame.sync])

    def resume(self) -> None:
        """Begin calls again."""
        self._paused = False
        self._start()

    def move_to(self, successor: UnaryWriter) -> None:
        """Move the queue of this paused writer to its successor."""
        successor._queue, self._queue = self._queue, deque()
        successor._start()

    async def finish(self) -> None:
        """Wait for the answers to the calls in flight."""
        while self._under_way:
            await asyncio.wait(list(self._under_way))

    @property
    def busy(self) -> bool:
        """True if a call is in flight or queued."""
        return bool(self._under_way or self._queue)

    def _start(self) -> None:
        while self._queue and not self._paused and not self._large.held and len(self._under_way) < self.most:
            size = len(self._queue[0].frame.data)
            if self._under_way and self._bytes + size > CALL_BYTES:
                return
            if size >= LARGE_WRITE_BYTES and not self._large.may_begin(size, self._start):
                return
            waiting = self._queue.popleft()
            frame = waiting.frame
            flow = (frame.src, frame.dst.position)
            blocked = self._flows.get(flow)
            if blocked is not None:
                blocked.append(waiting)
                continue
            if not frame.sync:
                self._flows[flow] = deque()
            self._bytes += size
            task = self._loop.create_task(self._send(waiting))
            self._under_way[task] = waiting
            task.add_done_callback(self._done)

    async def _send(self, waiting: _Waiting) -> None:
        frame = waiting.frame
        waiting.begun = True
        self._written(frame)
        timeout = waiting.deadline - self._loop.time() if frame.sync else self._ack_timeout
        if timeout <= 0:
            return  # the Router has answered it
        try:
            data = frame.data if self._profile.checks else codec.write_checked(frame)
            ack = codec.read_ack(await self._call(data, timeout=timeout), self._parent)
        except grpc.aio.AioRpcError as error:
            ack = self._read_status(frame, error)
        except Refusal as refusal:
            ack = Ack(frame.uuid, refusal.code, self._parent, str(refusal))
        self._answered(frame, ack)

    def _read_status(self, frame: Frame, error: grpc.aio.AioRpcError) -> Ack:
        status, text = error.code(), error.details() or ""
        code = self._profile.read_status(status, text, not frame.dst.unicast)
        if code == Code.OK:
            code = grpc_status.broadcast_code(self._parent, self._here, frame.dst)
            text = f"{self._parent} passes a broadcast only to nodes below it, and does not say to which"
        return Ack(frame.uuid, code, self._parent, f"{status.name}: {text}")

    def _done(self, task: asyncio.Task[None]) -> None:
        waiting = self._under_way.pop(task, None)
        if waiting is None:
            return  # closed
        frame = waiting.frame
        self._bytes -= len(frame.data)
        if not frame.sync:
            # Messages that waited behind this one go first: they are older than the queue.
            self._queue.extendleft(reversed(self._flows.pop((frame.src, frame.dst.position))))
        self._start()
        if not task.cancelled() and task.exception() is not None:
            raise task.exception() or AssertionError
