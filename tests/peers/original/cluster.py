"""Nodes of the original in one test, beside ours."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

from taskd_net import Node, Position
from tests.peers.original.forms import parse
from tests.peers.original.node import PATIENCE_S, OriginalNode
from tests.polling import until


class Originals:
    """The nodes of the original in one test: none may have died at its end."""

    def __init__(self) -> None:
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Originals:
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self._stack.aclose()

    async def start(
        self,
        position: str,
        upstream: Node | OriginalNode | str | None = None,
        *,
        join: bool = True,
        listen: str = "127.0.0.1:0",
    ) -> OriginalNode:
        """Start a node below a parent of either kind and, unless told otherwise, wait until messages reach it."""
        address = upstream if isinstance(upstream, str) or upstream is None else upstream.address
        node = await self._stack.enter_async_context(OriginalNode(position, address, listen))
        if join and upstream is not None:
            await node.joined()
            if not isinstance(upstream, str):
                await stands(upstream, position)
        return node


async def stands(parent: Node | OriginalNode, child: str, *, still: bool = True) -> None:
    """Wait until a child's stream stands at its parent, or has ended."""

    def up() -> bool:
        if isinstance(parent, OriginalNode):
            return parent.down is not None and parse(child) in parent.down.streams
        link = parent.driver.router.children.find(Position(*parse(child)))
        return link is not None and link.up

    await until(lambda: up() is still, PATIENCE_S)
