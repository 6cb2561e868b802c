"""The size of a job, and the positions that it makes expected."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final, Self

from taskd_net.base.codes import ConfigError
from taskd_net.base.position import Position, Role
from taskd_net.base.untrusted import shown

_SIZE: Final = re.compile(r"([1-9][0-9]{0,5})x([0-9]{1,4})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Expected:
    """A job of a number of nodes, each with a number of training processes: `4x8`.

    Node n has Proxy n and the Workers n·processes to (n+1)·processes - 1.
    """

    nodes: int
    processes: int

    @classmethod
    def parse(cls, text: object, field: str = "expect") -> Self:
        """Read `4x8`.

        Raises:
            ConfigError: the text is of another form.
        """
        found = _SIZE.fullmatch(text.strip()) if isinstance(text, str) else None
        if found is None:
            raise ConfigError(f"{field} is {shown(text)}; expected nodes x processes per node, e.g. 4x8")
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.nodes}x{self.processes}"

    def positions(self, present: Collection[Position], below: Position) -> Iterator[Position]:
        """The expected positions, in order, without the Mgr; docs/status.md says which.

        Args:
            present: the ranks of the job that are or were there; tools and services are none.
            below: the node that asks. A Proxy expects its own node alone.
        """
        workers = {position.process_rank: position for position in present if position.role == Role.WORKER}
        agents = {position.server_rank for position in present if position.role == Role.AGENT}
        for node in range(self.nodes):
            if below.role == Role.PROXY and below.server_rank != str(node):
                continue
            yield Position.proxy(node)
            if str(node) in agents:
                yield Position.agent(node)
            # Training processes are no part of the mesh where Agents are there and no Worker ever was.
            ranks = range(node * self.processes, (node + 1) * self.processes) if workers or not agents else ()
            for rank in ranks:
                yield workers.get(str(rank)) or Position.worker(node, rank)
