"""The routing table: the link to each node below.

Two indexes find the links of a broadcast without a walk over the nodes. One counts the nodes behind each link by role
and by (role, serverRank). The other lists the Workers of each global rank.

Two links may claim the same node: it has moved and the old parent has not noticed, or an announcement was late. The
newest claim is the route. Older claims are kept until they are withdrawn, so that the route recovers when the wrong
claim goes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias, TypeVar

from taskd_net.position import ALL, NO_PROCESS, Destination, Position, Role

LinkId: TypeAlias = int
_Pattern: TypeAlias = tuple[str, str | None]
_Key = TypeVar("_Key")


class Routes:
    """Map from position to link, with the indexes for broadcasts. Positions are identities (`Position.identity`)."""

    def __init__(self) -> None:
        self._next_hop: dict[Position, LinkId] = {}
        # The link to a node; None without a route. Bound to the dict's own method, because each message calls it twice.
        self.next_hop: Callable[[Position], LinkId | None] = self._next_hop.get
        self._epoch: dict[Position, int] = {}
        # Link and epoch of older claims, oldest first. Only nodes that have moved have some.
        self._replaced: dict[Position, dict[LinkId, int]] = {}
        self._by_link: dict[LinkId, set[Position]] = {}
        self._by_pattern: dict[_Pattern, dict[LinkId, int]] = {}
        self._by_process: dict[str, set[Position]] = {}
        # The number of nodes that each link claims, as the route or not.
        self._claims: Counter[LinkId] = Counter()

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
        return frozenset(self._by_link.get(link, ()))

    def claims(self, identity: Position, link: LinkId) -> bool:
        """Whether a link claims a node, as the route or not."""
        return self._next_hop.get(identity) == link or link in self._replaced.get(identity, ())

    def learn_behind(self, identity: Position, link: LinkId, epoch: int) -> None:
        """Record a claim behind the existing ones. It becomes the route when the newer ones are withdrawn."""
        if self._next_hop.get(identity) in (None, link):
            self.learn(identity, link, epoch)
        else:
            claims = self._replaced.setdefault(identity, {})
            if claims.pop(link, None) is None:
                self._claims[link] += 1
            self._replaced[identity] = {link: epoch, **claims}

    def yield_to_others(self, identity: Position, link: LinkId) -> None:
        """Make the next older claim the route and this link's the oldest. No effect without another claim."""
        if self._next_hop.get(identity) == link and identity in self._replaced:
            epoch = self._epoch[identity]
            self.drop(identity, link)
            self.learn_behind(identity, link, epoch)

    def learn(self, identity: Position, link: LinkId, epoch: int) -> None:
        """Set the next hop to a node, in place of any older route (contract, section 3)."""
        old = self._next_hop.get(identity)
        if old != link:
            known = None
            if old is not None:
                claims = self._replaced.setdefault(identity, {})
                known = claims.pop(link, None)
                claims[old] = self._epoch[identity]
                self._unindex(identity, old)
            if known is None:
                self._claims[link] += 1
            self._index(identity, link)
        self._epoch[identity] = epoch

    def drop(self, identity: Position, link: LinkId) -> bool:
        """Withdraw a link's claim to a node. Returns whether the node lost its last route."""
        claims = self._replaced.get(identity, {})
        if self._next_hop.get(identity) != link:
            if claims.pop(link, None) is not None:
                self._unclaim(link)
            gone = False
        else:
            self._unclaim(link)
            self._unindex(identity, link)
            gone = not claims
            if gone:
                del self._next_hop[identity], self._epoch[identity]
            else:
                newest, self._epoch[identity] = claims.popitem()
                self._index(identity, newest)
        if not claims:
            self._replaced.pop(identity, None)
        return gone

    def claimed(self, link: LinkId) -> int:
        """The number of nodes that a link claims."""
        return self._claims[link]

    def drop_link(self, link: LinkId) -> list[Position]:
        """Withdraw every claim of a link. Returns the nodes that lost their last route."""
        return [identity for identity in self._claimed(link) if self.drop(identity, link)]

    def drop_older(self, link: LinkId, epoch: int) -> list[Position]:
        """Withdraw the claims of a link that are older than `epoch`. Returns as `drop_link` does."""
        claims = self._claimed(link).items()
        return [identity for identity, since in claims if since < epoch and self.drop(identity, link)]

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
            holders = [*self._by_process.get(process, ()), *(node for node in known if node.process_rank == process)]
            if not any(dst.servers is None or node.server_rank in dst.servers for node in holders):
                return Position(role, ALL, process)
        return None

    def _with_process(self, dst: Destination) -> Iterator[Position]:
        # The product of two lists is mostly empty, because a global rank lives on one node. So this walks the ranks.
        for process in dst.processes or ():
            for identity in self._by_process.get(process, ()):
                if dst.servers is None or identity.server_rank in dst.servers:
                    yield identity

    def _claimed(self, link: LinkId) -> dict[Position, int]:
        """The claims of a link with their epochs, as routes or not."""
        claimed = {identity: self._epoch[identity] for identity in self._by_link.get(link, ())}
        return claimed | {identity: claims[link] for identity, claims in self._replaced.items() if link in claims}

    def _unclaim(self, link: LinkId) -> None:
        self._claims[link] -= 1
        if not self._claims[link]:
            del self._claims[link]

    def _index(self, identity: Position, link: LinkId) -> None:
        self._next_hop[identity] = link
        self._by_link.setdefault(link, set()).add(identity)
        for pattern in _patterns(identity):
            links = self._by_pattern.setdefault(pattern, {})
            links[link] = links.get(link, 0) + 1
        if identity.role == Role.WORKER:
            self._by_process.setdefault(identity.process_rank, set()).add(identity)

    def _unindex(self, identity: Position, link: LinkId) -> None:
        _remove(self._by_link, link, identity)
        if identity.role == Role.WORKER:
            _remove(self._by_process, identity.process_rank, identity)
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


def _remove(index: dict[_Key, set[Position]], key: _Key, identity: Position) -> None:
    members = index[key]
    members.discard(identity)
    if not members:
        del index[key]


def _patterns(identity: Position) -> tuple[_Pattern, ...]:
    return ((identity.role, None), (identity.role, identity.server_rank))


def _patterns_of(dst: Destination) -> Iterable[_Pattern]:
    role = dst.position.role
    return ((role, None),) if dst.servers is None else ((role, server) for server in dst.servers)
