"""A node's state of the mesh, and waiting for a condition on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from taskd_net import Node
from taskd_net.observe.document import Document, by_position, document
from tests.peers.mesh import PATIENCE_S, WatchedNode


def seen(node: Node) -> dict[str, Document]:
    """The nodes known to a node, by position."""
    return dict(by_position(document(node.mesh())))


def states(node: Node) -> dict[str, str]:
    """Their states."""
    return {position: known["state"] for position, known in seen(node).items()}


async def until(node: WatchedNode, true: Callable[[dict[str, Document]], Any]) -> dict[str, Document]:
    """Wait until a node's state of the mesh fulfils a condition, checked at each change."""
    news, view = asyncio.Event(), node.driver.view
    told, changed = view.told, view.news.set

    def hear(*arguments: Any) -> None:
        told(*arguments)
        news.set()

    def note() -> None:
        changed()
        news.set()

    view.told, view.news.set = hear, note  # type: ignore[assignment, method-assign]
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not true(now := seen(node)):
                news.clear()
                await news.wait()
            return now
    except TimeoutError:
        raise AssertionError(seen(node)) from None
    finally:
        view.told, view.news.set = told, changed  # type: ignore[method-assign]


async def until_joined(node: WatchedNode, position: str) -> dict[str, Document]:
    """Wait until a node knows that another one has joined.

    To be known is less: a registered node is known as lost until its stream stands.
    """
    return await until(node, lambda now: now.get(position, {}).get("state") == "joined")


def forget_children(node: Node) -> None:
    """End the grace time of all children without a stream."""
    for link in node.driver.router.children.by_id.values():
        if not link.up:
            link.expires = 0.0
    node.driver.perform(node.driver.router.tick(node.driver.now() + 3600))
