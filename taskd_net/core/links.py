"""The links of one node: one to its parent, one to each child that has registered.

A child's link outlives its streams: it is made by Register, is up while a stream stands, and ends when the child has
been without a stream for too long. `session` names the stream of the moment, so that news of an older stream's end is
not taken for the newer one's. A `LinkId` is the link's number, which its sessions and the routes know it by.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from taskd_net.base.codes import Code, Refusal
from taskd_net.base.limits import FIGHT_PAUSE_MAX_S, FIGHT_PAUSE_S, FIGHT_S, SHARED_IN_FLIGHT
from taskd_net.base.peer_limits import DEFAULT, Limits
from taskd_net.base.position import Position, Role, require_node
from taskd_net.core.acks import Awaited
from taskd_net.core.allowance import Allowance
from taskd_net.core.counters import BATCH_SIZES, LinkCounters, Outcomes, bucket_of
from taskd_net.core.identity import UNSHOWN, Credentials
from taskd_net.core.in_flight import INFINITY, InFlight
from taskd_net.core.quirks import Quirks
from taskd_net.core.quota import Quota
from taskd_net.core.routes import LinkId

LINK_FREE_BYTES: Final = 16 * 1024
"""Bytes that may wait on each link beside the bound on all links: some small messages, so that nearly none looks at
that bound, and 80 MiB for 5,000 links."""

LEAF_IN_FLIGHT: Final = 1024
"""Messages written to one Worker or Agent and not yet acknowledged. A frozen Worker can occupy no more than this of
the links above it, which have room for four such."""

VIOLATION_PAUSE_S: Final = 5.0
"""Seconds before the next stream of a neighbour, after one that has broken the bounds of a link. To read such an item
stops the loop for 10 to 25 ms, most of it in gRPC, so a neighbour that goes on delays one message in 200."""

ANNOUNCEMENTS_PER_S: Final = 5000
"""Announcements of one child a second, and at once; 5001 beyond. Each takes some 200 µs."""

UP: Final[LinkId] = 0
"""The id of the link to the parent. Children's ids are positive."""


class Terms(NamedTuple):
    """The terms of one stream, as both ends have agreed on them.

    Attributes:
        numbered: messages are numbered, and answered by their numbers.
        bare: 0 for a delivered message is said by the message's key alone, without an Ack.
        counts: an answer to a broadcast says how many nodes have confirmed it, where that is not one.
        probes: the answer to a probe that came this way and ends here; None where the neighbour knows no probes. Then
            none goes there, and none is taken from there.
    """

    numbered: bool = False
    bare: bool = False
    counts: bool = False
    probes: int | None = None


