"""`Node`: a member of the mesh, for asyncio, in any of the four roles."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self

from taskd_net.base import fork, limits, standard_files, unfit
from taskd_net.base.address import Address
from taskd_net.base.codes import ArgumentTypeError, NodeClosed, NodeError, NodeForked, NodeTimeout, Refusal
from taskd_net.base.position import Position
from taskd_net.base.times import TIMES, LinkTimes
from taskd_net.base.untrusted import shown
from taskd_net.core.counters import Statistics
from taskd_net.core.frame import Ack, Frame
from taskd_net.net.joining import grpc_threads
from taskd_net.net.joining.join import Joiner
from taskd_net.net.links import registry
from taskd_net.net.links.grpc_calls import DRAIN_LOOK_S
from taskd_net.net.retry import Backoff, Retry
from taskd_net.net.wire.codec import Message, read_message
from taskd_net.node import sending
from taskd_net.node.config import AUTO, NodeConfig, require_config
from taskd_net.node.driver import Driver
from taskd_net.node.sending import Sender, seconds
from taskd_net.node.window import Window, send_all
from taskd_net.observe.reporter import StatusReporter

if TYPE_CHECKING:
    from taskd_net.net.tls.rotation import Rotation
    from taskd_net.observe.probe_codec import Echo
    from taskd_net.observe.records import Mesh


class Node:
    """A member of the mesh: it sends and receives messages, probes the mesh, and shows its state.

    Use it as `async with Node(config) as node`, or call `start` and `close`. A node belongs to the event loop that
    `start` runs in. Joining goes on in the background: `start` does not wait for the parent, `joined` does.

    Args:
        config: the node and its neighbours.
        times: of its links; tests shorten them.

    Attributes:
        config: as given.
        driver: the Router of the node, with its links.
    """

    def __init__(self, config: NodeConfig, *, times: LinkTimes = TIMES) -> None:
        require_config(config)
        self.config = config
        self.driver = Driver(config, times=times)
        self._sender = Sender(self.driver)
        self._address: Address | None = None
        self._watch: asyncio.Task[None] | None = None
        self._closing: asyncio.Future[None] | None = None

    @property
    def position(self) -> Position:
        """The node's position."""
        return self.config.position

    @property
    def standby(self) -> str:
        """The text with which children are refused, of a Mgr that stands by; empty while it takes them."""
        return self.driver.standby

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
        if self.driver.started or self.driver.closed:
            raise NodeError("a node can be started once; make a new one")
        grpc_threads.require_room()
        standard_files.open_missing()
        self.driver.start()
        config = self.config
        rotation = None
        if config.tls is not None:
            from taskd_net.net.tls.rotation import Rotation

            rotation = Rotation(config.tls, self.driver.log, self.driver.times)
            self.driver.certificate_ends = rotation.ends
        if config.listen is not None:
            await self._listen(config.listen, rotation)
        if config.upstream is not None:
            self._join(config.upstream, rotation)
        if rotation is not None:
            self._watch = asyncio.create_task(
                rotation.watch(self._client_changed), name=f"certificates of {self.position}"
            )
        return self

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
            self.driver.stop()
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
        driver, loop = self.driver, asyncio.get_running_loop()
        if not driver.running:
            await self.close()
            return True
        driver.perform(driver.router.drain())
        give_up_at = loop.time() + seconds
        parent = driver.server
        leaving = asyncio.gather(*(() if parent is None else (parent.turn_away(),)))
        if parent is not None:
            await parent.catch_up(seconds / 2)
        done = True
        try:
            async with asyncio.timeout_at(give_up_at):
                while driver.busy:  # noqa: ASYNC110 - looked at, not signalled, for the reason given with the limit
                    await asyncio.sleep(DRAIN_LOOK_S)
        except TimeoutError:
            done = False
        if parent is not None:
            # Messages that came meanwhile get their codes before gRPC's server stops.
            await parent.at_rest(give_up_at - loop.time())
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
        return self.driver.running and await self._sender.withdraw(timeout)

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
        if not self.driver.started:
            raise NodeError("the node was not started")
        waits = None if timeout is None else seconds(timeout)
        if self.driver.joiner is None:
            return
        try:
            async with asyncio.timeout(waits):
                await self.driver.joiner.joined.wait()
        except TimeoutError:
            trouble = self.driver.joiner.trouble
            text = f"{self.position} has not joined {self.config.upstream} within {timeout} s: {trouble}"
            raise NodeTimeout(text) from None
        if self.driver.closed:
            raise NodeClosed(f"{self.position} is closed")

    def stand_by(self, standby: str) -> None:
        """Refuse children, with a text that sends them to their next address, and forget the inbox; or take them again.

        For a Mgr whose Manager does not lead. Links of children end, and their Register is answered UNAVAILABLE with
        the text, which `standby` has. Health is NOT_SERVING, `liveness` is SERVING. Status and probes are answered.

        Args:
            standby: the text, such as `standby of 10.0.0.1:9601`; empty to take children again.
        """
        self.driver.stand_by(standby)

    def send_elsewhere(self) -> None:
        """End the links of the children, which try their other addresses first. Those that find no other come back."""
        if self.driver.server is not None:
            self.driver.server.send_elsewhere()

    def close_inbox(self) -> None:
        """Refuse further messages for this node with 5000. Messages in the inbox can still be received.

        The node still forwards messages. Its health and the state of the mesh say that its inbox is closed.
        """
        if self.driver.closed:
            return
        self.driver.perform(self.driver.router.close_inbox())
        if self.driver.server is not None:
            self.driver.server.health.receiving(False)
        if self.driver.started:
            self.driver.view.news.set()

    async def send(
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
        """Send a message and await its Ack. A cancelled send never leaves this node, unless it has left already.

        Args:
            body: the text; may be empty. None is no message: 4000.
            to: a Position or `Role/serverRank[/processRank]`; ranks may be comma lists or `All`.
            mtype: the kind of message, which sender and receiver agree on.
            timeout: seconds until the answer at the latest, a day at most; None for the configured `ack_timeout`.
            uuid: of a message that was answered with 5xxx or 6xxx, to resend it; None for a new message.
            retry: resends after 5xxx or 6xxx, with `timeout` for each attempt; None: no resend.
            wait: whether to wait, within `timeout`, for this node to join where the message needs the Mgr. Without it
                the answer is 6002 at once.

        Returns:
            The Ack: code 0 when the message is in the inbox of every destination, else the reason (docs/contract.md,
            section 6); `receivers`, the number of nodes that have it; of a broadcast `failures`, the first nodes that
            do not. With `retry`, the Ack of the last attempt.

        Raises:
            ArgumentError: `to` is a text that is not a position, or `timeout` is not a number of seconds.
            ArgumentTypeError: `to` is neither a position nor a text, or `body` or `mtype` is no text.
            NodeForked: this process is a forked child; see `fork`.
        """
        if retry is None:
            return await self._sender.send(body, to, mtype, timeout, uuid, sync=True, wait=wait)
        return await self._sender.send_again(body, to, mtype, timeout, uuid, retry, wait=wait)

    async def send_all(
        self,
        messages: Iterable[tuple[Position | str, str]],
        *,
        mtype: str = "default",
        timeout: float | None = None,
        retry: Retry | None = Retry(),  # noqa: B008 - frozen
        in_flight: int = limits.SEND_ALL_IN_FLIGHT,
    ) -> list[Ack]:
        """Send many messages with back-pressure: each waits for room, instead of being refused with 5001.

        `asyncio.gather` of thousands of sends begins them all at once, and a link refuses those beyond its bound.

        Args:
            messages: pairs of destination and body, as in `send`; taken one by one, so a generator needs no memory.
            mtype, timeout: as in `send`.
            retry: as in `send`, for each message. The default resends messages that a full inbox has refused.
            in_flight: messages under way at most, fewer while a receiver answers 5001. They may overtake one another;
                with 1 they arrive in order.

        Returns:
            The Ack of each message, in their order.

        Raises:
            ArgumentError: as in `send`; the messages after the wrong one are not sent.
        """
        return await send_all(partial(self.send, mtype=mtype, timeout=timeout), messages, retry, Window(in_flight))

    async def post(
        self,
        body: str | None,
        *,
        to: Position | str,
        mtype: str = "default",
        timeout: float | None = None,
        uuid: str | None = None,
        wait: bool = True,
    ) -> Ack:
        """Send a message without waiting for its delivery: the Ack says that the first hop has it.

        Arguments and errors are those of `send`, without `retry`: the fate after the first hop is unknown.
        """
        return await self._sender.send(body, to, mtype, timeout, uuid, sync=False, wait=wait)

    async def ping(self, to: Position | str, *, timeout: float | None = None) -> Echo:
        """Probe the way to a destination, past its inbox.

        Args:
            to: as in `send`. A broadcast or list is answered with 0 when every node has answered.
            timeout: seconds until the answer at the latest, None for the configured `ack_timeout`.

        Returns:
            Code 0, or the code that a message would get on its way; 4999 where the way ends at a node that knows no
            probes (one that is not of this package). A full inbox is not noticed. `receivers` and `failures` are those
            of an Ack.

        Raises:
            ArgumentError: `to` is not a position, or `timeout` is not a number of seconds.
            NodeClosed: the node is closed, or was not started.
        """
        from taskd_net.observe.prober import Prober

        dst, seconds = self._sender.probing(to, timeout)
        return await Prober(self.driver).ping(dst, seconds)

    async def trace(self, to: Position | str, *, timeout: float | None = None) -> AsyncIterator[Echo]:
        """Probe each hop on the way to one node, this node's neighbour first.

        Args:
            to: one position.
            timeout: seconds for each hop, None for the configured `ack_timeout`.

        Yields:
            An Echo for each hop with the link that leads there; the last one is that of `to`, or says where the way
            ends.

        Raises:
            ArgumentError: `to` is not the position of one node, or `timeout` is not a number of seconds.
            NodeClosed: the node is closed, or was not started.
        """
        from taskd_net.observe.prober import Prober, one_node

        dst, seconds = self._sender.probing(to, timeout)
        async for echo in Prober(self.driver).trace(one_node(dst), seconds):
            yield echo

    async def receive(self) -> Message:
        """Wait for the next message in the inbox and take it. Cancelling loses no message.

        Raises:
            NodeClosed: the node is closed and the inbox is empty.
        """
        while True:
            frame = await self.driver.take()
            try:
                return read_message(frame)
            except Refusal as refusal:
                self._unreadable(frame, refusal)

    async def receive_all(self) -> list[Message]:
        """Wait for the next message, and take all that are in the inbox. Cancelling loses no message.

        Messages that come together cost less than with `receive`.

        Raises:
            NodeClosed: the node is closed and the inbox is empty.
        """
        messages: list[Message] = []
        while not messages:
            frames = await self.driver.take_all()
            for frame in frames:
                try:
                    messages.append(read_message(frame))
                except Refusal as refusal:
                    self._unreadable(frame, refusal)
        return messages

    async def messages(self) -> AsyncIterator[Message]:
        """Take messages, one by one, until the node is closed and the inbox is empty."""
        while True:
            try:
                message = await self.receive()
            except NodeClosed:
                return
            yield message

    def confirm(self, messages: Iterable[Message]) -> None:
        """Answer the senders of received messages, where the node's configuration has `confirms`; idempotent.

        Without an answer in its time a sender gets 6001, and sends again.

        Raises:
            ArgumentTypeError: `messages` is no collection of messages; none is confirmed then.
        """
        if not isinstance(messages, Iterable):
            raise ArgumentTypeError(f"messages is {shown(messages)}; expected received Messages")
        self.driver.perform(self.driver.router.confirm([_known(message) for message in messages]))

    def refuse(self, message: Message, reason: str) -> None:
        """Answer the sender of a received message with 4999, where the node's configuration has `confirms`.

        Args:
            message: it has not been confirmed. A later resend of it is answered 0, as every resend.
            reason: the answer's `detail`, as far as links carry it.

        Raises:
            ArgumentTypeError: an argument is of another type.
        """
        if not isinstance(reason, str):
            raise ArgumentTypeError(f"reason is {shown(reason)}; expected a text")
        self.driver.perform(self.driver.router.refuse(_known(message), reason))

    @property
    def address(self) -> str | None:
        """The address that this node listens at, with the bound port; None for a leaf or before `start`."""
        return None if self._address is None else str(self._address)

    @property
    def plain_address(self) -> str | None:
        """The second address, without TLS, with the bound port; None without one."""
        address = None if self.driver.server is None else self.driver.server.plain_address
        return None if address is None else str(address)

    @property
    def upstream(self) -> str | None:
        """The parent's address in use; while there is no link, the one to try. None for a Mgr and before `start`."""
        return None if self.driver.joiner is None else str(self.driver.joiner.upstream)

    @property
    def statistics(self) -> Statistics:
        """Counters since the node was made."""
        return self.driver.router.statistics

    @property
    def is_joined(self) -> bool:
        """True if the Mgr knows the way to this node. A started Mgr is joined, unless it stands by."""
        driver = self.driver
        return driver.running and not driver.standby and (driver.joiner is None or driver.joiner.joined.is_set())

    @property
    def joins(self) -> int:
        """Times that this node has joined. It grows when the parent, or the Mgr behind it, is back. A Mgr has 0."""
        return 0 if self.driver.joiner is None else self.driver.joiner.joins

    @property
    def trouble(self) -> str:
        """The reason why this node has not joined, as of its last attempt. Empty while it has, and for a Mgr."""
        return "" if self.driver.joiner is None else self.driver.joiner.trouble

    def routes(self) -> Mapping[Position, Position]:
        """Every node below, with the child that leads to it."""
        children = self.driver.router.children.by_id
        return {position: children[link].position for position, link in self.driver.router.routes.items()}

    def mesh(self) -> Mesh:
        """The state of this node and of everything below it, as this node knows it; see docs/status.md.

        Raises:
            NodeError: the node was not started.
        """
        if not self.driver.started:
            raise NodeError("the node was not started")
        from taskd_net.observe.records import Mesh
        from taskd_net.observe.status_codec import read_records

        view = self.driver.view
        view.look()
        nodes = read_records(view.records())
        return Mesh(self.position.identity, view.wall(), view.expected, nodes)

    async def _listen(self, listen: str, rotation: Rotation | None) -> None:
        # A leaf has no children, and no use for these.
        from taskd_net.net.joining.serve import MeshServer
        from taskd_net.net.links.kind import Sockets
        from taskd_net.observe.service import NodeService

        config, driver = self.config, self.driver
        address = Address.parse(listen, "listen")
        sockets = None
        if (direct := config.direct_address) is not None:
            context = None if rotation is None or rotation.server is None else rotation.server_context
            sockets = Sockets(direct, context, asked_for=config.direct_listen != AUTO)
        server = MeshServer(
            driver,
            driver.view,
            NodeService(driver, driver.view, address),
            address,
            None if config.plain_listen is None else Address.parse(config.plain_listen, "plain_listen"),
            None if rotation is None else rotation.server,
            kinds=registry.usable(config.links),
            certified=config.identity == "certificate",
            sockets=sockets,
            standby=driver.standby,
        )
        self._address = await server.start()
        driver.server = server
        driver.view.listen = str(self._address)
        tls = rotation is not None and rotation.server is not None
        plain = {} if server.plain_address is None else {"plain_address": str(server.plain_address)}
        driver.log.info("listening", address=str(self._address), tls=tls, **plain)

    def _join(self, upstream: str, rotation: Rotation | None) -> None:
        config, driver = self.config, self.driver
        driver.joiner = joiner = Joiner(
            driver,
            config.upstreams,
            Backoff(driver.times.backoff_initial, driver.times.backoff_max),
            config.ack_timeout,
            self._at_depth,
            kinds=registry.usable(config.links),
            rotation=rotation,
            service=config.service,
            reports=StatusReporter(driver, driver.view, config.ack_timeout),
        )
        joiner.start()

    async def _close(self, orderly: bool) -> None:
        driver = self.driver
        if driver.started:
            if driver.joiner is not None:
                driver.joiner.leave()
            driver.perform(driver.router.close(driver.now()))
            if driver.joiner is not None:
                await driver.joiner.close(limits.CLOSE_GRACE_S, orderly=orderly)
                # Ends the wait in `joined`, which sees that the node is closed.
                driver.joiner.joined.set()
            if driver.server is not None:
                await driver.server.close(limits.CLOSE_GRACE_S)
            driver.perform(driver.router.close(driver.now()))
            if self._watch is not None:
                self._watch.cancel()
                await asyncio.wait([self._watch])
            driver.log.info("closed")
        driver.end()

    def _client_changed(self) -> None:
        if self.driver.joiner is not None:
            self.driver.joiner.renew()

    def _at_depth(self, depth: int) -> None:
        if self.driver.server is not None:
            self.driver.server.depth = depth

    def _unreadable(self, frame: Frame, refusal: Refusal) -> None:
        """Log a message that its first hop has not checked. Hops read the header alone."""
        self.driver.log.error("message_unreadable", uuid=frame.uuid, src=str(frame.src), detail=refusal.detail)


def _known(message: Message) -> tuple[str, Position]:
    """The uuid and the sender of a received message."""
    if not isinstance(message, Message):
        raise ArgumentTypeError(f"message is {shown(message)}; expected a received Message")
    return message.uuid, message.src
