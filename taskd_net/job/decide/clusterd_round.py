"""Commands of one fault's round: ClusterD's signals of a round share a uuid, and name the same nodes again.

globalFault and changeStrategy both say to end or restart the faulty processes. Under a uuid of its own the second
command would end a pod that has come back, or a process that has just been restarted.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from taskd_net.base import vocabulary
from taskd_net.job.decide.traffic import Command


@dataclass(slots=True)
class ClusterdRound:
    """The nodes and ranks that commands of the last round have named.

    Args:
        uuid: of the round's signals; empty before the first round.
        exited: nodes whose Agent was sent 203.
        restarted: ranks that were named in 209s, by node.
    """

    uuid: str = ""
    exited: set[int] = field(default_factory=set)
    restarted: dict[int, list[int]] = field(default_factory=dict)

    def take(self, uuid: str, node: int, command: Command) -> None:
        """A command to a node's Agent was decided on, under this uuid."""
        if uuid != self.uuid:
            self.uuid, self.exited, self.restarted = uuid, set(), {}
        if command.code == vocabulary.EXIT:
            self.exited.add(node)
        elif command.code == vocabulary.RESTART_RANKS:
            self.restarted[node] = sorted({*self.restarted.get(node, ()), *command.ranks})

    def has_exited(self, uuid: str, node: int) -> bool:
        """True where the round with this uuid has sent 203 to a node."""
        return bool(uuid) and uuid == self.uuid and node in self.exited

    def has_restarted(self, uuid: str, node: int) -> list[int]:
        """Ranks that the round with this uuid has restarted on a node."""
        return self.restarted.get(node, []) if uuid and uuid == self.uuid else []