@dataclass(slots=True, eq=False)
class Link:
    """The state of one link, as the Router knows it.

    Attributes:
        credentials: what the child's connection showed of it when it registered.
        quirks: what the neighbour does otherwise than the contract says; None where it does not.
        spellings: how nodes behind it are written there, by identity, where that differs.
        announcing: announcements of this child that are under way further up.
        since: when its stream began to stand, or ended, or when the child registered first.
        streams: streams that the neighbour has opened.
        outcomes: of the messages that go to the parent, or of those that go to children: all their links count in it.
        renewed: its registration holds the place for as long as it may. A further one does not prolong that.
        timed, timed_at: the one message in flight whose answer is being timed, or its number; and when the last such
            message was sent.
        bare, counts, probes: those of the stream's `Terms`.
        granted: bytes that may wait in its queue: some of its own, and those of the pool (`core.backlog`).
        grants: what it has taken out of the pool, oldest first: in whose name, and bytes.
        quota: the child's; None towards a parent.
        silent, silent_at: the neighbour gives no sign of life, and its stream stands; and since when that is known.
        waiting, waiting_bytes: messages of this stream whose answers have not left, and the bytes that count.
        announcements, positions: what the child may announce; None towards a parent.
        dropped: routes that are gone since its time has ended.
        job_id: the job that the child has said; empty for none.
        leaves: it has no place here any more, and is forgotten once its stream has ended.
    """

    id: LinkId
    position: Position
    credentials: Credentials = UNSHOWN
    session: object | None = None
    epoch: int = 0
    expires: float = INFINITY
    in_flight: InFlight = field(default_factory=InFlight)
    in_flight_limit: int = SHARED_IN_FLIGHT
    queued_messages: int = 0
    queued_bytes: int = 0
    granted: int = LINK_FREE_BYTES
    grants: deque[tuple[LinkId, int]] = field(default_factory=deque)
    quirks: Quirks | None = None
    spellings: dict[Position, Position] = field(default_factory=dict)
    announcing: int = 0
    since: float = -INFINITY
    streams: int = 0
    renewed: bool = False
    counters: LinkCounters = field(default_factory=LinkCounters)
    outcomes: Outcomes = field(default_factory=Outcomes)
    timed: Awaited | int | None = None
    timed_at: float = -INFINITY
    probes: int | None = None
    counts: bool = False
    bare: bool = False
    quota: Quota | None = None
    silent: bool = False
    silent_at: float = -INFINITY
    waiting: int = 0
    waiting_bytes: int = 0
    announcements: Allowance | None = None
    positions: Allowance | None = None
    dropped: int = 0
    job_id: str = ""
    leaves: bool = False
    _held_until: float = -INFINITY
    _changed_hands: float = -INFINITY
    _pause: float = 0.0

    def __post_init__(self) -> None:
        if self.is_leaf:
            self.in_flight_limit = LEAF_IN_FLIGHT

    @property
    def is_child(self) -> bool:
        """False for the link to the parent."""
        return self.id != UP

    @property
    def is_leaf(self) -> bool:
        """True for a Worker or an Agent: nobody lies behind it."""
        return self.id != UP and self.position.role in (Role.AGENT, Role.WORKER)

    def opened(self, now: float, session: object, terms: Terms) -> None:
        """A stream stands, on these terms."""
        self.session = session
        self.since = now
        self.streams += 1
        self.renewed = False
        self.expires = INFINITY
        self.in_flight.numbered, self.bare, self.counts, self.probes = terms
        self.silent = False

    def identify(self, parent: Position, quirks: Quirks | None) -> None:
        """The parent has named itself, and what it does otherwise than the contract says."""
        self.position, self.quirks = parent, quirks

    def replaced(self, session: object, probed: int | None) -> None:
        """Another stream continues the one that stands; `probed` is its answer to a probe."""
        self.session, self.silent = session, False
        if self.probes is not None and probed is not None:
            self.probes = probed

    def lost(self, now: float, expires: float = INFINITY) -> None:
        """The stream is gone. A child keeps its place until `expires`."""
        self.session = None
        self.since = now
        self.expires = expires

    def noticed(self, now: float, *, seen: bool) -> None:
        """The neighbour gives a sign of life again, or none any more, while its stream stands."""
        self.silent, self.silent_at = not seen, now

    def next_deadline(self) -> float:
        """The earliest deadline of the messages in flight, or infinity."""
        return self.in_flight.deadline()

    def enqueue(self, messages: int, size: int) -> None:
        """Count messages that begin to wait in the queue."""
        self.queued_messages += messages
        self.queued_bytes += size

    def dequeue(self, messages: int, size: int) -> None:
        """Count messages that are taken out of the queue before they are written."""
        self.queued_messages -= messages
        self.queued_bytes -= size

    def clear_queue(self) -> None:
        """The stream has ended, and its queue with it. The timed message gets no answer: its time is no round trip."""
        self.queued_messages = self.queued_bytes = 0
        self.timed = None
        self.stop_waiting()

    def grant(self, sender: LinkId, size: int) -> None:
        """Let so many more bytes wait in the queue, which the pool of all links has given in a sender's name."""
        self.grants.append((sender, size))
        self.granted += size

    def take_grants(self) -> Iterator[tuple[LinkId, int]]:
        """Take out what the queue does not need any more, the oldest first: in whose name, and bytes."""
        grants = self.grants
        while grants and grants[0][1] <= self.granted - self.queued_bytes:
            sender, size = grants.popleft()
            self.granted -= size
            yield sender, size

    def written(self, messages: int, size: int) -> None:
        """Count messages that have left the queue in one write."""
        self.queued_messages -= messages
        self.queued_bytes -= size
        self.counters.sent += messages
        self.counters.sent_bytes += size
        self.outcomes.batches[min(messages.bit_length(), BATCH_SIZES - 1)] += 1

    def time(self, now: float, part: Awaited | int) -> None:
        """Time a message in flight, or the one with this number, until its answer."""
        self.timed, self.timed_at = part, now

    def withdrawn(self, part: Awaited) -> None:
        """A message in flight is not awaited any more, so its time is no round trip."""
        if self.timed is part:
            self.timed = None

    def stop_timing(self, now: float) -> None:
        """The timed message has its outcome."""
        seconds = now - self.timed_at
        self.timed = None
        bucket = bucket_of(seconds)
        self.counters.recent.add(seconds, bucket)
        self.outcomes.latency.add(seconds, bucket)

    def accepted(self, now: float, messages: int) -> None:
        """Count messages that the other end has answered with 0."""
        self.counters.heard = now
        if messages:
            self.outcomes.count(0, messages)

    def answered(self, now: float, part: Awaited, code: int) -> None:
        """Count the answer of the other end to a message."""
        self.counters.heard = now
        self.ended(now, part, code)

    def ended(self, now: float, part: Awaited, code: int) -> None:
        """Count the outcome of a message, which came by an answer or without one."""
        timed = self.timed
        if part is timed or (type(timed) is int and not self.in_flight.holds(timed)):
            self.stop_timing(now)
        if code >= Code.NIL_MESSAGE:
            self.failed(code)
        else:  # 0, or where a probe has ended: it was answered
            self.outcomes.count(0)

    def failed(self, code: int) -> None:
        """Count a message that was to go here and will not be delivered, or nobody knows."""
        self.counters.failed += 1
        self.outcomes.count(code)

    def count_unanswered(self, messages: int) -> None:
        """Count messages of the neighbour that wait for their answers."""
        self.waiting += messages
        if self.quota is not None:
            self.quota.add(messages, 0)

    def count_waiting(self, messages: int, size: int) -> None:
        """Count messages of the child that begin to wait for their answers, or have been answered if negative."""
        if self.quota is not None:
            self.waiting += messages
            self.waiting_bytes += size
            self.quota.add(messages, size)

    def answers_left(self, answers: int) -> None:
        """Count answers that have left the queue: so many messages less wait for theirs."""
        taken = min(self.waiting, answers)
        self.waiting -= taken
        if self.quota is not None:
            self.quota.add(-taken, 0)

    def count_announcing(self, announcements: int) -> None:
        """Count announcements of the child that begin to wait for the parent's answer, or have it if negative."""
        self.announcing += announcements

    def count_dropped(self, routes: int) -> None:
        """Count routes of a child without a stream that are withdrawn."""
        self.dropped += routes

    def stop_waiting(self) -> None:
        """The stream has ended, and with it every message that came on it."""
        self.count_waiting(-self.waiting, -self.waiting_bytes)
        self.waiting = 0

    def registered(self, position: Position, credentials: Credentials, quirks: Quirks | None, job_id: str = "") -> bool:
        """The child has registered, with its position spelled so. Returns whether that prolongs its place."""
        self.position = position
        self.credentials = credentials
        self.quirks = quirks
        self.job_id = job_id
        self.leaves = False
        self.spell(position)
        self.dropped = 0
        self.epoch += 1
        first, self.renewed = not self.renewed, True
        return first

    def leave(self, now: float) -> None:
        """The child has no place here any more, unless it registers again; a stream that stands is ended first."""
        self.leaves = True
        if not self.up:
            self.expires = now

    def hold_place(self, until: float) -> None:
        """Keep the place of a child without a stream at least until then."""
        if not self.up and not self.leaves:
            self.expires = max(until, self.expires if self.expires != INFINITY else 0.0)

    def spell(self, position: Position) -> None:
        """Note how a node behind this link is written there."""
        if position == position.identity:
            self.spellings.pop(position.identity, None)
        else:
            self.spellings[position.identity] = position

    def changed_hands(self, now: float) -> None:
        """A stream was replaced by one of another node with the same position."""
        self._changed_hands = now

    def next_pause(self, now: float) -> float:
        """Seconds that the next node that claims this position is to wait, where it would not do so by itself.

        None unless the position has changed hands a moment ago; then more from time to time, as somebody who never
        pauses will be back at once.
        """
        if now - self._changed_hands > FIGHT_S:
            self._pause = 0.0
        else:
            self._pause = min(FIGHT_PAUSE_MAX_S, max(FIGHT_PAUSE_S, 2.0 * self._pause))
        return self._pause

    def hold(self, now: float) -> None:
        """A stream has broken the bounds of the link: the next one has to wait."""
        self._held_until = now + VIOLATION_PAUSE_S

    def stream_pause(self, now: float) -> float:
        """Seconds before the next stream may stand, after one that has broken the bounds of the link."""
        return max(0.0, self._held_until - now)

    @property
    def up(self) -> bool:
        """True while a stream stands."""
        return self.session is not None


