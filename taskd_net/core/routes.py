"""The routing table: the link to each node below.

Two indexes find the links of a broadcast without a walk over the nodes. One counts the nodes behind each link by role
and by (role, serverRank). The other lists the Workers of each global rank.

Two links may claim the same node: it has moved and the old parent has not noticed, or an announcement was late. The
newest claim is the route. Older claims are kept until they are withdrawn, so that the route recovers when the wrong
claim goes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice, takewhile
from typing import TypeAlias

from taskd_net.base.position import ALL, NO_PROCESS, Destination, Position, Role

LinkId: TypeAlias = int
_Pattern: TypeAlias = tuple[str, str | None]


class Routes:
    """Map from position to link, with the indexes for broadcasts. Positions are identities (`Position.identity`).

    Attributes:
        total: claims of all links.
    """

    def __init__(self) -> None:
        self._next_hop: dict[Position, LinkId] = {}
        # The link to a node; None without a route. Bound to the dict's own method, because each message calls it twice.
        self.next_hop: Callable[[Position], LinkId | None] = self._next_hop.get
        # The links of older claims, oldest first. Only nodes that have moved have some.
        self._replaced: dict[Position, dict[LinkId, None]] = {}
        # The epoch of each claim of a link, as the route or not. The oldest epoch is first, so nobody searches for it.
        self._claims: dict[LinkId, dict[Position, int]] = {}
        self._by_pattern: dict[_Pattern, dict[LinkId, int]] = {}
        # The Worker of a global rank, or a set of those that claim it: a set for each would double the memory.
        self._by_process: dict[str, Position | set[Position]] = {}
        self.total = 0

    def __len__(self) -> int:
        return len(self._next_hop)

    def __contains__(self, identity: Position) -> bool:
        return identity in self._next_hop

    def __iter__(self) -> Iterator[Position]:
        return iter(self._next_hop)

    def items(self) -> Iterable[tuple[Position, LinkId]]:
        """Every known node below, with its link."""
        return self._next_hop.items()

    def behind(self, link: LinkId) -> frozenset[Position]:
        """The nodes whose route is this link."""
        return frozenset(identity for identity in self._claims.get(link, ()) if self._next_hop[identity] == link)

    def claims(self, identity: Position, link: LinkId) -> bool:
        """True if a link claims a node, as the route or not."""
        return identity in self._claims.get(link, ())

    def claimed(self, link: LinkId) -> int:
        """The number of nodes that a link claims."""
        return len(self._claims.get(link, ()))

    def oldest(self, link: LinkId, most: int, before: float = math.inf) -> list[Position]:
        """The oldest claims of a link.

        Args:
            link: the link.
            most: claims at most.
            before: claims of earlier epochs alone.
        """
        claims = islice(self._claims.get(link, {}).items(), most)
        return [identity for identity, _ in takewhile(lambda claim: claim[1] < before, claims)]

    def learn(self, identity: Position, link: LinkId, epoch: int) -> None:
        """Set the next hop to a node, in place of any older route (docs/contract.md, section 3).

        The epochs of one link never decrease.
        """
        old = self._next_hop.get(identity)
        if old == link:
            if self._claims[link][identity] == epoch:
                return
        else:
            if old is not None:
                replaced = self._replaced.setdefault(identity, {})
                replaced.pop(link, None)
                replaced[old] = None
                self._unindex(identity, old)
            self._index(identity, link)
        self._claim(identity, link, epoch)

    def learn_behind(self, identity: Position, link: LinkId, epoch: int) -> None:
        """Record a claim behind the existing ones. It becomes the route when the newer ones are withdrawn."""
        if self._next_hop.get(identity) in (None, link):
            self.learn(identity, link, epoch)
            return
        replaced = self._replaced.pop(identity, {})
        replaced.pop(link, None)
        self._replaced[identity] = {link: None, **replaced}
        self._claim(identity, link, epoch)

    def yield_to_others(self, identity: Position, link: LinkId) -> None:
        """Make the next older claim the route and this link's the oldest. No effect without another claim."""
        replaced = self._replaced.get(identity)
        if replaced is not None and self._next_hop.get(identity) == link:
            self._unindex(identity, link)
            newest, _ = replaced.popitem()
            self._index(identity, newest)
            self._replaced[identity] = {link: None, **replaced}

    def drop(self, identity: Position, link: LinkId) -> bool:
        """Withdraw a link's claim to a node. Returns whether the node lost its last route."""
        claims = self._claims.get(link, {})
        if claims.pop(identity, None) is None:
            return False
        self.total -= 1
        if not claims:
            del self._claims[link]
        replaced = self._replaced.get(identity, {})
        gone = False
        if self._next_hop[identity] != link:
            del replaced[link]
        else:
            self._unindex(identity, link)
            gone = not replaced
            if gone:
                del self._next_hop[identity]
            else:
                newest, _ = replaced.popitem()
                self._index(identity, newest)
        if not replaced:
            self._replaced.pop(identity, None)
        return gone

    def links_for(self, dst: Destination) -> set[LinkId]:
        """The links with at least one receiver of a broadcast or multicast behind them."""
        if dst.processes is not None:
            return {self._next_hop[identity] for identity in self._with_process(dst)}
        links: set[LinkId] = set()
        for pattern in _patterns_of(dst):
            links.update(self._by_pattern.get(pattern, ()))
        return links

    def receivers(self, dst: Destination) -> int:
        """The number of known receivers of a broadcast or multicast."""
        if dst.processes is not None:
            return sum(1 for _ in self._with_process(dst))
        return sum(sum(self._by_pattern.get(pattern, {}).values()) for pattern in _patterns_of(dst))

    def missing(self, dst: Destination, present: Iterable[Position]) -> Position | None:
        """The first listed rank without a node; None if every rank has one.

        Args:
            dst: the destination.
            present: existing nodes that the table does not hold: this node and the sender.

        Returns:
            A position with the missing rank; its other rank is `All`, or that of no process.
        """
        role = dst.position.role
        known = [identity for identity in present if identity.role == role]
        for server in sorted(dst.servers or ()):
            if (role, server) not in self._by_pattern and all(server != node.server_rank for node in known):
                return Position(role, server, ALL if role == Role.WORKER else NO_PROCESS)
        for process in sorted(dst.processes or ()):
            holders = [*self.holders(process), *(node for node in known if node.process_rank == process)]
            if not any(dst.servers is None or node.server_rank in dst.servers for node in holders):
                return Position(role, ALL, process)
        return None

    def holders(self, process: str) -> Collection[Position]:
        """The Workers of a global rank: one, unless several nodes claim it."""
        holder = self._by_process.get(process, ())
        return (holder,) if isinstance(holder, Position) else holder

    def _with_process(self, dst: Destination) -> Iterator[Position]:
        # The product of two lists is mostly empty, because a global rank lives on one node. So this walks the ranks.
        for process in dst.processes or ():
            for identity in self.holders(process):
                if dst.servers is None or identity.server_rank in dst.servers:
                    yield identity

    def _claim(self, identity: Position, link: LinkId, epoch: int) -> None:
        claims = self._claims.setdefault(link, {})
        if claims.get(identity) == epoch:
            return
        # A renewed claim goes behind the older ones.
        if claims.pop(identity, None) is None:
            self.total += 1
        claims[identity] = epoch

    def _index(self, identity: Position, link: LinkId) -> None:
        self._next_hop[identity] = link
        for pattern in _patterns(identity):
            links = self._by_pattern.setdefault(pattern, {})
            links[link] = links.get(link, 0) + 1
        if identity.role == Role.WORKER:
            holder = self._by_process.setdefault(identity.process_rank, identity)
            if isinstance(holder, set):
                holder.add(identity)
            elif holder != identity:
                self._by_process[identity.process_rank] = {holder, identity}

    def _unindex(self, identity: Position, link: LinkId) -> None:
        if identity.role == Role.WORKER:
            holder = self._by_process[identity.process_rank]
            if isinstance(holder, set):
                holder.discard(identity)
            if holder in (identity, set()):
                del self._by_process[identity.process_rank]
        for pattern in _patterns(identity):
            links = self._by_pattern[pattern]
            links[link] -= 1
            if not links[link]:
                del links[link]
            if not links:
                del self._by_pattern[pattern]


def describe_missing(missing: Position) -> str:
    """The error text for a missing rank, see `Routes.missing`."""
    role, server, process = missing
    return f"there is no {role} with " + (f"processRank {process}" if server == ALL else f"serverRank {server}")


def _patterns(identity: Position) -> tuple[_Pattern, ...]:
    return ((identity.role, None), (identity.role, identity.server_rank))


def _patterns_of(dst: Destination) -> Iterable[_Pattern]:
    role = dst.position.role
    return ((role, None),) if dst.servers is None else ((role, server) for server in dst.servers)
