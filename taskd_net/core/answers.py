"""The answer path of a Router: answers of neighbours, and messages that have left the queue of a link."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import cast

from taskd_net.base.codes import Code
from taskd_net.base.position import Position
from taskd_net.core.acks import UNTOLD, Answer
from taskd_net.core.decisions import Decisions
from taskd_net.core.forwarding import Forwarding
from taskd_net.core.frame import Frame
from taskd_net.core.in_flight import Run
from taskd_net.core.links import Link
from taskd_net.core.ready import Key, Ready, SignsOfLife
from taskd_net.core.routes import LinkId
from taskd_net.core.topology import Topology


class Answers:
    """The part of a Router that answers pass. `Router` sets the attributes."""

    _decisions: Decisions
    _forwarding: Forwarding
    _take: Callable[[], Ready]  # ends an event
    _topology: Topology

    def answers_arrived(
        self, now: float, link_id: LinkId, accepted: Sequence[Key], answers: Iterable[Answer] = ()
    ) -> Ready:
        """Take in the answers of a neighbour. A late answer is counted and dropped.

        Args:
            now: the time.
            link_id: the link.
            accepted: the keys of sync messages that one receiver has.
            answers: all other answers.
        """
        link = self._topology.link(link_id)
        if link is None:
            self._decisions.statistics.late_acks += len(accepted) + len(list(answers))
            return self._take()
        if accepted:
            self._accepted(now, link, accepted)
        for answer in answers:
            self._answered(now, link, answer)
        return self._take()

    def posts_answered(
        self, now: float, link_id: LinkId, frames: Iterable[Frame], code: int, src: Position, detail: str = ""
    ) -> Ready:
        """Take in the one result of several `sync=false` messages: the far side has taken them, or refused them."""
        link, decisions = self._topology.link(link_id), self._decisions
        for frame in frames:
            part = link.in_flight.take_copy(frame) if link is not None else None
            if link is not None and part is not None:
                decisions.counters.answered(now, link, part, code)
                decisions.settle(part, code, src, detail, UNTOLD)
            elif code != Code.OK and frame.src.identity != self._topology.identity:
                decisions.lose(frame, code, src, detail)
        if link is not None and link.in_flight.collisions:
            # Later: a stream that ends reports its posts here too, and the next message must not go onto that stream.
            decisions.schedule.look(link, now)
        return self._take()

    def written(self, link_id: LinkId, session: object, messages: int, size: int, answers: int = 0) -> None:
        """Count messages, of `size` bytes in all, and answers that have left the queue of a link's stream."""
        link = self._topology.link(link_id)
        if link is not None and link.session is session:
            if messages:
                link.queued_messages -= messages
                link.queued_bytes -= size
                if link.grants:
                    self._forwarding.backlog.give_back(link)
                self._decisions.counters.written(link, messages, size)
            if answers and link.waiting:
                taken = min(link.waiting, answers)
                link.waiting -= taken
                if link.quota is not None:
                    link.quota.add(-taken, 0)

    def withdrawn(self, link_id: LinkId, session: object, size: int) -> None:
        """Count a message of `size` bytes that was taken out of the queue of a link's stream."""
        link = self._topology.link(link_id)
        if link is not None and link.session is session:
            link.queued_messages -= 1
            link.queued_bytes -= size
            self._forwarding.backlog.give_back(link)

    def signs_of_life(self, now: float, link_id: LinkId, session: object, *, seen: bool) -> Ready:
        """Take in that a neighbour whose stream stands gives no sign of life, or gives one again.

        Its messages in flight are answered 6001, and further ones at once. `sync=false` messages of others wait.
        """
        link = self._topology.link(link_id)
        if link is not None and link.session is session:
            link.silent, link.silent_at = not seen, now
            self._decisions.ready.notices.append(SignsOfLife(link.id, link.position, seen))
            if not seen:
                self._forwarding.give_up_all(now, link)
        return self._take()

    # ---- decisions

    def _accepted(self, now: float, link: Link, keys: Sequence[Key]) -> None:
        """Settle messages that the far side has delivered."""
        decisions, in_flight = self._decisions, link.in_flight
        counters, collisions, late, timed = decisions.counters, in_flight.collisions, 0, link.timed
        for part in in_flight.take_accepted(keys):
            if part is None:
                late += 1
            elif isinstance(part, Run):
                if type(timed) is int and part.first <= timed < part.first + len(part.uuids):
                    counters.timed(now, link)
                asker = decisions.asker(part.link, part.stream)
                if asker is not None and asker.bare:
                    decisions.ready.to(part.link).accepted += part.keys
                    if part.size:
                        asker.count_waiting(0, -part.size * len(part.keys))
                elif asker is not None:
                    for each in part.each():
                        decisions.settle(each, Code.OK, part.receiver, "", UNTOLD)
            else:
                if part is timed:
                    counters.timed(now, link)
                decisions.settle(part, Code.OK, part.receiver or link.position, "", UNTOLD)
        decisions.statistics.late_acks += late
        counters.accepted(now, link, len(keys) - late)
        if collisions:
            # Only a link without numbers has collisions, and its keys are uuids.
            for uuid in cast("Sequence[str]", keys):
                self._forwarding.release(now, link, uuid)

    def _answered(self, now: float, link: Link, answer: Answer) -> None:
        """Settle one message that the far side has answered."""
        key, code, src, detail, told, sync = answer
        decisions, in_flight = self._decisions, link.in_flight
        part = in_flight.take(key, sync)
        if part is None:
            decisions.statistics.late_acks += 1
        else:
            if sync is False and code == Code.OK:
                src = part.receiver or link.position
            decisions.counters.answered(now, link, part, code)
            decisions.settle(part, code, src, detail, told)
            if link.quirks is not None:
                self._forwarding.next_turn(now, link, link.quirks)
        if in_flight.collisions and isinstance(key, str):
            self._forwarding.release(now, link, key)
