"""Messages of children that take any answer for a delivery: a node without a way to the Mgr tries in their place."""

from __future__ import annotations

from typing import Any

import pytest

from taskd_net.base.codes import Code
from taskd_net.core import router as core_router
from taskd_net.core.links import UP
from taskd_net.core.quirks import Quirks
from taskd_net.core.ready import Joined
from tests.core.driven import Action, Answer, Driven, Forward
from tests.core.odd import add_odd_child
from tests.core.routers import Caller, add_child, at, frame, joined, stand

LEAF = Quirks(takes_any_answer=True)
NOT_JOINED = Code.NET_STREAM_NOT_INITED


def proxy(**settings: Any) -> tuple[Driven, int]:
    """A Proxy that has joined, with an Agent of the original's; and the Agent's link."""
    node = joined("Proxy/0", **settings)
    link = add_odd_child(node, at("Agent/0"), at("Agent/0"), quirks=LEAF)
    node.announce_answered("up", 0, at("Mgr"))
    return node, link.id


def calls(
    node: Driven, link: int, caller: Caller, *, to: str = "Mgr", now: float = 1.0, uuid: str = "u"
) -> list[Action]:
    return node.call_arrived(now, link, frame(to, "Agent/0", uuid=uuid), caller, None)


def seen(actions: list[Action]) -> list[str]:
    """Messages that leave, and codes of answers."""
    texts = []
    for action in actions:
        if isinstance(action, Forward):
            texts.append(f"to {action.link}")
        elif isinstance(action, Answer):
            texts.append(str(action.ack.code))
        else:
            assert isinstance(action, Joined), action
    return texts


def test_call_is_answered_at_once_while_there_is_a_way() -> None:
    node, link = proxy()
    caller = Caller()
    assert seen(calls(node, link, caller)) == [f"to {UP}"]
    assert seen(node.ack_arrived(1.1, UP, "u", 0, at("Mgr"))) == ["0"]


def test_call_without_a_way_waits_for_the_parent() -> None:
    node, link = proxy()
    node.upstream_down(1.0, "up", [])
    assert calls(node, link, Caller()) == []
    assert seen(stand(node, now=3.0)) == [f"to {UP}"]
    assert seen(node.ack_arrived(3.1, UP, "u", 0, at("Mgr"))) == ["0"]
    assert node.tick(20.0) == []


def test_call_is_repeated_while_the_parent_has_no_way() -> None:
    node, link = proxy()
    node.parent_told(1.0, False)
    assert seen(calls(node, link, Caller())) == [f"to {UP}"]
    assert seen(node.ack_arrived(1.1, UP, "u", NOT_JOINED, at("Proxy/9"))) == []
    assert f"to {UP}" in seen(node.parent_told(2.0, True))
    assert seen(node.ack_arrived(2.1, UP, "u", 0, at("Mgr"))) == ["0"]


def test_call_ends_with_6002_after_eight_seconds() -> None:
    node, link = proxy()
    node.upstream_down(1.0, "up", [])
    assert calls(node, link, Caller()) == []
    assert node.tick(1.0 + core_router.ORIGINAL_CALL_S - 0.1) == []
    (answer,) = node.tick(1.0 + core_router.ORIGINAL_CALL_S)
    assert isinstance(answer, Answer)
    assert (answer.ack.code, answer.ack.detail) == (NOT_JOINED, "not joined within the timeout")


def test_calls_that_wait_are_bounded() -> None:
    node, link = proxy(link_messages=2)
    node.upstream_down(1.0, "up", [])
    answers = [seen(calls(node, link, Caller(str(number)), uuid=str(number))) for number in range(3)]
    assert answers == [[], [], [str(int(Code.RECV_BUF_BUSY))]]


@pytest.mark.parametrize(("to", "sync"), [("Agent/9", True), ("Mgr", False)])
def test_other_messages_of_such_a_child_are_refused_at_once(to: str, sync: bool) -> None:
    node, link = proxy()
    node.upstream_down(1.0, "up", [])
    actions = node.call_arrived(1.0, link, frame(to, "Agent/0", sync=sync), Caller(), None)
    assert seen(actions) == [str(int(NOT_JOINED))]


def test_messages_of_other_children_are_refused_at_once() -> None:
    node = joined("Proxy/0")
    link = add_child(node, "Agent/0")
    node.announce_answered("up", 0, at("Mgr"))
    node.upstream_down(1.0, "up", [])
    assert seen(calls(node, link.id, Caller())) == [str(int(NOT_JOINED))]