class Children:
    """The registry of one parent (docs/contract.md, section 3).

    Args:
        limit: children at most.
        hold: seconds a registration without a stream holds its place.
        grace: seconds a child whose stream is gone keeps its place.
        bounds: on what one child and all of them may have under way.
        outcomes: of the messages to all children.

    Attributes:
        by_id: the links.
        quota: of all children together.
    """

    def __init__(
        self, limit: int, hold: float, grace: float, bounds: Limits = DEFAULT, outcomes: Outcomes | None = None
    ) -> None:
        self._limit = limit
        self._hold = hold
        self._grace = grace
        self._bounds = bounds
        self._outcomes = outcomes or Outcomes()
        self._last_id: LinkId = UP
        self._by_identity: dict[Position, Link] = {}
        self.by_id: dict[LinkId, Link] = {}
        self.quota = Quota(bounds)

    def __len__(self) -> int:
        return len(self.by_id)

    @property
    def free_places(self) -> int:
        """The number of places that no child has."""
        return self._limit - len(self.by_id)

    def find(self, position: Position) -> Link | None:
        """The link of a registered child, by its identity."""
        return self._by_identity.get(position.identity)

    def connected(self, identity: Position) -> Link | None:
        """The link of a child whose stream is up, by its identity."""
        link = self._by_identity.get(identity)
        return link if link is not None and link.up else None

    def held_against(self, identity: Position, credentials: Credentials) -> bool:
        """True if a child is connected here with this identity, and these credentials are not that peer's."""
        link = self.connected(identity)
        return link is not None and not link.credentials.same_peer(credentials)

    def register(
        self,
        now: float,
        position: Position,
        credentials: Credentials = UNSHOWN,
        quirks: Quirks | None = None,
        job_id: str = "",
    ) -> Link:
        """Give a child its place, or renew the one it has.

        Only the first registration after a stream renews it. Otherwise a peer that registers again and again, and never
        opens a stream, would keep the place.

        Raises:
            Refusal: 4003-4005 for a position that is not one node's, 5003 when every place is taken.
        """
        require_node(position)
        if position.role == Role.MGR:
            raise Refusal(Code.DST_ROLE_ILLEGAL, "a Mgr is the root and registers nowhere")
        link = self._by_identity.get(position.identity)
        if link is None:
            link = self._add(now, position)
        if link.registered(position, credentials, quirks, job_id):
            self.renew(now, link)
        return link

    def _add(self, now: float, position: Position) -> Link:
        if len(self.by_id) >= self._limit:
            raise Refusal(Code.EXCEED_MAX_REGISTRY_NUM, f"all {self._limit} places are taken")
        self._last_id += 1
        bounds = self._bounds
        link = Link(
            self._last_id,
            position,
            since=now,
            outcomes=self._outcomes,
            quota=Quota(bounds, self.quota),
            announcements=Allowance(ANNOUNCEMENTS_PER_S, ANNOUNCEMENTS_PER_S),
            positions=Allowance(bounds.positions_per_second, bounds.routes_per_child),
        )
        self._by_identity[position.identity] = self.by_id[link.id] = link
        return link

    def renew(self, now: float, link: Link) -> None:
        """Let a registration that waits for its stream hold its place for another while."""
        link.hold_place(now + self._hold)

    def lost(self, now: float, link: Link) -> None:
        """A child's stream is gone: the grace time begins, unless the child leaves."""
        link.lost(now, now if link.leaves else now + self._grace)

    def remove(self, link: Link) -> None:
        """Take out a child."""
        del self.by_id[link.id], self._by_identity[link.position.identity]

    def expired(self, now: float) -> list[Link]:
        """The children that have been without a stream for too long."""
        expired = []
        for link in self.by_id.values():
            if link.expires <= now:
                if link.announcing and not link.up and not link.leaves:
                    # It waits for the answer to its announcement before it opens its stream.
                    self.renew(now, link)
                else:
                    expired.append(link)
        return expired

    def next_deadline(self) -> float:
        """The time at which the next child is forgotten, or infinity."""
        return min((link.expires for link in self.by_id.values()), default=INFINITY)
