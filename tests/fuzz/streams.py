"""A batched stream whose other end writes any batches, a child's or a parent's: others keep their places and answers.

Bytes are batches, each behind its length in two bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

from taskd_net.base.position import Position
from taskd_net.core.frame import Ack
from taskd_net.core.links import UP
from taskd_net.core.ready import Ready
from taskd_net.net.links.batched import BatchedLink
from tests.links.pipes import FakeNode, FakePipe, frame

HOSTILE: Final = Position.worker(0, 0)
HONEST: Final = Position.worker(5, 5)


class _Strict:
    """A log that takes an exception for a finding."""

    def exception(self, event: str, **fields: object) -> None:
        raise AssertionError(f"{event} {fields}")

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


class Between(FakeNode):
    """A node between a hostile neighbour and an honest child.

    Args:
        position: of the node.
        hostile: the link of the neighbour: UP, or that of the first child.
    """

    def __init__(self, position: str, hostile: int) -> None:
        super().__init__(position)
        log: Any = _Strict()
        self.log = log
        self.hostile = hostile
        self.sent: set[str] = set()

    def perform(self, ready: Ready) -> None:
        """Carry out what the Router decided, within what a hostile neighbour may cause."""
        for message in ready.deliveries:
            assert message.dst.matches(self.router.position), "delivered to the wrong one"
            if self.hostile != UP:
                assert message.src in (HOSTILE, HONEST), "a Worker speaks for itself alone"
        if UP in ready.writes:
            assert {one.uuid for one in ready.writes[UP].frames} <= self.sent, "what came from above went up again"
        ready.announcements.clear()
        super().perform(ready)

    def child(self, position: Position) -> BatchedLink:
        """Let a child join."""
        link = self.router.register(0.0, position).link
        assert link is not None
        session = BatchedLink(self, link, position, FakePipe(), numbered=True, counts=True)
        self.links[link] = session
        self.perform(self.router.link_up(0.0, link, session, (), session.terms))
        return session

    def ask(self, uuid: str, to: str, *, sync: bool = True) -> list[Ack]:
        """Send a message of this node, which the neighbour may answer."""
        self.sent.add(uuid)
        return self.send(frame(uuid=uuid, sync=sync, src=str(self.router.position), to=to))


def _batches(data: bytes) -> Iterator[bytes]:
    while data:
        end = 2 + int.from_bytes(data[:2])
        yield data[2:end]
        data = data[end:]


def _take_in(session: BatchedLink, data: bytes) -> None:
    session._take_in(data)
    while session._rest:
        session._take_in_rest()


async def ask_and_answer(node: Between, honest: BatchedLink, arrive: Callable[[], Awaitable[None]]) -> None:
    """Let the hostile neighbour write while messages to it are under way, and see that the others are served."""
    asked = [node.ask("one", str(HOSTILE)), node.ask("all", "Worker/All/All")]
    asked.append(node.ask("post", str(HOSTILE), sync=False))
    message = frame(uuid="through", src=str(HONEST), to=str(HOSTILE))
    node.sent.add("through")
    node.perform(node.router.messages_arrived(0.0, honest.link, [message], [1], [3.0]))
    await arrive()
    assert all(len(answers) <= 1 for answers in asked), "answered twice"
    link = node.router.children.find(HONEST)
    assert link is not None and link.session is honest, "a living node has lost its place"
    before = len(node.delivered)
    node.perform(node.router.inbox_taken(0.0, node.router.gate.held))
    own = frame(uuid="own", src=str(HONEST), to=str(node.router.position))
    node.perform(node.router.messages_arrived(0.0, honest.link, [own], [2], [3.0]))
    assert "own" in node.delivered[before:] or node.router.gate.line, "an honest child is not served"


async def _play(node: Between, session: BatchedLink, honest: BatchedLink, data: bytes) -> None:
    async def arrive() -> None:
        for batch in _batches(data):
            if not session.alive:
                break
            _take_in(session, batch)

    await ask_and_answer(node, honest, arrive)


def from_child(data: bytes) -> None:
    """A Mgr, and a Worker that writes these batches."""

    async def play() -> None:
        node = Between("Mgr", 1)
        session, honest = node.child(HOSTILE), node.child(HONEST)
        assert session.link == node.hostile
        await _play(node, session, honest, data)

    asyncio.run(play())


def from_parent(data: bytes) -> None:
    """A Proxy, and a Mgr that writes these batches."""

    async def play() -> None:
        node = Between("Proxy/0", UP)
        honest = node.child(HONEST)
        session = BatchedLink(node, UP, Position.mgr(), FakePipe(), numbered=True, counts=True)
        node.links[UP] = session
        node.perform(node.router.upstream_up(0.0, session, Position.mgr(), told=True, terms=session.terms))
        await _play(node, session, honest, data)

    asyncio.run(play())
