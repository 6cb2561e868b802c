"""`BlockingNode`: the same node for callers without an event loop, such as a training script.

One background thread runs an event loop with the node in it; calls are handed over and wait for their result. Many
threads may call at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterator, Mapping
from concurrent.futures import CancelledError
from types import TracebackType
from typing import Any, Self, TypeVar

import uvloop

from taskd_net.config import NodeConfig
from taskd_net.core.frame import Ack
from taskd_net.core.router import Statistics
from taskd_net.node import Node, NodeClosed
from taskd_net.position import Position
from taskd_net.wire.codec import Message

T = TypeVar("T")


class BlockingNode:
    """A member of the mesh whose methods block. Names, arguments and codes are those of `Node`.

    Use it as `with BlockingNode(config) as node`, or call `start` and `close`.

    Args:
        config: who the node is and where its neighbours are.
    """

    def __init__(self, config: NodeConfig) -> None:
        self.config = config
        self._node: Node | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        # Held while a call is handed over, so that none is handed to a loop that has stopped: it would wait for ever.
        self._handing_over = threading.Lock()

    def start(self) -> Self:
        """Listen (Mgr, Proxy) and begin to join; returns when listening, not when joined.

        Raises:
            ConfigError: the listening address cannot be bound.
            RuntimeError: the node was started before.
        """
        if self._thread is not None:
            raise RuntimeError("a node can be started once; make a new one")
        loop = uvloop.new_event_loop()
        thread = threading.Thread(target=_run, args=(loop,), name=f"taskd_net {self.config.position}", daemon=True)
        self._loop, self._thread = loop, thread
        thread.start()
        try:
            self._node = self._call(_started(self.config))
        except BaseException:
            self._end()
            raise
        return self

    def close(self) -> None:
        """Leave the mesh and end the thread. Messages left in the inbox are gone; closing twice is closing once."""
        if self._node is not None:
            # Another thread may be closing it too, and be ahead: then there is only its end to wait for.
            with contextlib.suppress(NodeClosed):
                self._call(self._node.close())
            self._end()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def joined(self, timeout: float | None = None) -> None:
        """Wait until the Mgr knows the way to this node; see `Node.joined`.

        Raises:
            TimeoutError: not joined in time; the text says what the last attempt ran into.
        """
        self._call(self._running.joined(timeout))

    def send(
        self,
        body: str | None,
        *,
        to: Position | str,
        mtype: str = "default",
        timeout: float | None = None,
        uuid: str | None = None,
    ) -> Ack:
        """Send a message and learn whether it arrived; see `Node.send`."""
        return self._call(self._running.send(body, to=to, mtype=mtype, timeout=timeout, uuid=uuid))

    def post(
        self,
        body: str | None,
        *,
        to: Position | str,
        mtype: str = "default",
        timeout: float | None = None,
        uuid: str | None = None,
    ) -> Ack:
        """Send a message; the answer says that the first hop has it; see `Node.post`."""
        return self._call(self._running.post(body, to=to, mtype=mtype, timeout=timeout, uuid=uuid))

    def receive(self, timeout: float | None = None) -> Message:
        """Take the next message out of the inbox.

        Args:
            timeout: seconds, None without end.

        Raises:
            TimeoutError: nothing came in time.
            NodeClosed: the node is closed.
        """
        return self._call(_received(self._running, timeout))

    def messages(self) -> Iterator[Message]:
        """Take messages out of the inbox, one by one, until the node is closed."""
        while True:
            try:
                yield self.receive()
            except NodeClosed:
                return

    @property
    def position(self) -> Position:
        """Who this node is."""
        return self.config.position

    @property
    def address(self) -> str | None:
        """Where this node listens; None for a leaf or before `start`."""
        return None if self._node is None else self._node.address

    @property
    def statistics(self) -> Statistics:
        """Counters since the node was made."""
        return self._running.statistics

    def routes(self) -> Mapping[Position, Position]:
        """Every node known below, with the child that leads to it."""
        return self._call(_routes(self._running))

    # ---- inside

    @property
    def _running(self) -> Node:
        if self._node is None:
            raise NodeClosed(f"{self.position} was not started")
        return self._node

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the node's thread and wait for its result."""
        with self._handing_over:
            if self._loop is None:
                work.close()
                raise NodeClosed(f"{self.position} is closed")
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except CancelledError:
            raise NodeClosed(f"{self.position} was closed during the call") from None
        except BaseException:
            future.cancel()  # KeyboardInterrupt while waiting
            raise

    def _end(self) -> None:
        with self._handing_over:
            loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(loop.stop)
        if self._thread is not None:
            self._thread.join()


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        # Whoever still waits, in another thread, gets an error instead of waiting for ever.
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


async def _started(config: NodeConfig) -> Node:
    return await Node(config).start()


async def _received(node: Node, timeout: float | None) -> Message:
    return await asyncio.wait_for(node.receive(), timeout)


async def _routes(node: Node) -> Mapping[Position, Position]:
    return node.routes()
