"""Ranks of nodes: given in the order of arrival to launchers that have none, and claimed by the others.

A launcher asks before its Agent joins, and holds its place in the mesh as a tool for as long as it lives. So a rank is
free again at the moment at which its launcher ends, and a host that returns gets its old one. Of two launchers with one
rank the first stays, while it answers: their Agents would push each other out of the mesh without end.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Holder:
    """A launcher that has a rank, or asks for one.

    Args:
        host: name of its host.
        key: a text of its own, the same in each of its requests.
        position: its place in the mesh.
        pid: of the launcher.
        rank: that it has; None where it has none.
        nodes: number of nodes that it was started for; 0 where it does not say it.
    """

    host: str = ""
    key: str = ""
    position: str = ""
    pid: int = 0
    rank: int | None = None
    nodes: int = 0


@dataclass(slots=True)
class NodeRanks:
    """The ranks that were given.

    Args:
        holders: the last launcher that each was given to.
        asking: launchers that wait for an answer.
        held: positions of launchers that are in the mesh, at the last request.
    """

    holders: dict[int, Holder] = field(default_factory=dict)
    asking: list[Holder] = field(default_factory=list)
    held: list[str] = field(default_factory=list)

    def ask(self, asker: Holder, held: Collection[str]) -> None:
        """Take a request in; a repeated one counts once."""
        self.held = sorted(held)
        self.asking = [each for each in self.asking if each.key != asker.key] + [asker]

    def give(self, asker: Holder, nodes: int, joined: Collection[int]) -> int | str:
        """Answer a request: a launcher keeps its rank; a host gets the lowest of its own back; then the lowest that was
        never given; then the lowest whose launcher is gone. Of two launchers with one rank the first stays.

        Args:
            asker: who asks.
            nodes: size of the job.
            joined: nodes with an Agent whose rank was not given here.

        Returns:
            The rank, or the reason why there is none.
        """
        if asker.nodes not in (0, nodes):
            return f"this node was started for {asker.nodes} nodes, and the Manager for {nodes}"
        if asker.rank is not None:
            if asker.rank >= nodes:
                return f"this node has the rank {asker.rank}; expected 0 to {nodes - 1}, as the job has {nodes} nodes"
            return self._claim(asker.rank, asker)
        ranks = range(nodes)
        own = (rank for rank in ranks if rank in self.holders and self.holders[rank].key == asker.key)
        free = [rank for rank in ranks if not self._is_taken(rank, joined)]
        old = (rank for rank in free if rank in self.holders and self.holders[rank].host == asker.host)
        fresh = (rank for rank in free if rank not in self.holders)
        for found in (own, old, fresh, iter(free)):
            if (rank := next(found, None)) is not None:
                self.holders[rank] = asker
                self.held.append(asker.position)
                return rank
        held = (f"{self.holders[rank].host} ({rank})" if rank in self.holders else f"rank {rank}" for rank in ranks)
        return f"all {nodes} ranks are taken, by {', '.join(held)}"

    def _claim(self, rank: int, asker: Holder) -> int | str:
        holder = self.holders.get(rank, asker)
        if holder.key != asker.key and holder.position in self.held:
            return f"node {rank} of this job is run by {holder.host}, pid {holder.pid}"
        self.holders[rank] = asker
        self.held.append(asker.position)
        return rank

    def _is_taken(self, rank: int, joined: Collection[int]) -> bool:
        holder = self.holders.get(rank)
        return rank in joined if holder is None else holder.position in self.held
