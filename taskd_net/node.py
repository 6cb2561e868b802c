"""`Node`: one member of the mesh, for asyncio. A Mgr, a Proxy, an Agent and a Worker are all this class."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from functools import partial

from taskd_net import fork, limits
from taskd_net.codes import (
    NodeClosed,
    NodeError,
    NodeForked,
    Refusal,
)
from taskd_net.core.decisions import Statistics
from taskd_net.core.frame import Ack
from taskd_net.lifecycle import Lifecycle
from taskd_net.observe import status_codec as status_wire
from taskd_net.observe.probe_codec import Echo
from taskd_net.observe.prober import Prober, one_node
from taskd_net.observe.records import Mesh
from taskd_net.position import Position
from taskd_net.retry import Retry
from taskd_net.window import Window, send_all
from taskd_net.wire.codec import Message, read_message


class Node(Lifecycle):
    """A member of the mesh. It owns one Router, its links and one inbox, and carries out what the Router decides.

    Use it as `async with Node(config) as node`, or call `start` and `close`. All of it belongs to the event loop that
    `start` runs in. Joining goes on in the background: `start` does not wait for the parent, `joined` does.

    Args:
        config: who the node is and where its neighbours are.
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
        return await self._sender.send(body, to, mtype, timeout, uuid, sync=False, wait=wait)

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
        dst, seconds = self._sender.probing(to, timeout)
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
        dst, seconds = self._sender.probing(to, timeout)
        async for echo in Prober(self).trace(one_node(dst), seconds):
            yield echo

    async def receive(self) -> Message:
        """Take the next message out of the inbox, waiting for one. Cancelling it loses no message.

        Raises:
            NodeClosed: the node is closed and the inbox is empty.
        """
        while True:
            while not self._arrivals.frames:
                if self.closed:
                    raise NodeForked(fork.REASON) if fork.forked() else NodeClosed(f"{self.position} is closed")
                await self._arrivals.wait()
            frame = self._arrivals.frames.popleft()
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
    def address(self) -> str | None:
        """Where this node listens, with the port that was bound; None for a leaf or before `start`."""
        return None if self._address is None else str(self._address)

    @property
    def plain_address(self) -> str | None:
        """Where it listens without TLS as well, with the port that was bound; None for nowhere."""
        address = None if self._server is None else self._server.plain_address
        return None if address is None else str(address)

    @property
    def statistics(self) -> Statistics:
        """Counters since the node was made."""
        return self.router.statistics

    @property
    def is_joined(self) -> bool:
        """Whether the Mgr knows the way to this node just now. A Mgr that was started always is."""
        return self._loop is not None and not self.closed and (self._joiner is None or self._joiner.joined.is_set())

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
        return Mesh(self.position.identity, view.wall(), view.expected, nodes)
