"""The state of a job for browsers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taskd_net.faces.page import panel as page_panel
from taskd_net.faces.page.panel import panel
from taskd_net.observe.job_view import (
    DECISIONS_SHOWN,
    AgentView,
    BooksView,
    CauseView,
    DecisionView,
    FailureView,
    JobView,
)
from tests.observe.jobs import WHOLE

pytestmark = pytest.mark.oldest


def test_agents_in_trouble_and_silent_ones_are_in_it_and_no_others() -> None:
    assert [agent["rank"] for agent in panel(WHOLE)["agents"]] == [1, 2, 4]
    assert panel(WHOLE)["agents_known"] == 5


def test_it_is_bounded() -> None:
    agents = tuple(AgentView(rank, exited=True) for rank in range(500))
    decisions = tuple(DecisionView(number) for number in range(DECISIONS_SHOWN))
    found = panel(JobView(agents=agents, decisions=decisions))
    assert len(found["agents"]) == page_panel.AGENTS
    numbers = [decision["number"] for decision in found["decisions"]]
    assert numbers == list(range(DECISIONS_SHOWN))[-page_panel.DECISIONS :]


def test_browsers_get_the_first_failures_without_their_tracebacks() -> None:
    cause = CauseView(3, 1, "worker-7", 7, "exit code 1", 5.0, "ValueError", "ValueError: boom", traceback=("a = 1",))
    cause = replace(cause, last_lines=("b = 2",))
    (failure,) = panel(JobView(failures=(FailureView(1, 5.0, 2.0, cause),)))["failures"]
    assert (failure["first"]["rank"], failure["first"]["message"]) == (3, "ValueError: boom")
    assert (failure["first"]["traceback"], failure["first"]["last_lines"]) == ([], [])


def test_reports_and_looks_change_nothing() -> None:
    counters = replace(WHOLE.counters, reports=10**6, ticks=10**6, commands=0)
    clusterd = replace(WHOLE.clusterd, keep_alives=10**6)
    assert panel(replace(WHOLE, at=1.0, counters=counters, clusterd=clusterd)) == panel(WHOLE)
    assert panel(WHOLE)["clusterd"]["reports"]["void"] == 1


def test_books_of_a_long_run_change_seldom() -> None:
    books = replace(WHOLE.books, wall=123_456.7, seconds={"steps": 98_765.4, "data": 3.14159}, step=12_345, done=1_239)
    found = panel(replace(WHOLE, books=books))["books"]
    assert (found["wall"], found["seconds"], found["step"]) == (123_000.0, {"steps": 98_800.0, "data": 3.14}, 12_300)
    assert (found["done"], found["again"], found["left"]) == (1_240, 10, 1400.0)
    assert panel(JobView(books=BooksView(wall=1.0)))["books"]["step"] is None


def test_limits_of_hangs_change_too_often_for_browsers() -> None:
    found = panel(WHOLE)["hang"]
    assert found["state"] == "hung" and found["limits"] == {} and found["guilty"][0]["rank"] == 3
