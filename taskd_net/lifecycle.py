"""The life of a node: it starts, joins, drains and closes."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from taskd_net import fork, limits
from taskd_net.address import Address
from taskd_net.codes import NodeClosed, NodeError, NodeForked, NodeTimeout
from taskd_net.config import NodeConfig
from taskd_net.driver import Driver
from taskd_net.observe.reporter import Reporter
from taskd_net.observe.service import NodeService
from taskd_net.observe.tracing import load_tracer
from taskd_net.observe.view import View
from taskd_net.retry import Backoff
from taskd_net.sending import Sender
from taskd_net.tls.rotation import Rotation
from taskd_net.transport.absence import Absence
from taskd_net.transport.join import Joiner
from taskd_net.transport.serve import MeshServer


class Lifecycle(Driver):
    """A driver with its neighbours: it listens for children, joins a parent, and leaves both in good order.

    Args:
        config: the node and its neighbours.
    """

    def __init__(self, config: NodeConfig) -> None:
        super().__init__(config)
        self._sender = Sender(self)
        self._address: Address | None = None
        self._watch: asyncio.Task[None] | None = None
        self._closing: asyncio.Future[None] | None = None

    async def start(self) -> Self:
        """Listen (Mgr, Proxy) and begin to join (all but the Mgr).

        Raises:
            ConfigError: an address cannot be listened on, a file of TLS is not usable, or what tracing needs is not
                installed.
            NodeForked: this process was forked off one that has started a node.
            NodeError: the node was started before; a closed node cannot be started again.
        """
        if fork.forked():
            raise NodeForked(fork.REASON)
        if self._loop is not None or self.closed:
            raise NodeError("a node can be started once; make a new one")
        self._loop = asyncio.get_running_loop()
        fork.protect(self)
        config = self.config
        if config.tracing:
            self._sender.tracer = load_tracer(config.position)
        self.view = View(self, config.expect or "")
        rotation = None if config.tls is None else Rotation(config.tls, self.log)
        if config.listen is not None:
            await self._listen(config.listen, rotation)
        if config.upstream is not None:
            self._join(config.upstream, rotation)
        if rotation is not None:
            self._watch = asyncio.create_task(
                rotation.watch(self._client_changed), name=f"certificates of {self.position}"
            )
        return self

    async def _listen(self, listen: str, rotation: Rotation | None) -> None:
        config = self.config
        address = Address.parse(listen, "listen")
        server = MeshServer(
            self,
            self.view,
            NodeService(self, self.view, address),
            address,
            None if config.plain_listen is None else Address.parse(config.plain_listen, "plain_listen"),
            None if rotation is None else rotation.server,
            batched=config.links == "batched",
            certified=config.identity == "certificate",
            tracer=self._sender.tracer,
        )
        self._address = await server.start()
        self._server = server
        self.view.listen = str(self._address)
        tls = rotation is not None and rotation.server is not None
        plain = {} if server.plain_address is None else {"plain_address": str(server.plain_address)}
        self.log.info("listening", address=str(self._address), tls=tls, **plain)

    def _join(self, upstream: str, rotation: Rotation | None) -> None:
        config = self.config
        self._joiner = joiner = Joiner(
            self,
            Address.parse(upstream, "upstream"),
            Backoff(config.backoff_initial, config.backoff_max),
            config.ack_timeout,
            self._at_depth,
            batched=config.links == "batched",
            rotation=rotation,
            tracer=self._sender.tracer,
            service=config.service,
            reports=Reporter(self, self.view, config.ack_timeout).run,
        )
        self._absence = Absence(self.log, upstream, lambda: joiner.trouble)
        self._absence.begin()
        joiner.start()

    async def close(self, *, orderly: bool = True) -> None:
        """Leave the mesh: every send that waits gets its code, the parent sees it at once, nothing stays open.

        Messages that are in the inbox have been acknowledged and can still be received. Closing twice is closing once:
        whoever comes second waits for the same end, and whoever is cancelled meanwhile does not stop it. In a forked
        child nothing happens: the node is the parent's.

        Args:
            orderly: whether this end is meant to be. The state of the mesh then shows the node as finished, or a Proxy
                as stopped; else, as after a failure, as lost, and later as gone (docs/status.md). The context of a node
                takes an exception for a failure.
        """
        if fork.forked():
            return
        if self._closing is None:
            self.closed = True
            self._closing = asyncio.ensure_future(self._close(orderly))
        await asyncio.shield(self._closing)

    async def drain(self, seconds: float) -> bool:
        """Leave the mesh in good order: let what is under way come to its end, for a bounded time, then `close`.

        From the first moment on this node turns new children away and takes on nothing new: a message for it is
        answered 5000, one that would pass through it 5001, and its sender still has it. Messages that had arrived
        before, and `sync=false` ones that are on their way, are passed on. What is in the inbox can still be received,
        also afterwards.

        Args:
            seconds: how long at most; what has no answer then gets the codes of `close`, which takes a moment of its
                own (`limits.CLOSE_GRACE_S` for each side).

        Returns:
            Whether everything came to its end in time.
        """
        if self._loop is None or self.closed:
            await self.close()
            return True
        self.perform(self.router.drain())
        give_up_at = self._loop.time() + seconds
        parent = self._server
        leaving = asyncio.gather(*(() if parent is None else (parent.turn_away(),)))
        if parent is not None:
            await parent.catch_up(min(seconds / 2, limits.DRAIN_CATCH_UP_S))
        done = True
        try:
            async with asyncio.timeout_at(give_up_at):
                while self._busy():  # noqa: ASYNC110 - looked at, not signalled, for the reason given with the limit
                    await asyncio.sleep(limits.DRAIN_LOOK_S)
        except TimeoutError:
            done = False
        if parent is not None:
            # What has come since gets its code, too, before gRPC's server stops.
            await parent.at_rest(min(give_up_at - self._loop.time(), limits.DRAIN_CATCH_UP_S))
        await self.close()
        await leaving
        return done

    async def withdraw(self, timeout: float) -> bool:
        """Take this node, and all below it, out of the routes of the mesh, before it is closed for good.

        Otherwise its parent keeps its place for the grace time, and every broadcast that matches it is answered 6002
        meanwhile. Only a parent of this package can be told.

        Args:
            timeout: seconds until the parent's answer at the latest.

        Returns:
            Whether the parent has taken it in.
        """
        return self.running and await self._sender.withdraw(timeout)

    def close_inbox(self) -> None:
        """Take no more messages: from now on their senders get 5000. What is in the inbox can still be received.

        The node goes on passing messages on. Its health and the state of the mesh say that its inbox is closed.
        """
        if self.closed:
            return
        self.perform(self.router.close_inbox())
        if self._server is not None:
            self._server.health.receiving(False)
        if self._loop is not None:
            self.view.news.set()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close(orderly=not isinstance(error, Exception))

    async def joined(self, timeout: float | None = None) -> None:
        """Wait until the Mgr knows the way to this node (contract, section 3). A Mgr always is.

        Args:
            timeout: seconds, None without end.

        Raises:
            NodeTimeout: not joined in time; the text says what the last attempt ran into.
            NodeClosed: the node is closed, or was while it was waited for.
            NodeError: the node was not started.
        """
        if fork.forked():
            raise NodeForked(fork.REASON)
        if self._loop is None:
            raise NodeError("the node was not started")
        if self._joiner is None:
            return
        try:
            async with asyncio.timeout(timeout):
                await self._joiner.joined.wait()
        except TimeoutError:
            text = f"{self.position} has not joined {self.config.upstream} within {timeout} s: {self._joiner.trouble}"
            raise NodeTimeout(text) from None
        if self.closed:
            raise NodeClosed(f"{self.position} is closed")

    def forked(self) -> None:
        """In a forked child the node is closed, without any of the steps of closing: they would touch gRPC."""
        self.closed = True
        self._arrivals.frames.clear()

    def _busy(self) -> bool:
        gathered = self._server is not None and self._server.busy
        return gathered or self.router.busy or any(session.busy for session in self.links.values())

    async def _close(self, orderly: bool) -> None:
        if self._loop is not None:
            if self._absence is not None:
                self._absence.end()
            self.perform(self.router.close())
            if self._joiner is not None:
                await self._joiner.close(limits.CLOSE_GRACE_S, orderly=orderly)
                # Nobody waits any more; `joined` sees that the node is closed.
                self._joiner.joined.set()
            if self._server is not None:
                await self._server.close(limits.CLOSE_GRACE_S)
            self.perform(self.router.close())
            self._disarm()
            if self._watch is not None:
                self._watch.cancel()
                await asyncio.wait([self._watch])
            self.log.info("closed")
        self._arrivals.wake()

    def _client_changed(self) -> None:
        if self._joiner is not None:
            self._joiner.renew()

    def _at_depth(self, depth: int) -> None:
        if self._server is not None:
            self._server.depth = depth
