"""`BlockingNode`: a node for callers without an event loop, such as a training script.

One background thread runs an event loop with all such nodes of the process. Calls are handed over to it and wait for
their result. Many threads may call at once. Nodes that are open when the interpreter ends are closed then.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import partial
from queue import SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from uuid import uuid4

from taskd_net.base import fork, limits, threads, unfit
from taskd_net.base.codes import Code, NodeClosed, NodeError, NodeForked, NodeTimeout
from taskd_net.base.position import Position, Role
from taskd_net.base.waiting import taken
from taskd_net.core.counters import Statistics
from taskd_net.core.frame import Ack
from taskd_net.net.retry import Retry
from taskd_net.net.wire.codec import Message
from taskd_net.node.background import shared
from taskd_net.node.config import NodeConfig, require_config
from taskd_net.node.node import Node
from taskd_net.node.sending import seconds

if TYPE_CHECKING:
    from taskd_net.observe.probe_codec import Echo
    from taskd_net.observe.records import Mesh

T = TypeVar("T")


class BlockingNode:
    """A member of the mesh whose methods block. Names, arguments and codes are those of `Node`.

    Use it as `with BlockingNode(config) as node`, or call `start` and `close`.

    Args:
        config: the node and its neighbours.
    """

    def __init__(self, config: NodeConfig) -> None:
        require_config(config)
        self.config = config
        self._node: Node | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._started = False
        self._tasks: set[asyncio.Task[None]] = set()
        # Held while a call is handed over: one that a stopped loop gets would wait for ever.
        self._handing_over = fork.Lock()
        self._closing = fork.Lock()

    def start(self) -> Self:
        """Listen (Mgr, Proxy) and begin to join; returns when listening, not when joined.

        Raises:
            ConfigError: the listening address cannot be bound.
            NodeForked: this process was forked off one that has started a node.
            NodeError: the node was started before, the process is at its limit of threads or open files, or
                `unfit` for a node.
        """
        if fork.forked():
            raise NodeForked(fork.REASON)
        if reason := unfit.reason():
            raise NodeError(reason)
        if self._started:
            raise NodeError("a node can be started once; make a new one")
        threads.uninterrupted(self._start, self.close)
        return self

    def close(self, *, orderly: bool = True) -> None:
        """Leave the mesh; see `Node.close`. Messages left in the inbox are lost. Idempotent.

        With the last node of the process its thread ends. In a forked child it does nothing.
        """
        if fork.forked():
            return
        close = partial(self._close, orderly)
        # A signal handler that has interrupted a call in the moment of its handing over does it in its own thread.
        close() if self._handing_over.mine() else threads.uninterrupted(close)

    def withdraw(self, timeout: float) -> bool:
        """Take this node out of the routes of the mesh, before it is closed for good; see `Node.withdraw`.

        Raises:
            NodeClosed: the node is closed.
        """
        return self._call(self._running.withdraw(timeout))

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close(orderly=not isinstance(error, Exception))

    def joined(self, timeout: float | None = None) -> None:
        """Wait until the Mgr knows the way to this node; see `Node.joined`.

        Raises:
            NodeTimeout: not joined in time; the text has the reason of the last failure.
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
        retry: Retry | None = None,
        wait: bool = True,
    ) -> Ack:
        """Send a message and learn whether it arrived; see `Node.send`. 4999 when the node is not running."""
        try:
            return self._call(
                self._running.send(body, to=to, mtype=mtype, timeout=timeout, uuid=uuid, retry=retry, wait=wait)
            )
        except NodeClosed as closed:
            return self._not_sent(uuid, closed)

    def send_all(
        self,
        messages: Iterable[tuple[Position | str, str]],
        *,
        mtype: str = "default",
        timeout: float | None = None,
        retry: Retry | None = Retry(),  # noqa: B008 - frozen
        in_flight: int = limits.SEND_ALL_IN_FLIGHT,
    ) -> list[Ack]:
        """Send many messages with back-pressure; see `Node.send_all`. The node's thread iterates over `messages`.

        Raises:
            NodeClosed: the node is not running.
        """
        node = self._running
        return self._call(node.send_all(messages, mtype=mtype, timeout=timeout, retry=retry, in_flight=in_flight))

    def post(
        self,
        body: str | None,
        *,
        to: Position | str,
        mtype: str = "default",
        timeout: float | None = None,
        uuid: str | None = None,
        wait: bool = True,
    ) -> Ack:
        """Send a message; the answer says that the first hop has it; see `Node.post`. 4999 when it is not running."""
        try:
            return self._call(self._running.post(body, to=to, mtype=mtype, timeout=timeout, uuid=uuid, wait=wait))
        except NodeClosed as closed:
            return self._not_sent(uuid, closed)

    def ping(self, to: Position | str, *, timeout: float | None = None) -> Echo:
        """Probe the way to a destination; see `Node.ping`.

        Raises:
            NodeClosed: the node is not running.
        """
        return self._call(self._running.ping(to, timeout=timeout))

    def receive(self, timeout: float | None = None) -> Message:
        """Take the next message out of the inbox.

        Args:
            timeout: seconds, None without end.

        Raises:
            NodeTimeout: nothing came in time.
            NodeClosed: the node is closed.
        """
        return self._call(_received(self._running, timeout))

    def receive_all(self) -> Sequence[Message]:
        """Take all messages out of the inbox, and wait for one if it is empty.

        Each call into the node's thread costs a switch of threads. This one costs a single switch for all messages.

        Raises:
            NodeClosed: the node is closed.
        """
        return self._call(self._running.receive_all())

    def close_inbox(self) -> None:
        """Refuse further messages for this node with 5000; see `Node.close_inbox`.

        Raises:
            NodeClosed: the node is not running.
        """
        self._call(_in_thread(self._running.close_inbox))

    def messages(self) -> Iterator[Message]:
        """Take messages, one by one, until the node is closed."""
        while True:
            try:
                yield self.receive()
            except NodeClosed:
                return

    @property
    def position(self) -> Position:
        """The node's position."""
        return self.config.position

    @property
    def address(self) -> str | None:
        """The address that this node listens at; None for a leaf or before `start`."""
        return None if self._node is None else self._node.address

    @property
    def statistics(self) -> Statistics:
        """Counters since the node was made."""
        return self._running.statistics

    @property
    def is_joined(self) -> bool:
        """True if the Mgr knows the way to this node. It answers at once, also while the loop stands still."""
        return self._node is not None and self._node.is_joined

    @property
    def trouble(self) -> str:
        """As of `Node`. It answers at once, also while the loop stands still."""
        return "" if self._node is None else self._node.trouble

    def routes(self) -> Mapping[Position, Position]:
        """Every node below, with the child that leads to it."""
        return self._call(_in_thread(self._running.routes))

    def mesh(self) -> Mesh:
        """The state of this node and of everything below it; see `Node.mesh`.

        Raises:
            NodeClosed: the node is not running.
        """
        return self._call(_in_thread(self._running.mesh))

    def run(self, work: Callable[[Node], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine in the node's thread, and wait for its result; it must not block.

        Programs are started with `asyncio.create_subprocess_exec` or in `asyncio.to_thread`. The node's own thread
        blocks the signals of a process, and a thread or program that is started directly inherits that.

        Raises:
            NodeClosed: the node is not running, or was closed meanwhile.
        """
        return self._call(work(self._running))

    def beside(self, work: Callable[[Node], Coroutine[Any, Any, None]]) -> None:
        """Run a coroutine beside the node, in its thread, until it ends or the node is closed; see `run`.

        Args:
            work: makes the coroutine out of the node; it must not block.

        Raises:
            NodeClosed: the node is not running.
        """
        self._call(self._spawn(work, self._running))

    def _start(self) -> None:
        with self._closing:
            if self._started:
                raise NodeError("a node can be started once; make a new one")
            self._loop = shared.acquire(self)
            self._started = True
            try:
                self._node = self._call(Node(self.config).start())
            except BaseException:
                self._end()
                raise
            _open.add(self)

    def _close(self, orderly: bool) -> None:
        # A second caller waits for the end of the first.
        with self._closing:
            if self._loop is None or self._node is None:
                return
            with contextlib.suppress(NodeClosed):
                self._call(self._closed(self._node, orderly))
            self._end()
            _open.discard(self)

    @property
    def _running(self) -> Node:
        if fork.forked():
            raise NodeForked(fork.REASON)
        if self._node is None:
            raise NodeClosed(f"{self.position} was not started")
        return self._node

    def _not_sent(self, uuid: str | None, closed: NodeClosed) -> Ack:
        if isinstance(closed, NodeForked):
            raise closed
        return Ack(uuid or str(uuid4()), Code.CLIENT_ERR, self.position, str(closed), 0)

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the node's thread and wait for its result."""
        # Not run_coroutine_threadsafe: its Future has a lock, for which a signal handler in this thread that closes the
        # node could wait for ever. A SimpleQueue has none.
        done: SimpleQueue[asyncio.Task[T]] = SimpleQueue()
        tasks: list[asyncio.Task[T]] = []

        def begin() -> None:
            tasks.append(asyncio.create_task(work))
            tasks[0].add_done_callback(done.put)

        if shared.runs_here():
            work.close()
            raise NodeError("a call from the node's own thread would wait for itself; use Node there")
        loop = None
        try:
            with self._handing_over:
                loop = self._loop
                try:
                    if loop is None:
                        raise RuntimeError
                    loop.call_soon_threadsafe(begin)
                except RuntimeError:  # closed, or by a signal handler since the look at it
                    work.close()
                    raise NodeClosed(f"{self.position} is closed") from None
            finished = taken(done)
        except NodeClosed:
            raise
        except BaseException:  # of a signal handler: Ctrl-C, SystemExit or any other
            if loop is not None:
                with contextlib.suppress(RuntimeError):  # the handler has closed the node
                    loop.call_soon_threadsafe(lambda: [task.cancel() for task in tasks])
            raise
        try:
            return finished.result()
        except asyncio.CancelledError:
            raise NodeClosed(f"{self.position} was closed during the call") from None

    async def _spawn(self, work: Callable[[Node], Coroutine[Any, Any, None]], node: Node) -> None:
        task = asyncio.create_task(work(node))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        # Not awaited: its error is logged here or nowhere.
        error = None if task.cancelled() else task.exception()
        if error is not None and self._node is not None:
            self._node.driver.log.error("beside_failed", reason=repr(error), exc_info=error)

    async def _closed(self, node: Node, orderly: bool) -> None:
        for task in self._tasks:
            task.cancel()
        await node.close(orderly=orderly)

    def _end(self) -> None:
        with self._handing_over:
            loop, self._loop = self._loop, None
        if loop is not None:
            shared.release(self)


def opened() -> frozenset[BlockingNode]:
    """The nodes of this process that are open."""
    return frozenset(_open)


# Nodes to close when the interpreter ends, before it takes gRPC's threads apart. A node that a script has dropped is a
# member of the mesh until then, so it is held here.
_open: set[BlockingNode] = set()
_LEAVING = (Role.WORKER, Role.AGENT, Role.PROXY, Role.MGR)


@atexit.register
def _close_all() -> None:
    # An exception that ended the main thread is a failure of the script.
    orderly = getattr(sys, "last_value", None) is None
    # Children first: they would log the loss of their parents.
    for node in sorted(_open, key=lambda node: _LEAVING.index(Role(node.position.role))):
        node.close(orderly=orderly)


async def _received(node: Node, timeout: float | None) -> Message:
    try:
        # Not `wait_for`, which can lose a message when it is cancelled.
        async with asyncio.timeout(None if timeout is None else seconds(timeout)):
            return await node.receive()
    except TimeoutError:
        raise NodeTimeout(f"{node.position} has received nothing within {timeout} s") from None


async def _in_thread(work: Callable[[], T]) -> T:
    return work()
