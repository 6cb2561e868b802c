"""Neighbours with quirks for the core's tests, and readers of what goes to them."""

from __future__ import annotations

from collections.abc import Sequence

from taskd_net.base.position import Position
from taskd_net.core.frame import Frame
from taskd_net.core.links import UP, Link
from taskd_net.core.quirks import Quirks
from taskd_net.core.ready import Kind
from tests.core.driven import Action, Answer, Driven, Forward
from tests.core.routers import Caller, at, router

PROXY = Quirks(largest=100, reads_lists=False, acks_broadcasts=False, turn=4.0, announces_again=False)
LEAF = Quirks(largest=100, reads_lists=False)
PARENT = Quirks(reads_lists=False, acks_broadcasts=False, acks_lists=False, repeats=True, announce_positions=3)


def add_odd_child(parent: Driven, position: Position, *behind: Position, quirks: Quirks = PROXY) -> Link:
    """Let a child with quirks of its own join, with these nodes behind it."""
    link = parent.register(0.0, position, quirks)
    assert parent.link_up(0.0, link, str(position)) == []
    if behind:
        parent.announced(0.0, link, Kind.ADD, behind, Caller(), "a")
    return link


def below_an_odd_parent(position: str) -> Driven:
    """A node that has joined a parent with quirks."""
    node = router(position)
    assert node.upstream_up(0.0, "up", at("Mgr"), quirks=PARENT) == []
    node.announce_all(Caller(), "announces")
    node.announce_answered("up", 0, at("Mgr"))
    return node


def forwards(actions: Sequence[Action]) -> list[Forward]:
    """The forwarded frames; there must be no other actions."""
    found = [action for action in actions if isinstance(action, Forward)]
    assert len(found) == len(actions), actions
    return found


def receivers(actions: Sequence[Action]) -> list[int | None]:
    """The receiver counts of the answers among the actions."""
    return [action.ack.receivers for action in actions if isinstance(action, Answer)]


def sent(actions: Sequence[Action]) -> list[tuple[str, bool, float]]:
    """The forwarded frames: destination, sync, and timeout."""
    return [(str(each.frame.dst), each.frame.sync, each.patience) for each in forwards(actions)]


def went_up(actions: Sequence[Action]) -> list[Frame]:
    """The frames among the actions that go to the parent."""
    return [action.frame for action in actions if isinstance(action, Forward) and action.link == UP]
