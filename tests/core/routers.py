"""Builders of Routers and messages for the core's tests, and readers of decisions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from taskd_net.base.position import Destination, Position
from taskd_net.core.acks import Pending
from taskd_net.core.frame import Ack, Frame
from taskd_net.core.identity import Credentials
from taskd_net.core.links import Link
from taskd_net.core.ready import Joined, Kind, ReportViolation
from taskd_net.core.router import RouterConfig
from taskd_net.core.routes import LinkId
from tests.core.driven import Action, Answer, Driven, Forward

STRANGER: Final = 99
"""A child's link that was forgotten before its last message was looked at."""


def at(text: str) -> Position:
    """A position, from its text."""
    return Position.parse(text)


def everybody(*texts: str) -> list[Position]:
    """Several positions, from their texts."""
    return [at(text) for text in texts]


def frame(to: str, src: str = "Mgr", *, uuid: str = "u", sync: bool = True, size: int = 10) -> Frame:
    """A message; of its bytes only the number matters to a Router."""
    return Frame(uuid, sync, at(src), Destination.of(at(to)), bytes(size))


def pending(uuid: str = "u", src: str = "Mgr", *, sync: bool = True, deadline: float = 1.0) -> Pending:
    """A unicast whose answer somebody awaits."""
    return Pending(uuid, 1, at(src), sync, None, deadline)


class Caller:
    """Somebody who awaits an answer. The Driven says who is to be answered; it never does so itself."""

    def __init__(self, name: str = "caller") -> None:
        self.name = name

    def __call__(self, ack: Ack) -> None:
        raise AssertionError("the core only decides")

    def __repr__(self) -> str:
        return self.name


def router(position: str, **settings: float) -> Driven:
    """A node that has not joined yet; settings are those of `RouterConfig`."""
    config = RouterConfig(**settings)  # type: ignore[arg-type]
    return Driven(at(position), upstream=at(position).role != "Mgr", config=config)


def add_child(parent: Driven, position: str, *behind: str, now: float = 0.0) -> Link:
    """Let a child join, with these nodes behind it. Its session is its position's text."""
    link = parent.register(now, at(position))
    assert parent.link_up(now, link, position) == []
    if behind:
        parent.announced(now, link, Kind.ADD, everybody(*behind), Caller(), "announces")
        parent.announce_answered("up", 0, at("Mgr"))
    return link


def stand(
    node: Driven,
    parent: str = "Mgr",
    *,
    now: float = 0.0,
    depth: int = 1,
    withdraws: bool = True,
    told: bool | None = True,
) -> list[Action]:
    """Let the stream to the parent stand. The session is called `up`."""
    return node.upstream_up(now, "up", at(parent), depth, withdraws, told=told)


def join(
    node: Driven,
    parent: str = "Mgr",
    *,
    now: float = 0.0,
    depth: int = 1,
    withdraws: bool = True,
    told: bool | None = True,
) -> list[Action]:
    """Let a node join its parent, which has joined and takes its announcement. Returns what is done beside that."""
    actions = stand(node, parent, now=now, depth=depth, withdraws=withdraws, told=told)
    node.announce_all(Caller(), "announces")
    assert Joined(True) in node.announce_answered("up", 0, at(parent))
    return actions + node.tick(now)


def joined(position: str, parent: str = "Mgr", *, depth: int = 1, told: bool | None = True, **settings: Any) -> Driven:
    """A node below the Mgr that has joined."""
    node = router(position, **settings)
    assert join(node, parent, depth=depth, told=told) == []
    return node


def answers(actions: Sequence[Action]) -> list[tuple[int, str]]:
    """Code and src of every answer among the actions; all of them have to be answers."""
    acks = [action.ack for action in actions if isinstance(action, Answer)]
    assert len(acks) == len(actions), actions
    return [(int(ack.code), str(ack.src)) for ack in acks]


def hops(actions: Sequence[Action]) -> list[LinkId]:
    """The links that a message goes out on; nothing else may happen."""
    links = [action.link for action in actions if isinstance(action, Forward)]
    assert len(links) == len(actions), actions
    return links


def child_from(node: Driven, position: str, credentials: Credentials, *behind: str) -> Link:
    """Let a child join with these credentials, with these nodes behind it."""
    link = node.register(0.0, at(position), None, credentials)
    node.link_up(0.0, link, position)
    if behind:
        node.announced(0.0, link, Kind.ADD, everybody(*behind), Caller(), "announces")
    return link


def accused(actions: list[Action]) -> list[tuple[str, int]]:
    """The reported peers among the actions, with the code."""
    return [(action.peer, action.refusal.code) for action in actions if isinstance(action, ReportViolation)]


def answered(actions: list[Action]) -> list[int]:
    """The codes that are answered."""
    return [action.ack.code for action in actions if isinstance(action, Answer)]
