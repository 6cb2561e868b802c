"""Where everybody is, as one node knows it, and hence where a message goes (contract, sections 3 and 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from taskd_net.codes import Code, Refusal
from taskd_net.core.announcer import Kind
from taskd_net.core.links import UP, Children, Link
from taskd_net.core.routes import LinkId, Routes
from taskd_net.position import Destination, Position, Role, require_node

LOCAL: Final[LinkId] = -1
"""Where a message came from that the application of this node sends."""

STRANGER: Final[LinkId] = -2
"""Where a message came from whose link is not known: from below, by somebody who has not registered."""


@dataclass(slots=True)
class Plan:
    """Who gets a message from here: these links, and this node's inbox.

    `missing` names, for people, a rank that a list asks for and that does not exist.
    """

    links: Sequence[Link]
    here: bool
    missing: str | None = None


class Topology:
    """This node, its parent, its children, and the way to everybody below.

    Args:
        position: this node's own.
        up: the link to the parent; None at the root.
        children: the registry.
    """

    __slots__ = ("children", "identity", "position", "routes", "up")

    def __init__(self, position: Position, up: Link | None, children: Children) -> None:
        require_node(position)
        self.position = position
        self.identity = position.identity
        self.up = up
        self.children = children
        self.routes = Routes()

    def link(self, link_id: LinkId) -> Link | None:
        """A link by its id; None for one that is forgotten."""
        return self.up if link_id == UP else self.children.by_id.get(link_id)

    def links(self) -> list[Link]:
        """Every link of this node."""
        return [*self.children.by_id.values(), *((self.up,) if self.up is not None else ())]

    # ---- where a message goes

    def next_hop(self, dst: Destination, came_from: LinkId) -> Link | None:
        """Where a unicast goes from here: on this link, or None: into this node's inbox.

        Raises:
            Refusal: 5002, nowhere.
        """
        position = dst.position
        hop = self.routes.next_hop(position)
        if hop is not None:
            # A message never goes back to where it came from: who sent it here does not know the way either.
            if hop != came_from:
                return self.children.by_id[hop]
        elif position == self.identity:
            return None
        elif came_from != UP and self.up is not None:
            return self.up
        raise Refusal(Code.NO_ROUTE, f"{self.position} knows no way to {dst}")

    def plan(self, sender: Position, dst: Destination, came_from: LinkId) -> Plan:
        """Where a broadcast or multicast of the node `sender` goes from here.

        Raises:
            Refusal: 5002, nowhere.
        """
        routes, by_id = self.routes, self.children.by_id
        links = [by_id[hop] for hop in sorted(routes.links_for(dst)) if hop != came_from]
        here = dst.matches(self.identity) and sender != self.identity
        missing = None
        if self.up is None:
            # The root knows every node, so it alone can say that a listed rank does not exist.
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
        """True when every receiver of a list is known to be below: it need not go up, and works without the Mgr."""
        if dst.servers is None or (dst.processes is None and dst.position.role == Role.WORKER):
            return False
        named = len(dst.servers) * (1 if dst.processes is None else len(dst.processes))
        return self.routes.receivers(dst) + dst.matches(self.identity) == named

    # ---- who is where

    def register(self, now: float, position: Position) -> Link:
        """Give a child its place; it is routable from here once its stream stands.

        Raises:
            Refusal: 4003-4005 for a bad position, 4999 for this node's own, 5003 when there is no place.
        """
        if position.identity == self.identity:
            raise Refusal(Code.CLIENT_ERR, f"{position} is the parent itself")
        link = self.children.register(now, position)
        self.routes.learn(position.identity, link.id, link.epoch)
        return link

    def learn(
        self, now: float, link: Link | None, kind: Kind, positions: Sequence[Position]
    ) -> tuple[list[Position], list[Position]]:
        """Take in what a child announced: which nodes are gone by it, which are to be announced further up.

        Raises:
            Refusal: 4003-4005 for a position that is not one node's, 4999 for one that cannot lie below, or for a
                child that has not registered. Then nothing of the announcement is taken in.
        """
        if link is None:
            raise Refusal(Code.CLIENT_ERR, "the announcing child is not registered here")
        identities = []
        for position in positions:
            require_node(position)
            if not self.may_lie_below(position.identity):
                raise Refusal(Code.CLIENT_ERR, f"{position} cannot lie below {self.position}")
            identities.append(position.identity)
        self.children.renew(now, link)
        routes = self.routes
        if kind is Kind.WITHDRAW:
            return [identity for identity in identities if routes.drop(identity, link.id)], []
        for identity in identities:
            routes.learn(identity, link.id, link.epoch)
        gone = routes.drop_older(link.id, link.epoch) if kind is Kind.COMPLETE else []
        return gone, identities

    def may_lie_below(self, identity: Position) -> bool:
        """False for this node itself, and for a Mgr, which is the root."""
        return identity != self.identity and identity.role != Role.MGR

    def expire(self, now: float) -> list[tuple[Link, list[Position]]]:
        """Forget the children that have been without a stream for too long; each with the nodes behind it."""
        return [(link, self.routes.drop_link(link.id)) for link in self.children.expired(now)]
