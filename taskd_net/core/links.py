"""The links of one node: one to its parent, one to each child that has registered.

A child's link outlives its streams: it is made by Register, is up while a stream stands, and ends when the child has
been without a stream for too long. `session` names the stream of the moment, so that news of an older stream's end is
not taken for the newer one's. A `LinkId` is the link's number, which its sessions and the routes know it by.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from taskd_net.base.codes import Code, Refusal
from taskd_net.base.limits import FIGHT_PAUSE_MAX_S, FIGHT_PAUSE_S, FIGHT_S, SHARED_IN_FLIGHT
from taskd_net.base.position import Position, Role, require_node
from taskd_net.core.acks import Awaited
from taskd_net.core.allowance import Allowance
from taskd_net.core.identity import UNSHOWN, Credentials
from taskd_net.core.in_flight import INFINITY, InFlight
from taskd_net.core.link_counters import LinkCounters
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

    def agree(self, terms: Terms) -> None:
        """A stream stands, on these terms."""
        self.in_flight.numbered, self.bare, self.counts, self.probes = terms
        self.silent = False

    def next_deadline(self) -> float:
        """The earliest deadline of the messages in flight, or infinity."""
        return self.in_flight.deadline()

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

    def stop_waiting(self) -> None:
        """The stream has ended, and with it every message that came on it."""
        self.count_waiting(-self.waiting, -self.waiting_bytes)
        self.waiting = 0

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
    """

    def __init__(self, limit: int, hold: float, grace: float) -> None:
        self._limit = limit
        self._hold = hold
        self._grace = grace
        self._last_id: LinkId = UP
        self._by_identity: dict[Position, Link] = {}
        self.by_id: dict[LinkId, Link] = {}

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

    def register(self, now: float, position: Position) -> Link:
        """Give a child its place, or renew the one it has.

        Only the first registration after a stream renews it. Otherwise a peer that registers again and again, and never
        opens a stream, would keep the place.

        Raises:
            Refusal: 4003-4005 for a position that is not one node's, 5003 when every place is taken.
        """
        require_node(position)
        if position.role == Role.MGR:
            raise Refusal(Code.DST_ROLE_ILLEGAL, "a Mgr is the root and registers nowhere")
        identity = position.identity
        link = self._by_identity.get(identity)
        if link is None:
            if len(self.by_id) >= self._limit:
                raise Refusal(Code.EXCEED_MAX_REGISTRY_NUM, f"all {self._limit} places are taken")
            self._last_id += 1
            link = Link(self._last_id, position)
            link.since = now
            self._by_identity[identity] = self.by_id[link.id] = link
        link.position = position
        link.dropped = 0
        link.epoch += 1
        if not link.renewed:
            link.renewed = True
            self.renew(now, link)
        return link

    def renew(self, now: float, link: Link) -> None:
        """Let a registration that waits for its stream hold its place for another while."""
        if not link.up:
            link.expires = max(now + self._hold, link.expires if link.expires != INFINITY else 0.0)

    def lost(self, now: float, link: Link) -> None:
        """A child's stream is gone: the grace time begins."""
        link.session = None
        link.since = now
        link.expires = now + self._grace

    def opened(self, now: float, link: Link, session: object) -> None:
        """A child's stream stands."""
        link.session = session
        link.since = now
        link.streams += 1
        link.renewed = False
        link.expires = INFINITY

    def remove(self, link: Link) -> None:
        """Take out a child."""
        del self.by_id[link.id], self._by_identity[link.position.identity]

    def expired(self, now: float) -> list[Link]:
        """The children that have been without a stream for too long."""
        expired = []
        for link in self.by_id.values():
            if link.expires <= now:
                if link.announcing and not link.up:
                    # It waits for the answer to its announcement before it opens its stream.
                    link.expires = now + self._hold
                else:
                    expired.append(link)
        return expired

    def next_deadline(self) -> float:
        """The time at which the next child is forgotten, or infinity."""
        return min((link.expires for link in self.by_id.values()), default=INFINITY)
