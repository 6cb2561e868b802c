"""Nodes as users have them, with all defaults, many in a process: the members of a whole job that joins at once."""

from __future__ import annotations

import asyncio
from typing import Any

from benchmarks.systems.member import Member, Spec
from taskd_net import Node, NodeConfig, Position, Role
from taskd_net.cli.memory import keep_freed_memory
from taskd_net.net.joining.connecting import Connector
from taskd_net.net.links.kind import Failed

JOIN_S = 300.0
"""Seconds for all to join, and for all to notice a loss."""


class CrowdMember(Member):
    """Many nodes on one event loop, which join when they are asked to, or a single one that joins at once."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        positions = [Position.parse(position) for position in spec["positions"]]
        self._is_leaf = Role(positions[0].role).is_leaf
        if not self._is_leaf:
            # As a daemon of these roles.
            keep_freed_memory()
        listen = None if self._is_leaf else spec["listen"] or "127.0.0.1:0"
        # The parent of Worker/3/7 is the fourth of several.
        parents = spec["upstream"].split(",")
        self._nodes = [
            Node(
                NodeConfig(
                    position=position, listen=listen, upstream=parents[int(position.server_rank) % len(parents)] or None
                )
            )
            for position in positions
        ]
        self._begun = False
        self._registers = 0

    async def start(self) -> str:
        """Start a parent; Workers start when they are asked to join."""
        if self._is_leaf:
            self._count_registers()
            return ""
        await self._begin()
        return self._nodes[0].address or ""

    async def ready(self) -> None:
        """Wait until every node has joined."""
        await asyncio.gather(*(node.joined(JOIN_S) for node in self._nodes))

    async def answer(self, request: dict[str, object]) -> object:
        """Join, notice a loss, and count."""
        match request:
            case {"do": "join"}:
                await self._begin()
                await self.ready()
                return None
            case {"do": "lost"}:
                async with asyncio.timeout(JOIN_S):
                    while any(node.is_joined for node in self._nodes):  # noqa: ASYNC110 - a loss has no event
                        await asyncio.sleep(0.01)
                return None
            case {"do": "registers"}:
                return self._registers
            case {"do": "routes"}:
                return len(self._nodes[0].routes())
        return await super().answer(request)

    async def close(self) -> None:
        """Close the nodes."""
        if self._begun:
            await asyncio.gather(*(node.close() for node in self._nodes))

    async def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            await asyncio.gather(*(node.start() for node in self._nodes))

    def _count_registers(self) -> None:
        register = Connector.register

        async def counted(connector: Connector, *arguments: Any) -> Any:
            self._registers += 1
            try:
                return await register(connector, *arguments)
            except Failed as failed:
                if "nobody listens" in str(failed):
                    self._registers -= 1
                raise

        Connector.register = counted  # type: ignore[assignment, method-assign]
