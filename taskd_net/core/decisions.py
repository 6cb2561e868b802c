"""The decisions of a node during one event, gathered in one `Ready`."""

from __future__ import annotations

from collections.abc import Callable

from taskd_net.base.codes import Refusal
from taskd_net.base.position import Position
from taskd_net.core.acks import Awaited, Origin, ReplyTo, Send, Told
from taskd_net.core.counters import Counters, Statistics
from taskd_net.core.frame import Ack, Frame
from taskd_net.core.links import Link
from taskd_net.core.ready import Answered, Lost, Ready
from taskd_net.core.schedule import Schedule
from taskd_net.core.topology import Topology


class Decisions:
    """The place where every part of a Router puts its decisions.

    Args:
        topology: the links that answers go to.
        counters: count the outcomes of messages.

    Attributes:
        position: the node's own, the source of its answers.
        ready: the outcome of the event so far.
        schedule: the deadlines.
        statistics: counters since the node was made.
        ended: takes the answer to a send of this node; the Router sets it.
    """

    def __init__(self, topology: Topology, counters: Counters) -> None:
        self._topology = topology
        self.position = topology.position
        self.counters = counters
        self.statistics = Statistics()
        self.schedule = Schedule()
        self.ready = Ready()
        self.ended: Callable[[Send, Ack], None]

    def take(self) -> Ready:
        """The event is over: its outcome."""
        ready, self.ready = self.ready, Ready()
        ready.wake = self.schedule.wake
        return ready

    def answer(self, reply: ReplyTo, uuid: str, code: int, detail: str = "") -> None:
        """Give this node's own answer."""
        self.give(reply, Ack(uuid, code, self.position, detail, 0 if code else None))

    def settle(self, part: Awaited, code: int, src: Position, detail: str = "", told: Told | None = None) -> None:
        """Give an answer that is awaited; that to a broadcast goes out with the last branch.

        `told`: the counts in the answer of another node; None for what this node itself has found.
        """
        ack = part.settle(code, src, detail, told)
        if ack is not None:
            self.give(part.reply, ack)

    def give(self, reply: ReplyTo, ack: Ack) -> None:
        """Give an answer to whoever awaits it."""
        if type(reply) is Send:
            self.ended(reply, ack)
        elif isinstance(reply, Origin):
            self._give_back(reply, ack)
        else:
            assert isinstance(reply, int)
            self.ready.completed.append((reply, ack))

    def _give_back(self, origin: Origin, ack: Ack) -> None:
        link = self.asker(origin.link, origin.stream)
        if link is None:
            return
        if origin.size:
            link.count_waiting(0, -origin.size)
        writes = self.ready.to(origin.link)
        if ack.code or origin.in_full or not link.bare or (link.counts and ack.receivers != 1):
            writes.answers.append(Answered(origin.key, ack, origin.in_full))
        else:
            writes.accepted.append(origin.key)

    def asker(self, link_id: int, stream: int) -> Link | None:
        """The link of a neighbour that awaits an answer; None when that stream of it has ended."""
        link = self._topology.link(link_id)
        return link if link is not None and link.streams == stream and link.session is not None else None

    def refuse(self, frame: Frame, reply: ReplyTo | None, refusal: Refusal) -> None:
        """Do not take a message; where nobody can be told, it is lost."""
        if reply is None:
            self.lose(frame, refusal.code, self.position, refusal.detail)
        else:
            self.answer(reply, frame.uuid, refusal.code, refusal.detail)

    def lose(self, frame: Frame, code: int, src: Position, detail: str) -> None:
        """Give up a message that nobody waits for: it is counted and logged."""
        self.statistics.lost += 1
        self.ready.notices.append(Lost(frame, code, src, detail))
