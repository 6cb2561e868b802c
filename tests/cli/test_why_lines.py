"""The failures of a job in text."""

from __future__ import annotations

import time
from dataclasses import replace

from taskd_net.cli.why_lines import draw_why, why
from taskd_net.observe.fields import document_of
from taskd_net.observe.job_view import CauseView, FailureView, JobView
from tests.observe.jobs import AT, WHOLE

WITH_CAUSE, BARE = WHOLE.failures[1:]
RECOVERY = (
    "recovery: noticed 0.5 s, decided 0.0 s, processes there 2.2 s, joined 3.0 s, in steps again 1.5 s; "
    "7.3 s in all, and a step was done"
)


def at(seconds: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(AT + seconds))


def lines(view: JobView) -> list[str]:
    """The lines without their styles."""
    return [text for text, _ in draw_why(document_of(view))]


def test_last_failure_is_shown_whole() -> None:
    assert lines(replace(WHOLE, failures=(WITH_CAUSE,))) == [
        "job J has ended: 6 failures within 600 s",
        "",
        f"FAILURE 6  rank 3 failed first: exit code 1 (node 1, host worker-7, pid 4711), at {at(-31)}",
        "  after 42 s of training",
        "  at /job/train.py, line 42, in step",
        "    Traceback (most recent call last):",
        "    ValueError: boom",
        "  failed because of it: ranks 0, 2",
        f"  {at(-29)}  all ranks restarted: round 2",
        f"  {RECOVERY}",
    ]


def test_failures_before_are_a_line_each() -> None:
    before = "rank 3 of node 1: exit code 1, ValueError: boom, at /job/train.py, line 42, 2 more ranks"
    assert lines(replace(WHOLE, ended="")) == [
        "job J has not been ended by its Manager",
        "",
        f"FAILURE 7  rank 0 failed first: ended by SIGKILL (node 0, host worker-6, pid 12), at {at(-2)}",
        "  after 5 s of training",
        "  the last lines of its standard error:",
        "    step 41",
        "  not answered yet",
        "",
        "BEFORE  newest first",
        f"  #6  after 42 s: {before}; {at(-29)}  all ranks restarted: round 2",
        f"      {RECOVERY}",
        f"  #5  after 9 s: node 2 was lost; ranks 0, 1 lost their peers; {at(-80)}  round 1",
    ]


def test_a_hang_without_a_name_is_a_failure_of_the_job() -> None:
    failure = FailureView(8, AT - 9, 42.0, hung="no mark for 300 s; all ranks are equally far", answer="x", answered=AT)
    words = "the job hung: no mark for 300 s; all ranks are equally far"
    assert lines(JobView("J", AT, failures=(failure,)))[2:] == [
        f"FAILURE 8  {words}, after 42 s of training",
        f"  {at(0)}  x",
    ]
    assert lines(JobView("J", AT, failures=(failure, failure)))[-1] == f"  #8  after 42 s: {words}; {at(0)}  x"


def test_cause_that_is_hardly_known() -> None:
    unknown = FailureView(1, AT, first=CauseView(5, 2, end="its Agent does not say how", message="text", file="a.py"))
    before = FailureView(1, AT, first=CauseView(kind="KeyError"))
    found = lines(JobView("J", AT, failures=(before, unknown)))
    assert found[2:6] == [
        "FAILURE 1  rank 5 failed first: its Agent does not say how (node 2)",
        "  after 0 s of training",
        "  at a.py, line 0",
        "    text",
    ]
    assert found[-1] == "  #1  after 0 s: rank 0 of node 0: , KeyError; not answered yet"


def test_node_that_was_lost_is_the_cause_and_not_its_victims() -> None:
    victims = FailureView(1, AT, 9.0, CauseView(1, 0, end="exit code 1"), (0,), "all ranks restarted", AT, lost=(1,))
    said = "node 1 was lost; ranks 0, 1 lost their peers"
    found = lines(JobView("J", AT, failures=(victims, victims)))
    assert found[2:4] == [f"FAILURE 1  {said}, after 9 s of training", f"  {at(0)}  all ranks restarted"]
    assert found[-1] == f"  #1  after 9 s: {said}; {at(0)}  all ranks restarted"


def test_node_that_was_lost_without_a_failed_rank() -> None:
    found = lines(JobView("J", AT, failures=(FailureView(1, AT, 9.0, answer="back", answered=AT, lost=(1,)),)))
    assert found[2:] == ["FAILURE 1  node 1 was lost, after 9 s of training", f"  {at(0)}  back"]


def test_job_without_a_failure() -> None:
    assert lines(JobView("J", AT)) == ["job J has not been ended by its Manager", "no rank has failed"]
    ended = JobView("J", AT, ended="node 1 has not come within 900 s")
    assert lines(ended) == ["job J has ended: node 1 has not come within 900 s", "no rank has failed"]


def test_json_has_the_failures_alone() -> None:
    whole = document_of(WHOLE)
    assert why(whole) == {
        "job": "J",
        "time": AT,
        "ended": "6 failures within 600 s",
        "failures": whole["failures"],
    }


def test_recovery_under_way_has_the_phases_so_far() -> None:
    lost = FailureView(1, AT, 9.0, answer="back", answered=AT, lost=(1,), phases={"noticed": 12.0, "nodes": 30.0})
    assert lines(JobView("J", AT, failures=(lost,)))[-1] == (
        "  recovery: noticed 12 s, nodes waited for 30 s; 42 s so far, and no step is known since"
    )
