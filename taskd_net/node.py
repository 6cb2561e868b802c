"""`Node`: one member of the mesh, for asyncio. A Mgr, a Proxy, an Agent and a Worker are all this class."""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping, MutableMapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self, assert_never

from taskd_net import fork, limits
from taskd_net.address import Address
from taskd_net.codes import (
    ArgumentError,
    ArgumentTypeError,
    Code,
    NodeClosed,
    NodeError,
    NodeForked,
    NodeTimeout,
    Refusal,
)
from taskd_net.config import NodeConfig
from taskd_net.core.acks import Reply
from taskd_net.core.actions import (
    Action,
    Announce,
    Answer,
    Deliver,
    EndStream,
    Forgot,
    Forward,
    Joined,
    Lost,
    ReportViolation,
    Withdraw,
)
from taskd_net.core.decisions import Statistics
from taskd_net.core.frame import Ack, Frame
from taskd_net.core.identity import ViolationReports
from taskd_net.core.pending_sends import Send
from taskd_net.core.router import Router
from taskd_net.core.routes import LinkId
from taskd_net.core.uuids import Uuids
from taskd_net.links.session import Session
from taskd_net.logger import get_logger
from taskd_net.observe import status_codec as status_wire
from taskd_net.observe.probe_codec import Echo
from taskd_net.observe.prober import Prober, one_node
from taskd_net.observe.records import Mesh
from taskd_net.observe.view import View
from taskd_net.position import Position, destination
from taskd_net.retry import Retry
from taskd_net.tls.rotation import Rotation
from taskd_net.transport.absence import Absence
from taskd_net.transport.join import Backoff, Joiner
from taskd_net.transport.serve import MeshServer
from taskd_net.transport.traced import load_tracer
from taskd_net.window import Window, send_all
from taskd_net.wire.codec import Message, read_message, write_message

if TYPE_CHECKING:
    from taskd_net.observe.tracing import Tracer


