"""What a node decides during one event: the actions to be carried out in order, and when it has to look again."""

from __future__ import annotations

from dataclasses import dataclass

from taskd_net.codes import Refusal
from taskd_net.core.acks import Awaited, Reply, Told
from taskd_net.core.actions import Action, Answer, Lost
from taskd_net.core.counters import Counters
from taskd_net.core.frame import Ack, Frame
from taskd_net.core.pending_sends import Send
from taskd_net.position import Position


@dataclass(slots=True)
class Statistics:
    """Counters since the node was made. `violations`: what peers claimed and may not."""

    sent: int = 0
    forwarded: int = 0
    delivered: int = 0
    duplicates: int = 0
    late_acks: int = 0
    lost: int = 0
    violations: int = 0


class Decisions:
    """Where every part of a Router puts what it decides.

    Args:
        position: the node's own, the source of its answers.
        counters: counts what becomes of messages.

    Attributes:
        actions: what is to be done, in order.
        wake: when the Router has to look again, or infinity. Never later than the first thing that has to happen.
        statistics: counters since the node was made.
    """

    __slots__ = ("actions", "counters", "position", "statistics", "wake")

    def __init__(self, position: Position, counters: Counters) -> None:
        self.position = position
        self.counters = counters
        self.statistics = Statistics()
        self.wake = float("inf")
        self.actions: list[Action] = []

    def add(self, action: Action) -> None:
        """One more thing to do."""
        self.actions.append(action)

    def take(self) -> list[Action]:
        """The event is over: what is to be done."""
        actions, self.actions = self.actions, []
        return actions

    def look_by(self, deadline: float) -> None:
        """Look again by then at the latest."""
        if deadline < self.wake:
            self.wake = deadline

    def answer(self, reply: Reply, uuid: str, code: int, detail: str = "") -> None:
        """Give this node's own answer."""
        self._give(reply, Ack(uuid, code, self.position, detail, 0 if code else None))

    def settle(self, part: Awaited, code: int, src: Position, detail: str = "", told: Told | None = None) -> None:
        """Give the answer to what somebody awaits; of a broadcast it goes out with the last part.

        `told`: what came with the answer of another node; None for what this node itself has found.
        """
        ack = part.settle(code, src, detail, told)
        if ack is not None:
            self._give(part.reply, ack)

    def _give(self, reply: Reply, ack: Ack) -> None:
        if type(reply) is Send:
            known = ack if reply.line is None else reply.line.ended(reply, ack)
            if known is None:
                return  # it waits for the node to join
            reply, ack = reply.reply, known
        self.actions.append(Answer(reply, ack))

    def refuse(self, frame: Frame, reply: Reply | None, refusal: Refusal) -> None:
        """Do not take a message; where nobody can be told, it is lost."""
        if reply is None:
            self.lose(frame, refusal.code, self.position, refusal.detail)
        else:
            self.answer(reply, frame.uuid, refusal.code, refusal.detail)

    def lose(self, frame: Frame, code: int, src: Position, detail: str) -> None:
        """Give up a message that nobody waits for: it is counted and logged."""
        self.statistics.lost += 1
        self.actions.append(Lost(frame, code, src, detail))
