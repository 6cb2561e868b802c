"""The life of a node: it starts, joins, drains and closes."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Self

from taskd_net.base import fork, limits, standard_files, unfit
from taskd_net.base.address import Address
from taskd_net.base.codes import NodeClosed, NodeError, NodeForked, NodeTimeout
from taskd_net.base.times import TIMES, Times
from taskd_net.net.joining import grpc_threads
from taskd_net.net.joining.join import Joiner
from taskd_net.net.links import registry
from taskd_net.net.links.grpc_calls import DRAIN_LOOK_S
from taskd_net.net.retry import Backoff
from taskd_net.node import sending
from taskd_net.node.config import AUTO, NodeConfig, require_config
from taskd_net.node.driver import Driver
from taskd_net.node.sending import Sender, seconds
from taskd_net.observe.reporter import Reporter
from taskd_net.observe.view import View

if TYPE_CHECKING:
    from taskd_net.net.tls.rotation import Rotation


class Lifecycle(Driver):
    """A driver with its neighbours: it listens for children, joins a parent, and leaves both in good order.

    Args:
        config: the node and its neighbours.
        times: of its links; tests shorten them.
    """

    def __init__(self, config: NodeConfig, *, times: Times = TIMES) -> None:
        require_config(config)
        super().__init__(config, times=times)
        self._sender = Sender(self)
        self._address: Address | None = None
        self._watch: asyncio.Task[None] | None = None
        self._closing: asyncio.Future[None] | None = None
        if config.standby:
            self.standby = "standby: no Manager has begun to lead yet"

    async def start(self) -> Self:
        """Listen (Mgr, Proxy) and begin to join (all but the Mgr).

        Raises:
            ConfigError: an address cannot be bound, a file of TLS is not usable, or the extra for tracing is missing.
            NodeForked: this process was forked off one that has started a node.
            NodeError: the node was started before (a closed node cannot be started again), the process is at its limit
                of threads or open files, or `unfit` for a node.
        """
        if fork.forked():
            raise NodeForked(fork.REASON)
        if reason := unfit.reason():
            raise NodeError(reason)
        if self._loop is not None or self.closed:
            raise NodeError("a node can be started once; make a new one")
        grpc_threads.require_room()
        standard_files.open_missing()
        self._loop = asyncio.get_running_loop()
        self.running = True
        fork.protect(self)
        config = self.config
        if config.tracing:
            from taskd_net.observe.tracing import load_tracer

            self.tracer = load_tracer(config.position)
        self.view = View(self, config.expect or "")
        rotation = None
        if config.tls is not None:
            from taskd_net.net.tls.rotation import Rotation

            rotation = Rotation(config.tls, self.log, self.times)
            self.certificate_ends = rotation.ends
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
        # A leaf has no children, and no use for these.
        from taskd_net.net.joining.serve import MeshServer
        from taskd_net.net.links.kind import Sockets
        from taskd_net.observe.service import NodeService

        config = self.config
        address = Address.parse(listen, "listen")
        sockets = None
        if (direct := config.direct_address) is not None:
            context = None if rotation is None or rotation.server is None else rotation.server_context
            sockets = Sockets(direct, context, asked_for=config.direct_listen != AUTO)
        server = MeshServer(
            self,
            self.view,
            NodeService(self, self.view, address),
            address,
            None if config.plain_listen is None else Address.parse(config.plain_listen, "plain_listen"),
            None if rotation is None else rotation.server,
            kinds=registry.usable(config.links),
            certified=config.identity == "certificate",
            sockets=sockets,
            standby=self.standby,
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
            config.upstreams,
            Backoff(self.times.backoff_initial, self.times.backoff_max),
            config.ack_timeout,
            self._at_depth,
            kinds=registry.usable(config.links),
            rotation=rotation,
            service=config.service,
            reports=Reporter(self, self.view, config.ack_timeout).run,
        )
        joiner.start()

    async def close(self, *, orderly: bool = True) -> None:
        """Leave the mesh: every waiting send gets its code, the parent sees it at once, nothing stays open.

        Messages in the inbox have been acknowledged and can still be received. `close` is idempotent: every caller
        waits for the same end, and a cancelled caller does not stop it. In a forked child it does nothing.

        Args:
            orderly: whether the node leaves in good order, or after a failure (docs/status.md). The context of a node
                takes an exception for a failure.
        """
        if fork.forked():
            return
        if self._closing is None:
            self.running, self.closed = False, True
            self._closing = asyncio.ensure_future(self._close(orderly))
        await asyncio.shield(self._closing)

    async def drain(self, seconds: float) -> bool:
        """Complete the messages under way, for a bounded time, then `close`.

        From the first moment on this node turns new children away and takes on nothing new. A message for it is
        answered 5000, one that would pass through it 5001; the sender still has it. Messages that have arrived and
        `sync=false` messages on their way are passed on. Messages in the inbox can still be received, also afterwards.

        Args:
            seconds: the time at most. Messages without an answer then get the codes of `close`, which takes up to
                `limits.CLOSE_GRACE_S` for each side.

        Returns:
            Whether every message was completed in time.

        Raises:
            ArgumentError: `seconds` is not a number of seconds; nothing has begun then.
        """
        seconds = sending.seconds(seconds, "seconds")
        if self._loop is None or not self.running:
            await self.close()
            return True
        self.perform(self.router.drain())
        give_up_at = self._loop.time() + seconds
        parent = self._server
        leaving = asyncio.gather(*(() if parent is None else (parent.turn_away(),)))
        if parent is not None:
            await parent.catch_up(seconds / 2)
        done = True
        try:
            async with asyncio.timeout_at(give_up_at):
                while self._busy():  # noqa: ASYNC110 - looked at, not signalled, for the reason given with the limit
                    await asyncio.sleep(DRAIN_LOOK_S)
        except TimeoutError:
            done = False
        if parent is not None:
            # Messages that came meanwhile get their codes before gRPC's server stops.
            await parent.at_rest(give_up_at - self._loop.time())
        await self.close()
        await leaving
        return done

    async def withdraw(self, timeout: float) -> bool:
        """Take this node, and all below it, out of the routes of the mesh, before it is closed for good.

        Otherwise its parent keeps its place for the grace time, and broadcasts that match it are answered 6002. Only a
        parent of this package understands it.

        Args:
            timeout: seconds until the parent's answer at the latest.

        Returns:
            Whether the parent has confirmed it.
        """
        return self.running and await self._sender.withdraw(timeout)

    def stand_by(self, standby: str) -> None:
        """Refuse children, with a text that sends them to their next address, and forget the inbox; or take them again.

        For a Mgr whose Manager does not lead. Links of children end, and their Register is answered UNAVAILABLE with
        the text, which `standby` has. Health is NOT_SERVING, `liveness` is SERVING. Status and probes are answered.

        Args:
            standby: the text, such as `standby of 10.0.0.1:9601`; empty to take children again.
        """
        if self.closed or standby == self.standby:
            return
        turns, self.standby = bool(standby) != bool(self.standby), standby
        if self._server is not None:
            self._server.stand_by(standby)
        if turns:
            # A message that came in the last moment of a term is none of the next one, whose reader is another.
            self._inbox.clear()
            self.perform(self.router.reset_inbox())
            if self._server is not None:
                self._server.health.receiving(True)
        if self._loop is not None:
            self.view.news.set()

    def send_elsewhere(self) -> None:
        """End the links of the children, which try their other addresses first. Those that find no other come back."""
        if self._server is not None:
            self._server.send_elsewhere()

    def close_inbox(self) -> None:
        """Refuse further messages for this node with 5000. Messages in the inbox can still be received.

        The node still forwards messages. Its health and the state of the mesh say that its inbox is closed.
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
        """Wait until the Mgr knows the way to this node (docs/contract.md, section 3). A Mgr always is.

        Args:
            timeout: seconds, None without end.

        Raises:
            NodeTimeout: not joined in time; the text has the reason of the last failure.
            NodeClosed: the node is closed, perhaps since the call.
            NodeError: the node was not started.
            ArgumentError, ArgumentTypeError: `timeout` is no number of seconds.
        """
        if fork.forked():
            raise NodeForked(fork.REASON)
        if self._loop is None:
            raise NodeError("the node was not started")
        waits = None if timeout is None else seconds(timeout)
        if self._joiner is None:
            return
        try:
            async with asyncio.timeout(waits):
                await self._joiner.joined.wait()
        except TimeoutError:
            text = f"{self.position} has not joined {self.config.upstream} within {timeout} s: {self._joiner.trouble}"
            raise NodeTimeout(text) from None
        if self.closed:
            raise NodeClosed(f"{self.position} is closed")

    def forked(self) -> None:
        """Close the node in a forked child, without the steps of `close`, which touch gRPC."""
        self.running, self.closed = False, True
        self._inbox.clear()
        for session in self.links.values():
            session.forked()

    def _busy(self) -> bool:
        gathered = self._server is not None and self._server.busy
        return gathered or self.router.busy or any(session.busy for session in self.links.values())

    async def _close(self, orderly: bool) -> None:
        if self._loop is not None:
            if self._joiner is not None:
                self._joiner.leave()
            self.perform(self.router.close(self.now()))
            if self._joiner is not None:
                await self._joiner.close(limits.CLOSE_GRACE_S, orderly=orderly)
                # Ends the wait in `joined`, which sees that the node is closed.
                self._joiner.joined.set()
            if self._server is not None:
                await self._server.close(limits.CLOSE_GRACE_S)
            self.perform(self.router.close(self.now()))
            self._disarm()
            if self._watch is not None:
                self._watch.cancel()
                await asyncio.wait([self._watch])
            self.log.info("closed")
        if self._record is not None:
            self._record.close()
        self._delivered.set()

    def _client_changed(self) -> None:
        if self._joiner is not None:
            self._joiner.renew()

    def _at_depth(self, depth: int) -> None:
        if self._server is not None:
            self._server.depth = depth