class Node:
    """A member of the mesh. It owns one Router, its links and one inbox, and carries out what the Router decides.

    Use it as `async with Node(config) as node`, or call `start` and `close`. All of it belongs to the event loop that
    `start` runs in. Joining goes on in the background: `start` does not wait for the parent, `joined` does.

    Args:
        config: who the node is and where its neighbours are.
    """

    def __init__(self, config: NodeConfig) -> None:
        self.config = config
        self.log = get_logger(node=str(config.position))
        upstream = config.upstream is not None
        # Not the loop's clock, which under uvloop goes by whole milliseconds.
        self.router = Router(config.position, upstream=upstream, config=config.router, clock=time.monotonic)
        self.links: MutableMapping[LinkId, Session] = {}
        self._inbox: deque[Frame] = deque()
        self._receivers: list[asyncio.Future[None]] = []
        self._child: Joiner | None = None
        self._absence: Absence | None = None
        self._parent: MeshServer | None = None
        self._tracer: Tracer | None = None
        self._address: Address | None = None
        self.view: View  # from `start` on
        self._watch: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.Handle | None = None
        self._armed = float("inf")
        self._closed = False
        self._closing: asyncio.Future[None] | None = None
        self._uuids = Uuids(os.urandom(8).hex(), os.urandom)
        self._last_lost_log = float("-inf")
        self._lost_unlogged = 0
        self._accusations = ViolationReports(limits.ACCUSE_EVERY_S, limits.ACCUSED_PEERS)

    # ---- life

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
        if self._loop is not None or self._closed:
            raise NodeError("a node can be started once; make a new one")
        self._loop = asyncio.get_running_loop()
        fork.protect(self)
        config = self.config
        batched = config.links == "batched"
        if config.tracing:
            self._tracer = load_tracer(config.position)
        self.view = View(self)
        rotation = None if config.tls is None else Rotation(config.tls, self.log)
        if config.listen is not None:
            parent = MeshServer(
                self,
                Address.parse(config.listen, "listen"),
                None if config.plain_listen is None else Address.parse(config.plain_listen, "plain_listen"),
                None if rotation is None else rotation.server,
                batched=batched,
                certified=config.identity == "certificate",
                expected=config.expect or "",
                tracer=self._tracer,
            )
            self._address = await parent.start()
            self._parent = parent
            self.view.listen = str(self._address)
            tls = rotation is not None and rotation.server is not None
            plain = {} if parent.plain_address is None else {"plain_address": str(parent.plain_address)}
            self.log.info("listening", address=str(self._address), tls=tls, **plain)
        if config.upstream is not None:
            self._child = Joiner(
                self,
                Address.parse(config.upstream, "upstream"),
                Backoff(config.backoff_initial, config.backoff_max),
                config.ack_timeout,
                self._at_depth,
                batched=batched,
                rotation=rotation,
                tracer=self._tracer,
                service=config.service,
            )
            child = self._child
            self._absence = Absence(self.log, config.upstream, lambda: child.trouble)
            self._absence.begin()
            child.start()
        if rotation is not None:
            self._watch = asyncio.create_task(
                rotation.watch(self._client_changed), name=f"certificates of {self.position}"
            )
        return self

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
            self._closed = True
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
        if self._loop is None or self._closed:
            await self.close()
            return True
        self.perform(self.router.drain())
        give_up_at = self._loop.time() + seconds
        parent = self._parent
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
        if self._loop is None or self._closed:
            return False
        answer: asyncio.Future[Ack] = self._loop.create_future()

        def reply(ack: Ack) -> None:
            if not answer.done():
                answer.set_result(ack)

        self.perform(self.router.withdraw(reply, self._uuids.next(None)))
        await asyncio.wait([answer], timeout=timeout)
        return answer.done() and answer.result().ok

    def close_inbox(self) -> None:
        """Take no more messages: from now on their senders get 5000. What is in the inbox can still be received.

        The node goes on passing messages on. Its health and the state of the mesh say that its inbox is closed.
        """
        if self._closed:
            return
        self.perform(self.router.close_inbox())
        if self._parent is not None:
            self._parent.health.receiving(False)
        if self._loop is not None:
            self.view.changed()

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
        if self._child is None:
            return
        try:
            async with asyncio.timeout(timeout):
                await self._child.joined.wait()
        except TimeoutError:
            text = f"{self.position} has not joined {self.config.upstream} within {timeout} s: {self._child.trouble}"
            raise NodeTimeout(text) from None
        if self._closed:
            raise NodeClosed(f"{self.position} is closed")

    # ---- messages

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
        """Send a message and learn whether it arrived. Cancelling it ends it: what has not left this node never will.

        Args:
            body: the text; may be empty. None is no message: 4000.
            to: a Position or `Role/serverRank[/processRank]`; ranks may be comma lists or `All`.
            mtype: the kind of message, a word between sender and receiver.
            timeout: seconds until the answer at the latest, a day at most; None for the configured `ack_timeout`.
            uuid: to send a message again that was answered with 5xxx or 6xxx; None for a new message.
            retry: how often and how long to do so here, with `timeout` for each attempt; None: not at all.
            wait: whether to wait, within `timeout`, for this node to join where the message needs the Mgr. Without it
                the answer is 6002 at once.

        Returns:
            The Ack: code 0 when the message is in the inbox of every destination, else why not (contract, section 6);
            `receivers`, how many nodes have it; of a broadcast `failures`, the first nodes that do not. With `retry`,
            the last attempt's.

        Raises:
            ArgumentError: `to` is a text that is not a position, or `timeout` is not a number of seconds.
            ArgumentTypeError: `to` is neither a position nor a text, or `body` or `mtype` is no text.
            NodeForked: this process is a forked child; see `fork`.
        """
        if retry is None:
            return await self._deliver(body, to, mtype, timeout, uuid, sync=True, wait=wait)
        dst = destination(to)
        same, each = uuid or self._uuids.next(dst), self.config.ack_timeout if timeout is None else timeout
        give_up_at = asyncio.get_running_loop().time() + retry.within

        async def attempt() -> Ack:
            left = give_up_at - asyncio.get_running_loop().time()
            return await self._deliver(body, to, mtype, min(each, left), same, sync=True, wait=wait)

        return await retry.run(attempt)

    async def send_all(
        self,
        messages: Iterable[tuple[Position | str, str]],
        *,
        mtype: str = "default",
        timeout: float | None = None,
        retry: Retry | None = Retry(),  # noqa: B008 - frozen
        in_flight: int = limits.SEND_ALL_IN_FLIGHT,
    ) -> list[Ack]:
        """Send many messages with back-pressure: the next one when there is room, instead of 5001.

        `asyncio.gather` of thousands of sends begins them all at once, and what a link has no room for is refused.

        Args:
            messages: pairs of destination and body, as in `send`; taken one by one, so a generator needs no memory.
            mtype, timeout: as in `send`.
            retry: as in `send`, for each message; by default what a full inbox has refused is sent again.
            in_flight: messages under way at most; fewer, for all of them, while a receiver answers 5001. They may
                overtake one another; with 1 they arrive in order.

        Returns:
            The Ack of each message, in their order.

        Raises:
            ArgumentError: as in `send`; the messages behind the wrong one are not sent.
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

        Arguments and errors are those of `send`. There is no `retry`: what happens after the first hop nobody tells.
        """
        return await self._deliver(body, to, mtype, timeout, uuid, sync=False, wait=wait)

    async def ping(self, to: Position | str, *, timeout: float | None = None) -> Echo:
        """Ask whether the way leads there, and how long it takes; nothing reaches an inbox.

        Args:
            to: as in `send`; of a broadcast or list the answer is 0 when everybody has answered.
            timeout: seconds until the answer at the latest, None for the configured `ack_timeout`.

        Returns:
            0, or the code that a message would get on its way there; 4999 when it ends at a node that knows no probes
            (one that is not of this package). Whether there is room in the inbox, it does not say. `receivers` and
            `failures` are those of an Ack.

        Raises:
            ArgumentError: `to` is not a position, or `timeout` is not a number of seconds.
            NodeClosed: the node is closed, or was not started.
        """
        dst, seconds = self._probing(to, timeout)
        return await Prober(self).ping(dst, seconds)

    async def trace(self, to: Position | str, *, timeout: float | None = None) -> AsyncIterator[Echo]:
        """Ask each hop on the way to one node, this node's neighbour first.

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
        dst, seconds = self._probing(to, timeout)
        async for echo in Prober(self).trace(one_node(dst), seconds):
            yield echo

    async def receive(self) -> Message:
        """Take the next message out of the inbox, waiting for one. Cancelling it loses no message.

        Raises:
            NodeClosed: the node is closed and the inbox is empty.
        """
        while True:
            while not self._inbox:
                if self._closed:
                    raise NodeForked(fork.REASON) if fork.forked() else NodeClosed(f"{self.position} is closed")
                await self._arrival()
            frame = self._inbox.popleft()
            actions = self.router.inbox_taken(self.now())
            if actions:
                self.perform(actions)
            try:
                return read_message(frame)
            except Refusal as refusal:
                # Only the header was looked at on the way here: the first hop, which looks at the rest, did not do so.
                self.log.error("message_unreadable", uuid=frame.uuid, src=str(frame.src), detail=refusal.detail)

    async def messages(self) -> AsyncIterator[Message]:
        """Take messages out of the inbox, one by one, until the node is closed and the inbox is empty."""
        while True:
            try:
                message = await self.receive()
            except NodeClosed:
                return
            yield message

    # ---- what can be seen

    @property
    def position(self) -> Position:
        """Who this node is."""
        return self.config.position

    @property
    def address(self) -> str | None:
        """Where this node listens, with the port that was bound; None for a leaf or before `start`."""
        return None if self._address is None else str(self._address)

    @property
    def plain_address(self) -> str | None:
        """Where it listens without TLS as well, with the port that was bound; None for nowhere."""
        address = None if self._parent is None else self._parent.plain_address
        return None if address is None else str(address)

    @property
    def statistics(self) -> Statistics:
        """Counters since the node was made."""
        return self.router.statistics

    @property
    def is_joined(self) -> bool:
        """Whether the Mgr knows the way to this node just now. A Mgr that was started always is."""
        return self._loop is not None and not self._closed and (self._child is None or self._child.joined.is_set())

    def routes(self) -> Mapping[Position, Position]:
        """Every node known below, with the child that leads to it."""
        children = self.router.children.by_id
        return {position: children[link].position for position, link in self.router.routes.items()}

    def mesh(self) -> Mesh:
        """The state of this node and of everything below it, as far as it is known here; see docs/status.md.

        Raises:
            NodeError: the node was not started.
        """
        if self._loop is None:
            raise NodeError("the node was not started")
        view = self.view
        view.look()
        nodes = status_wire.read_records(view.records())
        return Mesh(self.position.identity, view.wall(), self.config.expect or "", nodes)

    # ---- for the transport

    def now(self) -> float:
        """The Router's time: the event loop's clock, in seconds; it never steps."""
        assert self._loop is not None, "the node was not started"
        return self._loop.time()

    def perform(self, actions: Sequence[Action]) -> None:
        """Carry out what the Router decided, in order, without waiting."""
        for action in actions:
            # Not a `match` with patterns, which takes four times as long: this runs several times for each message.
            if isinstance(action, Forward):
                self.links[action.link].forward(action.frame, action.patience, action.number)
            elif isinstance(action, Answer):
                action.reply(action.ack)
            elif isinstance(action, Deliver):
                self._inbox.append(action.frame)
                if self._receivers:
                    self._wake_receivers()
            else:
                self._perform_rare(action)
        deadline = self.router.next_deadline()
        if deadline < self._armed:
            self._arm(deadline)

    def forked(self) -> None:
        """In a forked child the node is closed, without any of the steps of closing: they would touch gRPC."""
        self._closed = True
        self._inbox.clear()

    # ---- inside

    def _busy(self) -> bool:
        gathered = self._parent is not None and self._parent.busy
        return gathered or self.router.busy or any(session.busy for session in self.links.values())

    async def _close(self, orderly: bool) -> None:
        if self._loop is not None:
            if self._absence is not None:
                self._absence.end()
            self.perform(self.router.close())
            if self._child is not None:
                await self._child.close(limits.CLOSE_GRACE_S, orderly=orderly)
                # Nobody waits any more; `joined` sees that the node is closed.
                self._child.joined.set()
            if self._parent is not None:
                await self._parent.close(limits.CLOSE_GRACE_S)
            self.perform(self.router.close())
            if self._timer is not None:
                self._timer.cancel()
            if self._watch is not None:
                self._watch.cancel()
                await asyncio.wait([self._watch])
            self.log.info("closed")
        self._wake_receivers()

    async def _arrival(self) -> None:
        receiver = asyncio.get_running_loop().create_future()
        self._receivers.append(receiver)
        try:
            await receiver
        finally:
            if receiver in self._receivers:  # cancelled
                self._receivers.remove(receiver)

    def _wake_receivers(self) -> None:
        # All of them: one that was cancelled meanwhile must not take the news with it.
        receivers, self._receivers = self._receivers, []
        for receiver in receivers:
            if not receiver.done():
                receiver.set_result(None)

    def _perform_rare(self, action: Announce | EndStream | Forgot | Lost | ReportViolation | Withdraw | Joined) -> None:
        match action:
            case Announce(kind, positions):
                assert self._child is not None
                self._child.announce(kind, positions)
            case EndStream(session, reason):
                assert self._parent is not None
                self._parent.end_stream(session, reason)
            case Forgot():
                assert self._parent is not None
                self._parent.forgot(action)
                self.log.info("child_forgotten", child=str(action.position), routes=action.routes)
            case Lost():
                self._log_lost(action)
            case Withdraw(link, frame):
                session = self.links.get(link)
                if session is not None and session.withdraw(frame):
                    self.router.withdrawn(link, session, len(frame.data))
            case Joined(joined):
                self._has_joined(joined)
            case ReportViolation(peer, refusal):
                count = self._accusations.add(self.now(), peer)
                if count:
                    code = int(refusal.code)
                    self.log.warning("violation", peer=peer, count=count, code=code, detail=refusal.detail)
            case _:
                assert_never(action)

    async def _deliver(
        self,
        body: object,
        to: Position | str,
        mtype: object,
        timeout: float | None,
        uuid: str | None,
        *,
        sync: bool,
        wait: bool,
    ) -> Ack:
        """Send a message and await its Ack."""
        dst, timeout = destination(to), self._seconds(timeout)
        uuid = uuid or self._uuids.next(dst)
        loop = self._loop
        if loop is None or self._closed:
            if fork.forked():
                raise NodeForked(fork.REASON)
            text = "the node is closed" if self._closed else "the node was not started"
            return Ack(uuid, Code.CLIENT_ERR, self.position, text, 0)
        if body is None:
            return Ack(uuid, Code.NIL_MESSAGE, self.position, "body is None", 0)
        if not isinstance(body, str) or not isinstance(mtype, str):
            text = f"body and mtype are text; got {type(body).__name__} and {type(mtype).__name__}"
            raise ArgumentTypeError(text)
        try:
            message = Message(uuid, mtype, sync, self.config.position, dst, time.time_ns() // 1_000_000, body)
            frame = write_message(message, self.config.limits)
        except Refusal as refusal:
            return Ack(uuid, refusal.code, self.position, refusal.detail, 0)
        answer: asyncio.Future[Ack] = loop.create_future()

        def reply(ack: Ack) -> None:
            if not answer.done():
                answer.set_result(ack)

        answered: Reply = reply
        if self._tracer is not None:
            frame, answered = self._tracer.sent(frame, reply)
        now = loop.time()
        send = Send(frame, answered, now + timeout, wait)
        self.perform(self.router.submit(now, send))
        try:
            return await answer
        except asyncio.CancelledError:
            if answer.cancelled():  # not answered meanwhile
                self.perform(self.router.cancel(send))
            raise

    def _probing(self, to: Position | str, timeout: float | None) -> tuple[Position, float]:
        """Whom to probe, and within how many seconds; see `ping` for what it raises."""
        if self._loop is None or self._closed:
            raise NodeForked(fork.REASON) if fork.forked() else NodeClosed(f"{self.position} is not running")
        return destination(to), self._seconds(timeout)

    def _seconds(self, timeout: object) -> float:
        """A timeout that was given, or the configured one."""
        if timeout is None:
            return self.config.ack_timeout
        if not isinstance(timeout, int | float):
            raise ArgumentTypeError(f"timeout is not a number of seconds, but {timeout!r}")
        if math.isnan(timeout):
            raise ArgumentError(f"timeout is not a number of seconds, but {timeout!r}")
        return min(timeout, limits.TIMEOUT_MAX_S)

    def _arm(self, deadline: float) -> None:
        """Have `tick` called, earlier than was planned. A later deadline is found when the timer fires."""
        if self._loop is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._armed = deadline
        self._timer = self._loop.call_at(deadline, self._tick)

    def _tick(self) -> None:
        self._timer, self._armed = None, float("inf")
        self.perform(self.router.tick(self.now()))

    def _client_changed(self) -> None:
        if self._child is not None:
            self._child.renew()

    def _at_depth(self, depth: int) -> None:
        if self._parent is not None:
            self._parent.depth = depth

    def _has_joined(self, joined: bool) -> None:
        assert self._child is not None
        self._child.has_joined(joined)
        if self._absence is not None and not self._closed:
            (self._absence.end if joined else self._absence.begin)()
        if self._parent is not None:
            self._parent.tell(joined)

    def _log_lost(self, lost: Lost) -> None:
        # One line a second at most: a full inbox can cost thousands of messages. The counter counts each.
        self._lost_unlogged += 1
        if self.now() - self._last_lost_log >= 1.0:
            self.log.warning(
                "messages_lost",
                count=self._lost_unlogged,
                last_dst=str(lost.frame.dst),
                code=lost.code,
                src=str(lost.src),
                detail=lost.detail,
            )
            self._last_lost_log, self._lost_unlogged = self.now(), 0
