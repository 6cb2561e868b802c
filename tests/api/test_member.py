"""Slots of the documented calls: one member each, filled and cleared; failures in the log."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import cast

import pytest

from taskd_net import BlockingNode, ConfigError
from taskd_net.base import fork
from taskd_net.job.member import Refused, Singleton, StartGuard, documented, leave


class Kept:
    """A member that counts how often it is closed."""

    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


@pytest.fixture(autouse=True)
def no_log_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write no log file."""
    monkeypatch.setattr("taskd_net.job.member.logs.start", lambda _: None)


def test_a_slot_has_one_member_at_a_time() -> None:
    slot: Singleton[Kept] = Singleton("worker")
    with pytest.raises(Refused, match="init_taskd_worker first"):
        _ = slot.member
    slot.fill(Kept, "log")
    first = slot.member
    with pytest.raises(Refused, match="destroy_taskd_worker first"):
        slot.fill(Kept, "log")
    slot.clear()
    assert first.closed == 1
    slot.fill(Kept, "log")
    assert slot.member is not first
    slot.clear(first)  # no longer there: nothing happens
    assert (first.closed, slot.member.closed) == (1, 0)
    slot.clear(slot.member)


def test_a_slot_is_empty_after_a_failure() -> None:
    def fail() -> Kept:
        raise ConfigError("no")

    slot: Singleton[Kept] = Singleton("worker")

    @documented
    def init() -> bool:
        slot.fill(fail, "log")
        return True

    assert init() is False
    slot.fill(Kept, "log")
    slot.clear()


@pytest.mark.parametrize("error", [ConfigError("no"), RuntimeError("fault"), KeyError("x"), Refused("no")])
def test_a_documented_call_answers_false_whatever_is_raised(error: Exception) -> None:
    @documented
    def call() -> bool:
        raise error

    assert call() is False


def test_a_documented_call_does_nothing_in_a_forked_child(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[bool] = []

    @documented
    def call() -> bool:
        called.append(True)
        return True

    assert call() is True
    monkeypatch.setattr(fork, "forked", lambda: True)
    assert call() is False and called == [True]


def test_once_is_once_for_all_threads() -> None:
    once = StartGuard()

    def take(_: int) -> bool:
        try:
            once.take()
        except Refused:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        assert sorted(threads.map(take, range(32))) == [False] * 31 + [True]


def test_node_that_leaves_is_withdrawn_before_it_knows_that_it_has_joined() -> None:
    """The Mgr knows the way to it a moment earlier, and would keep it."""
    done = []

    class Joining:
        is_joined = False

        def withdraw(self, timeout: float) -> bool:
            done.append("withdraw")
            return True

        def close(self) -> None:
            done.append("close")

    leave(cast(BlockingNode, Joining()))
    assert done == ["withdraw", "close"]
