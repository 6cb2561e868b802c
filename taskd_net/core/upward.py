"""What a node tells its parent about those below it, and who waits for the parent's answer (contract, section 3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from taskd_net import limits
from taskd_net.codes import Code
from taskd_net.core.acks import Reply
from taskd_net.core.actions import Action, Announce, Answer
from taskd_net.core.announcer import Announcer, Kind, Waiter
from taskd_net.core.frame import Ack
from taskd_net.core.links import Link
from taskd_net.core.manners import Manners
from taskd_net.core.topology import Topology
from taskd_net.position import Position


class Upward:
    """The announcements of one node.

    Args:
        topology: who is below, and the link to the parent.
        emit: takes what is to be done.
    """

    __slots__ = ("_emit", "_topology", "_withdraws", "queue")

    def __init__(self, topology: Topology, emit: Callable[[Action], None]) -> None:
        self._topology = topology
        self._emit = emit
        self._withdraws = False
        self.queue = Announcer()

    def came_up(self, withdraws: bool, manners: Manners | None) -> None:
        """There is a parent; whether it understands COMPLETE and WITHDRAW, and its manners."""
        self._withdraws = withdraws
        self.queue.limit = limits.ANNOUNCE_POSITIONS if manners is None else manners.announce_positions

    def went_down(self) -> None:
        """The parent is gone, or this node closes: whoever waits for its answer gets another one."""
        for waiter in self.queue.clear():
            self._tell(waiter, Code.CLIENT_ERR, self._topology.position)

    def pass_on(self, link: Link, new: Sequence[Position], reply: Reply, uuid: str) -> None:
        """A child has announced these positions: its answer is the parent's."""
        topology = self._topology
        if topology.up is None:
            self._answer(reply, uuid, Code.OK)
        elif not topology.up.up:
            self._answer(reply, uuid, Code.CLIENT_ERR, "no upstream at present")
        elif new:
            link.announcing += 1
            self._say(Kind.ADD, [*new, topology.identity], Waiter(uuid, reply, link))
        else:
            self._answer(reply, uuid, Code.OK)

    def everything(self, kind: Kind, reply: Reply, uuid: str) -> None:
        """Say COMPLETE or WITHDRAW of this node and all below it."""
        topology = self._topology
        up = topology.up is not None and topology.up.up
        if up and (kind is not Kind.WITHDRAW or self._withdraws):
            self._say(kind, [*topology.routes, topology.identity], Waiter(uuid, reply))
        else:
            self._answer(reply, uuid, Code.NET_STREAM_NOT_INITED)

    def found(self, position: Position) -> None:
        """A node below has shown itself without an announcement."""
        if self._topology.up is not None and self._topology.up.up:
            self._say(Kind.ADD, [position])

    def gone(self, positions: Sequence[Position]) -> None:
        """These can no longer be reached through this node."""
        # While the parent is away nothing needs to be said: COMPLETE says it all when the node joins again.
        if positions and self._withdraws and self._topology.up is not None and self._topology.up.up:
            self._say(Kind.WITHDRAW, positions)

    def answered(self, code: int, src: Position) -> None:
        """The parent answered the announcement under way."""
        for waiter in self.queue.answered():
            self._tell(waiter, code, src)
        self._next()

    def _say(self, kind: Kind, positions: Sequence[Position], waiter: Waiter | None = None) -> None:
        self.queue.add(kind, positions, waiter)
        self._next()

    def _next(self) -> None:
        following = self.queue.next()
        if following is not None:
            self._emit(Announce(*following))

    def _tell(self, waiter: Waiter, code: int, src: Position) -> None:
        ack = waiter.settle(code, src)
        if ack is not None:
            if waiter.link is not None:
                waiter.link.announcing -= 1
            self._emit(Answer(waiter.reply, ack))

    def _answer(self, reply: Reply, uuid: str, code: Code, detail: str = "") -> None:
        self._emit(Answer(reply, Ack(uuid, code, self._topology.position, detail)))
