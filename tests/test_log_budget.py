"""The budgets of log lines, by event and peer."""

from __future__ import annotations

import pytest

from taskd_net.base import limits
from taskd_net.base.log_budget import LogBudget

pytestmark = pytest.mark.oldest


def admitted(budget: LogBudget, now: float, *, lines: int = 1, warns: bool = True, **fields: object) -> list[str]:
    """Ask for some lines. Returns what was left out before each admitted one."""
    answers = (budget.admit(now, {"event": "violation", **fields}, warns=warns) for _ in range(lines))
    return [answer for answer in answers if answer is not None]


def test_peer_has_a_burst_and_then_a_line_a_while() -> None:
    budget = LogBudget()
    assert admitted(budget, 0.0, peer="a", lines=50) == [""] * limits.LOG_PEER_LINES
    assert admitted(budget, limits.LOG_PEER_REFILL_S - 0.1, peer="a") == []
    assert admitted(budget, limits.LOG_PEER_REFILL_S, peer="a", lines=2) == ["violation 41"]
    later = limits.LOG_PEER_REFILL_S * (limits.LOG_PEER_LINES + 1)
    assert admitted(budget, later, peer="a", lines=50) == ["violation 1", *[""] * (limits.LOG_PEER_LINES - 1)]


def test_peers_and_events_do_not_share() -> None:
    budget = LogBudget()
    admitted(budget, 0.0, peer="a", lines=12)
    assert admitted(budget, 0.0, peer="b") == ["violation 2"]
    admitted(budget, 0.0, peer="b", lines=12)
    assert budget.admit(0.0, {"event": "other", "peer": "a"}, warns=True) == "violation 3"
    assert budget.admit(0.0, {"event": "other", "peer": "a"}, warns=True) == ""


def test_the_first_field_that_names_a_peer_counts() -> None:
    budget = LogBudget()
    admitted(budget, 0.0, child="Worker/0/0", peer="taskd_net", lines=12)
    assert admitted(budget, 0.0, child="Worker/0/1", peer="taskd_net") == ["violation 2"]


@pytest.mark.parametrize(("warns", "lines"), [(True, limits.LOG_WARNINGS), (False, limits.LOG_CHANGES)])
def test_ever_new_names_gain_nothing(warns: bool, lines: int) -> None:
    budget = LogBudget(64)
    said = [line for number in range(lines + 500) for line in admitted(budget, 0.0, peer=number, warns=warns)]
    assert len(said) == lines and len(budget._whole_by_peer) <= 64
    assert admitted(budget, limits.LOG_REFILL_S, peer="new", lines=2, warns=warns) == ["violation 500"]


def test_event_without_a_peer_is_limited_too() -> None:
    budget = LogBudget()
    assert len([1 for _ in range(834) if budget.admit(0.0, {"event": "notify_failed"}, warns=True) is not None]) == 10
    assert admitted(budget, 0.0) == ["notify_failed 824"]


def test_failed_calls_of_the_application_have_a_line_each() -> None:
    budget = LogBudget()
    line, calls = {"event": "call_failed", "call": "send_to_manager"}, 2 * limits.LOG_WARNINGS
    assert [budget.admit(0.0, line, warns=True) for _ in range(calls)] == [""] * calls
