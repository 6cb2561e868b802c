"""One node's view of the topology, and the routing rule (docs/contract.md, sections 3 and 4)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from taskd_net.base.codes import Code, Refusal
from taskd_net.base.peer_limits import DEFAULT, Limits
from taskd_net.base.position import Destination, Position, Role, require_node
from taskd_net.core.identity import UNSHOWN, Claim, Credentials, Violation
from taskd_net.core.links import UP, Children, Link
from taskd_net.core.quirks import Quirks
from taskd_net.core.ready import Kind
from taskd_net.core.routes import LinkId, Routes
from taskd_net.core.schedule import INFINITY, Schedule

ROUTES_SLICE: Final = 256
"""Positions of announcements that are taken in, and routes that are withdrawn, in one go: some 3 ms, for which messages
wait. Larger announcements are taken in by slices, and messages pass between two of them."""

ROUTES: Final = 262_144
"""Nodes behind all children of a node, some 130 MiB; more if the user lets a single child have more."""

ROUTES_SHARES: Final = 4
"""Children that may each lead to as many nodes as a single one may."""

LOCAL: Final[LinkId] = -1
"""The link id of messages from this node's own application."""


class Learnt(NamedTuple):
    """The changes that an announcement made.

    Attributes:
        gone: nodes that have no route any more.
        new: nodes to announce to the parent.
        disputed: nodes that the child may not announce. Their routes are unchanged.
        diverted: nodes connected to this one, whose messages go to the announcing child of the same host now.
    """

    gone: list[Position]
    new: list[Position]
    disputed: list[Position]
    diverted: list[Position]


@dataclass(slots=True)
class Plan:
    """The next hops of a broadcast or multicast.

    Attributes:
        links: the links to forward it on.
        here: whether this node's inbox takes it.
        missing: a listed rank that does not exist, as `Routes.missing` returns it; None if all exist.
    """

    links: Sequence[Link]
    here: bool
    missing: Position | None = None


