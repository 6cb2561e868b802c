"""The Router of this checkout, or of an older one, driven by the benchmarks that compare the two.

An older Router has other entrances; a benchmark that runs against it (`--against TREE`) asks here.
"""

from __future__ import annotations

from inspect import signature
from typing import Any

from taskd_net import Node, Position
from taskd_net.core.links import UP

try:
    from taskd_net.net.links.batched import BatchedLink
except ModuleNotFoundError:  # an older checkout
    from taskd_net.net.joining.batched import BatchedLink  # type: ignore[import-not-found, no-redef]

try:
    from taskd_net.core.ready import Kind
except ModuleNotFoundError:
    from taskd_net.core.announcer import Kind  # type: ignore[import-not-found, no-redef]

LINK: Any = BatchedLink
"""The batched link of the checkout."""

NEW = hasattr(BatchedLink, "write")
"""True if events and answers are data in this checkout."""

BY_NUMBER = "numbered" in signature(BatchedLink.__init__).parameters
"""True if messages are answered by number."""


def driver(node: Node) -> Any:
    """The shell around a node's Router: in an older checkout the node itself."""
    return getattr(node, "driver", node)


def batched_link(node: Node, link: int, peer: Position, pipe: Any, make: Any = LINK) -> Any:
    """A batched link between two nodes of one checkout."""
    options = {"numbered": True} if BY_NUMBER else {}
    session = make(driver(node), link, peer, pipe, **options)
    session._counts = True  # as between two nodes of one version
    return session


def add_child(parent: Node, child: Position) -> int:
    """Register a child. Returns its link."""
    made: Any = driver(parent).router.register(0.0, child)
    number = made.link if NEW else made.id
    assert isinstance(number, int)
    return number


def child_up(parent: Node, link: int, session: Any) -> None:
    """Let the stream of a child stand."""
    router: Any = driver(parent).router
    driver(parent).links[link] = session
    if NEW:
        driver(parent).perform(router.link_up(0.0, link, session, (), session.terms))
    else:
        options = {"numbered": True} if BY_NUMBER else {}
        driver(parent).perform(router.link_up(0.0, router.children.by_id[link], session, **options))


def parent_up(child: Node, session: Any, parent: Position, depth: int = 1) -> None:
    """Let the stream to a parent stand, that has joined."""
    router: Any = driver(child).router
    driver(child).links[UP] = session
    if NEW:
        driver(child).perform(router.upstream_up(0.0, session, parent, depth, True, None, True, session.terms))
        return
    known = signature(router.upstream_up).parameters
    options = {name: True for name in ("numbered", "told") if name in known}
    driver(child).perform(router.upstream_up(0.0, session, parent, depth, True, **options))


def announce(parent: Node, link: int, positions: list[Position]) -> None:
    """Let a child announce positions; nobody above is told."""
    router: Any = driver(parent).router
    if NEW:
        router.announced(0.0, link, Kind.ADD, positions, driver(parent).request(lambda _: None), "a")
    else:
        router.announced(0.0, router.children.by_id[link], Kind.ADD, positions, lambda _: None, "a")


def announce_itself(child: Node, session: Any, parent: Position) -> None:
    """Let a node announce itself, and its parent accept that."""
    router: Any = driver(child).router
    router.announce_all(driver(child).request(lambda _: None) if NEW else lambda _: None, "a")
    driver(child).perform(router.announce_answered(session, 0, parent))
