"""Ready: the outcome of one event, empty until something is decided."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from taskd_net.base.codes import Code, Refusal
from taskd_net.core.frame import Ack
from taskd_net.core.links import UP
from taskd_net.core.ready import Announce, Joined, Kind, Ready
from tests.core.routers import at, frame


@pytest.mark.parametrize(
    "decide",
    [
        lambda ready: ready.to(UP).frames.append(frame("Mgr")),
        lambda ready: ready.deliveries.append(frame("Mgr")),
        lambda ready: ready.completed.append((1, Ack("u", 0, at("Mgr")))),
        lambda ready: ready.announcements.append(Announce(Kind.ADD, [at("Proxy/0")])),
        lambda ready: ready.notices.append(Joined(True)),
    ],
    ids=["writes", "deliveries", "completed", "announcements", "notices"],
)
def test_any_decision_is_something_to_carry_out(decide: Callable[[Ready], None]) -> None:
    ready = Ready()
    assert not ready
    decide(ready)
    assert ready


def test_wake_up_and_outcome_of_a_registration_are_nothing_to_carry_out() -> None:
    ready = Ready()
    assert (ready.wake, ready.link, ready.refusal) == (float("inf"), None, None)
    ready.wake, ready.link, ready.refusal = 1.0, 7, Refusal(Code.EXCEED_MAX_REGISTRY_NUM, "full")
    assert not ready


def test_writes_of_a_link_are_gathered_in_one_place() -> None:
    ready = Ready()
    first, other = ready.to(1), ready.to(2)
    assert ready.to(1) is first is not other
    assert list(ready.writes) == [1, 2]
    assert [first.frames, first.patience, first.numbers, first.accepted, first.answers] == [[], [], [], [], []]
    first.frames.append(frame("Worker/0/0"))
    assert other.frames == []
