"""The routing table: which link leads to which node below.

Beside the exact table it keeps, for each link, how many nodes it leads to by role and by (role, serverRank), and for
each global rank the Workers that have it, so that the links of a broadcast are found without walking the nodes.

Two links may claim one node: it moved, and where it was before nobody has noticed yet, or a stale announcement came
late. The newest claim is the route; those it replaced are kept until they are taken back, so that the route is right
again as soon as the last wrong claim is gone.
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
    """Position → link, with the indexes that broadcasts need. Positions are identities (`Position.identity`)."""

    __slots__ = ("_by_link", "_by_pattern", "_by_process", "_claims", "_epoch", "_next_hop", "_replaced", "next_hop")

    def __init__(self) -> None:
        self._next_hop: dict[Position, LinkId] = {}
        # The link to a node, or None where the table does not know it. The dict's own method, not one around it: it is
        # called twice for each message.
        self.next_hop: Callable[[Position], LinkId | None] = self._next_hop.get
        self._epoch: dict[Position, int] = {}
        # Link and epoch of older claims, the oldest first; empty but for nodes that have moved.
        self._replaced: dict[Position, dict[LinkId, int]] = {}
        self._by_link: dict[LinkId, set[Position]] = {}
        self._by_pattern: dict[_Pattern, dict[LinkId, int]] = {}
        self._by_process: dict[str, set[Position]] = {}
        # How many nodes each link claims to lead to, whether it is the route or not.
        self._claims: Counter[LinkId] = Counter()

    def __len__(self) -> int:
        return len(self._next_hop)

    def __contains__(self, identity: Position) -> bool:
        return identity in self._next_hop

    def __iter__(self) -> Iterator[Position]:
        return iter(self._next_hop)

    def items(self) -> Iterable[tuple[Position, LinkId]]:
        """Every known node below, with the link that leads to it."""
        return self._next_hop.items()

    def behind(self, link: LinkId) -> frozenset[Position]:
        """The nodes that a link leads to."""
        return frozenset(self._by_link.get(link, ()))

    def claims(self, identity: Position, link: LinkId) -> bool:
        """Whether a link claims to lead to a node, be it the route or not."""
        return self._next_hop.get(identity) == link or link in self._replaced.get(identity, ())

    def learn_behind(self, identity: Position, link: LinkId, epoch: int) -> None:
        """Note a claim that replaces nothing: it counts when the newer ones are taken back."""
        if self._next_hop.get(identity) in (None, link):
            self.learn(identity, link, epoch)
        else:
            claims = self._replaced.setdefault(identity, {})
            if claims.pop(link, None) is None:
                self._claims[link] += 1
            self._replaced[identity] = {link: epoch, **claims}

    def yield_to_others(self, identity: Position, link: LinkId) -> None:
        """Let the next older claim take the place of a link's, which becomes the oldest. Nothing without one."""
        if self._next_hop.get(identity) == link and identity in self._replaced:
            epoch = self._epoch[identity]
            self.drop(identity, link)
            self.learn_behind(identity, link, epoch)

    def learn(self, identity: Position, link: LinkId, epoch: int) -> None:
        """Set the next hop to a node; a route through another link is replaced (contract, section 3)."""
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
        """Take back a link's claim to lead to a node. Returns whether the node is unknown by that."""
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
        """Take back every claim of a link, and say which nodes are unknown by that."""
        return [identity for identity in self._claimed(link) if self.drop(identity, link)]

    def drop_older(self, link: LinkId, epoch: int) -> list[Position]:
        """The same for what was last announced before `epoch` of that link."""
        claims = self._claimed(link).items()
        return [identity for identity, since in claims if since < epoch and self.drop(identity, link)]

    def links_for(self, dst: Destination) -> set[LinkId]:
        """The links behind which at least one receiver of a broadcast or multicast lies."""
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
        """The first rank that a list names and nobody has, the other one `All`; None when every rank has somebody.

        `present` are nodes that exist although the table does not hold them (this node, the sender).
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

    def check(self) -> None:
        """Assert that every index agrees with the table. For tests."""
        expected: dict[_Pattern, dict[LinkId, int]] = {}
        for identity, link in self._next_hop.items():
            assert identity in self._by_link[link]
            for pattern in _patterns(identity):
                links = expected.setdefault(pattern, {})
                links[link] = links.get(link, 0) + 1
        assert expected == self._by_pattern
        workers = [identity for identity in self._next_hop if identity.role == Role.WORKER]
        assert sum(map(len, self._by_process.values())) == len(workers)
        assert all(identity in self._by_process[identity.process_rank] for identity in workers)
        assert sum(map(len, self._by_link.values())) == len(self._next_hop) == len(self._epoch)
        for identity, claims in self._replaced.items():
            assert claims and self._next_hop[identity] not in claims
        counted = Counter(self._next_hop.values())
        for claims in self._replaced.values():
            counted.update(claims.keys())
        assert counted == self._claims

    def _with_process(self, dst: Destination) -> Iterator[Position]:
        # Two lists name a product of ranks of which only a few exist (a rank lives on one node): walk the ranks, not
        # the product.
        for process in dst.processes or ():
            for identity in self._by_process.get(process, ()):
                if dst.servers is None or identity.server_rank in dst.servers:
                    yield identity

    def _claimed(self, link: LinkId) -> dict[Position, int]:
        """The claims of a link with their epochs, whether they are the route or not."""
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
    """Words for people: the rank that nobody has, see `Routes.missing`."""
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
