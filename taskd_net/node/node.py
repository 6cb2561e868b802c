"""`Node`: a member of the mesh, for asyncio, in any of the four roles."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from taskd_net.base import fork, limits
from taskd_net.base.codes import ArgumentTypeError, NodeClosed, NodeError, NodeForked, Refusal
from taskd_net.base.position import Position
from taskd_net.base.untrusted import shown
from taskd_net.core.counters import Statistics
from taskd_net.core.frame import Ack, Frame
from taskd_net.net.retry import Retry
from taskd_net.net.wire.codec import Message, read_message
from taskd_net.node.lifecycle import Lifecycle
from taskd_net.node.window import Window, send_all

if TYPE_CHECKING:
    from taskd_net.observe.probe_codec import Echo
    from taskd_net.observe.records import Mesh


class Node(Lifecycle):
    """A member of the mesh: it sends and receives messages, probes the mesh, and shows its state.

    Use it as `async with Node(config) as node`, or call `start` and `close`. A node belongs to the event loop that
    `start` runs in. Joining goes on in the background: `start` does not wait for the parent, `joined` does.

    Args:
        config: the node and its neighbours.
    """

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
        return await Prober(self).ping(dst, seconds)

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
        async for echo in Prober(self).trace(one_node(dst), seconds):
            yield echo

    async def receive(self) -> Message:
        """Wait for the next message in the inbox and take it. Cancelling loses no message.

        Raises:
            NodeClosed: the node is closed and the inbox is empty.
        """
        while True:
            await self._filled()
            frame = self._inbox.popleft()
            ready = self.router.inbox_taken(self.now())
            if ready:
                self.perform(ready)
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
            await self._filled()
            frames = list(self._inbox)
            self._inbox.clear()
            ready = self.router.inbox_taken(self.now(), len(frames))
            if ready:
                self.perform(ready)
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
        self.perform(self.router.confirm([_known(message) for message in messages]))

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
        self.perform(self.router.refuse(_known(message), reason))

    async def _filled(self) -> None:
        """Wait until there is a message in the inbox."""
        while not self._inbox:
            if self.closed:
                raise NodeForked(fork.REASON) if fork.forked() else NodeClosed(f"{self.position} is closed")
            self._delivered.clear()
            await self._delivered.wait()

    def _unreadable(self, frame: Frame, refusal: Refusal) -> None:
        """Log a message that its first hop has not checked. Hops read the header alone."""
        self.log.error("message_unreadable", uuid=frame.uuid, src=str(frame.src), detail=refusal.detail)

    # ---- state

    @property
    def address(self) -> str | None:
        """The address that this node listens at, with the bound port; None for a leaf or before `start`."""
        return None if self._address is None else str(self._address)

    @property
    def plain_address(self) -> str | None:
        """The second address, without TLS, with the bound port; None without one."""
        address = None if self._server is None else self._server.plain_address
        return None if address is None else str(address)

    @property
    def upstream(self) -> str | None:
        """The parent's address in use; while there is no link, the one to try. None for a Mgr and before `start`."""
        return None if self._joiner is None else str(self._joiner.upstream)

    @property
    def statistics(self) -> Statistics:
        """Counters since the node was made."""
        return self.router.statistics

    @property
    def is_joined(self) -> bool:
        """True if the Mgr knows the way to this node. A started Mgr is joined, unless it stands by."""
        return self.running and not self.standby and (self._joiner is None or self._joiner.joined.is_set())

    @property
    def joins(self) -> int:
        """Times that this node has joined. It grows when the parent, or the Mgr behind it, is back. A Mgr has 0."""
        return 0 if self._joiner is None else self._joiner.joins

    def routes(self) -> Mapping[Position, Position]:
        """Every node below, with the child that leads to it."""
        children = self.router.children.by_id
        return {position: children[link].position for position, link in self.router.routes.items()}

    def mesh(self) -> Mesh:
        """The state of this node and of everything below it, as this node knows it; see docs/status.md.

        Raises:
            NodeError: the node was not started.
        """
        if self._loop is None:
            raise NodeError("the node was not started")
        from taskd_net.observe.records import Mesh
        from taskd_net.observe.status_codec import read_records

        view = self.view
        view.look()
        nodes = read_records(view.records())
        return Mesh(self.position.identity, view.wall(), view.expected, nodes)


def _known(message: Message) -> tuple[str, Position]:
    """The uuid and the sender of a received message."""
    if not isinstance(message, Message):
        raise ArgumentTypeError(f"message is {shown(message)}; expected a received Message")
    return message.uuid, message.src