class Topology:
    """One node with its parent, its children and the routes to all nodes below.

    Args:
        position: this node's position.
        up: the link to the parent; None at the root.
        children: the registry of children.
        job: the name of the job, which certificates bind positions to.
        bounds: for each child.
        routes: nodes behind all children.
        routes_slice: routes that are withdrawn in one go.
    """

    def __init__(
        self,
        position: Position,
        up: Link | None,
        children: Children,
        job: str = "",
        bounds: Limits = DEFAULT,
        routes: int = ROUTES,
        routes_slice: int = ROUTES_SLICE,
    ) -> None:
        require_node(position)
        self._job = job
        self._limits = bounds
        self._most_routes = max(routes, ROUTES_SHARES * bounds.routes_per_child)
        self.routes_slice = routes_slice
        self.position = position
        self.identity = position.identity
        self.up = up
        self.children = children
        self.routes = Routes()

    def link(self, link_id: LinkId) -> Link | None:
        """The link with this id; None for a forgotten child."""
        return self.up if link_id == UP else self.children.by_id.get(link_id)

    def links(self) -> list[Link]:
        """Every link of this node."""
        return [*self.children.by_id.values(), *((self.up,) if self.up is not None else ())]

    def next_hop(self, dst: Destination, came_from: LinkId) -> Link | None:
        """The next hop of a unicast; None for this node's inbox.

        Raises:
            Refusal: 5002 if there is no route.
        """
        position = dst.position
        hop = self.routes.next_hop(position)
        if hop is not None:
            # Split horizon: the neighbour that sent the message here has no other route either.
            if hop != came_from:
                return self.children.by_id[hop]
        elif position == self.identity:
            return None
        elif came_from != UP and self.up is not None:
            return self.up
        raise Refusal(Code.NO_ROUTE, f"{self.position} knows no way to {dst}")

    def plan(self, sender: Position, dst: Destination, came_from: LinkId) -> Plan:
        """The next hops of a broadcast or multicast from the node `sender`.

        Raises:
            Refusal: 5002 if nobody matches.
        """
        routes, by_id = self.routes, self.children.by_id
        links = [by_id[hop] for hop in sorted(routes.links_for(dst)) if hop != came_from]
        here = dst.matches(self.identity) and sender != self.identity
        missing = None
        if self.up is None:
            # Only the root knows every node, so only the root can report a missing rank.
            missing = routes.missing(dst, (self.identity, sender))
            others = routes.receivers(dst) - (sender in routes and dst.matches(sender))
            if missing is None and others + here == 0:
                raise Refusal(Code.NO_ROUTE, f"nobody matches {dst}")
        elif came_from != UP and not self._all_below(dst):
            links.append(self.up)
        elif came_from == UP and not links and not here:
            raise Refusal(Code.NO_ROUTE, f"nobody below {self.position} matches {dst}")
        return Plan(links, here, missing)

    def _all_below(self, dst: Destination) -> bool:
        """True if every receiver of a list is known below this node. Such a list need not reach the Mgr."""
        if dst.servers is None or (dst.processes is None and dst.position.role == Role.WORKER):
            return False
        named = len(dst.servers) * (1 if dst.processes is None else len(dst.processes))
        return self.routes.receivers(dst) + dst.matches(self.identity) == named

    def register(
        self,
        now: float,
        position: Position,
        credentials: Credentials = UNSHOWN,
        quirks: Quirks | None = None,
        *,
        service: bool = False,
        job_id: str = "",
    ) -> Link:
        """Register a child and its route. Messages can reach it once its stream is up.

        Raises:
            Refusal: 4003-4005 for a bad position, 4999 for this node's own, 5003 if the registry is full.
            Violation: 4002 if the certificate does not name the position, or another peer is connected in it.
        """
        if position.identity == self.identity:
            raise Refusal(Code.CLIENT_ERR, f"{position} is the parent itself")
        require_node(position)
        if not credentials.covers(self._job, position, service=service):
            raise Violation(Code.NIL_POSITION, f"{position} is not named by the peer's certificate")
        if self.children.held_against(position.identity, credentials):
            raise Violation(Code.NIL_POSITION, f"{position} is taken: another peer is connected in it")
        link = self.children.register(now, position, credentials, quirks, job_id)
        self.routes.learn(position.identity, link.id, link.epoch)
        return link

    def learn(
        self, now: float, link: Link | None, kind: Kind, positions: Sequence[Position], *, continues: bool = False
    ) -> Learnt:
        """Apply a child's announcement, or a slice of one, to the routes.

        A Proxy announces all nodes below it. A position that it may not announce is skipped, and the others keep
        their routes.

        Args:
            now: the time.
            link: the child; None for one that is not registered.
            kind: of the announcement. Routes that a snapshot does not renew are left to `stale` and `drop`.
            positions: one at least.
            continues: this is a further slice of the announcement before.

        Raises:
            Refusal: 4003-4005 for a position that does not name one node; 4999 if none of the first slice can lie
                below, or the child is not registered; 5001 for too many announcements in a second; 5003 for too many
                nodes behind the child, or behind all. A refused slice changes nothing.
            Violation: 4006 if a Worker or Agent announces another node.
        """
        if link is None or link.announcements is None:
            raise Refusal(Code.CLIENT_ERR, "the announcing child is not registered here")
        if not continues and not link.announcements.spend(now):
            raise Refusal(Code.RECV_BUF_BUSY, f"{link.position} announces too often")
        identities: list[Position] = []
        disputed: list[Position] = []
        spelled: list[Position] = []
        is_leaf, own = link.is_leaf, link.position.identity
        routed = self.routes.next_hop
        for position in positions:
            # Entries of the table were checked before.
            if routed(position) is None:
                require_node(position)
            identity = position.identity
            if identity is not position:
                spelled.append(position)
            if is_leaf and identity != own:
                raise Violation(Code.DST_TYPE_ILLEGAL, f"{link.position} announces {position}, which is not itself")
            (identities if self.may_lie_below(identity) else disputed).append(identity)
        if not identities and not continues:
            raise Violation(Code.CLIENT_ERR, f"{disputed[0]} cannot lie below {self.position}")
        self.children.renew(now, link)
        routes = self.routes
        if kind is Kind.WITHDRAW:
            return Learnt(self.drop(link, identities), [], disputed, [])
        most = self._limits.routes_per_child
        if self._room(link) < len(identities):
            new = sum(not routes.claims(identity, link.id) for identity in set(identities))
            if self._room(link) < new:
                text = f"{link.position} leads to more than {most} nodes, or all children lead to too many"
                raise Refusal(Code.EXCEED_MAX_REGISTRY_NUM, text)
        diverted: list[Position] = []
        for identity in identities:
            connected = None if identity == own else self.children.connected(identity)
            if connected is not None and not connected.credentials.same_peer(link.credentials):
                routes.learn_behind(identity, link.id, link.epoch)
                disputed.append(identity)
                continue
            if connected is not None and routes.next_hop(identity) == connected.id:
                diverted.append(identity)
            routes.learn(identity, link.id, link.epoch)
        # Most are written as their identity is.
        for position in positions if link.spellings else spelled:
            link.spell(position)
        return Learnt([], identities, disputed, diverted)

    def stale(self, link: Link, most: int) -> list[Position]:
        """Nodes that a child has claimed in an earlier life and not since, `most` of them."""
        return self.routes.oldest(link.id, most, link.epoch)

    def has_stale(self, link: Link) -> bool:
        """True if there are any."""
        return bool(self.stale(link, 1))

    def drop(self, link: Link, identities: Iterable[Position]) -> list[Position]:
        """Withdraw claims of a child. Returns the nodes that lost their last route."""
        gone = []
        for identity in identities:
            link.spellings.pop(identity, None)
            if self.routes.drop(identity, link.id):
                gone.append(identity)
        return gone

    def _room(self, link: Link) -> int:
        """The number of nodes that a child may claim beside those that it claims.

        A child may claim as many as are left for all. So the next one has room.
        """
        claimed, alone = self.routes.claimed(link.id), self._limits.routes_per_child
        return min(alone - claimed, (self._most_routes - self.routes.total - claimed) // 2)

    def claim(self, link: Link, sender: Position) -> Claim:
        """The relation between a message's sender, by identity, and the child that delivers the message."""
        if sender == link.position.identity:
            return Claim.OWN
        if link.is_leaf or not self.may_lie_below(sender) or self.children.held_against(sender, link.credentials):
            return Claim.NEVER
        # An unknown sender is accepted, because it cannot displace anyone. It joined just now, or never announces.
        known = sender in self.routes and not self.routes.claims(sender, link.id)
        return Claim.ELSEWHERE if known else Claim.OWN

    def may_lie_below(self, identity: Position) -> bool:
        """False for this node itself and for a Mgr, which is always the root."""
        return identity != self.identity and identity.role != Role.MGR

    def forget(self, identity: Position) -> tuple[Link | None, list[Position]]:
        """Forget a node and the nodes behind it. A connected child is not forgotten.

        Returns:
            The link that it had as a child, and the nodes that lost their route.
        """
        link = self.children.find(identity)
        if link is not None and link.up:
            return None, []
        gone: list[Position] = []
        if link is not None:
            gone = self.drop(link, self.routes.oldest(link.id, self.routes.claimed(link.id)))
            link.count_dropped(len(gone))
            self.children.remove(link)
        while (hop := self.routes.next_hop(identity)) is not None:
            if self.routes.drop(identity, hop):
                gone.append(identity)
        return link, gone

    def expire(self, now: float) -> list[tuple[Link | None, list[Position]]]:
        """Withdraw a slice of the claims of children without a stream for too long, and forget those without claims.

        Returns:
            For each the link once it is forgotten, and the nodes that lost their route.
        """
        expired: list[tuple[Link | None, list[Position]]] = []
        left = self.routes_slice
        for link in self.children.expired(now):
            oldest = self.routes.oldest(link.id, left)
            left -= len(oldest)
            gone = self.drop(link, oldest)
            link.count_dropped(len(gone))
            over = not self.routes.claimed(link.id)
            if over:
                self.children.remove(link)
            expired.append((link if over else None, gone))
            if left <= 0:
                break
        return expired


class Sweep:
    """Withdrawals of many routes, a slice at each wake-up, so that messages pass between two of them.

    The children in it have claims of an earlier life, which their snapshots did not renew. A stale route is harmless
    until its turn comes: it leads where the node was a moment ago.

    Args:
        topology: the routes.
        schedule: takes the time of the next slice.
    """

    def __init__(self, topology: Topology, schedule: Schedule) -> None:
        self._topology = topology
        self._schedule = schedule
        self._links: dict[LinkId, float] = {}

    def begin(self, now: float, link: Link) -> list[Position]:
        """Sweep a child that has announced everything. Returns what a first slice has withdrawn."""
        self._links[link.id] = now
        gone = self.take_slice()
        self._schedule.look(self, self.next_deadline())
        return gone

    def take_slice(self) -> list[Position]:
        """Withdraw a slice. Returns the nodes that have no route any more."""
        gone: list[Position] = []
        left = self._topology.routes_slice
        for link_id in list(self._links):
            link = self._topology.link(link_id)
            if link is not None and left > 0:
                stale = self._topology.stale(link, left)
                left -= len(stale)
                gone += self._topology.drop(link, stale)
            if link is None or not self._topology.has_stale(link):
                del self._links[link_id]
        return gone

    def next_deadline(self) -> float:
        """The time of the next slice: at once, while some is left."""
        return min(self._links.values(), default=INFINITY)
