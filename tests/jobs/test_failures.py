"""Failures of a job: the first cause over all nodes, the budget, and the verdict."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taskd_net.base.cause import Cause, Place, Reason
from taskd_net.job.decide.failures import FAILURES, FAILURES_S, FURTHER_S, KEPT, PAUSE_S, TOGETHER_S, JobFailures, told
from taskd_net.job.decide.records import Fault

BUG = Reason("ValueError", "ValueError: boom", "Traceback\nValueError: boom", Place("train.py", 3, "step"))
GLOO = Reason("RuntimeError", "RuntimeError: closed", "RuntimeError: [/gloo/pair.cc] Connection closed by peer")
AT = 1000 * 10**9


def cause(rank: int = 3, node: int = 1, at: int = 0, reason: Reason | None = BUG, code: int = 1) -> Cause:
    """A process that has failed so many ns after second 1000."""
    return Cause(rank, node, "h", 7, code, "", AT + at, reason=reason)


def take(failures: JobFailures, now: float, *causes: Cause, rounds: bool = True) -> None:
    """Agents report processes, each with its cause."""
    for each in causes:
        failures.take(now, each.node, Fault([each.rank], now), each, rounds=rounds)


def at_work(*moments: float) -> JobFailures:
    """Failures of a run, at these times, which each a next attempt has followed after a second."""
    failures = JobFailures(began=1.0)
    for number, moment in enumerate(moments):
        take(failures, moment, cause(reason=replace(BUG, place=Place("train.py", 100 + number, ""))))
        failures.attempt_begins(moment + 1.0)
    return failures


def test_first_failure_over_all_nodes() -> None:
    failures = JobFailures()
    take(failures, 1001.0, cause(0, 0, 5, GLOO), cause(3, 1, 9), cause(1, 0, 7))
    assert failures.open is not None and failures.count == 1
    assert (failures.open.first.rank, failures.open.others) == (1, [0, 3])
    failures.late(cause(2, 1, 6))
    assert (failures.open.first.rank, failures.open.others) == (2, [0, 1, 3])
    assert (
        told(failures.open)
        == "rank 2 of node 1: exit code 1: ValueError: boom at train.py, line 3; after it ranks 0,1,3"
    )


def test_cause_that_comes_after_the_next_attempt_belongs_to_the_one_before() -> None:
    failures = JobFailures()
    failures.late(cause())
    assert failures.shown == [] and not failures.changed
    take(failures, 1001.0, cause(0, 0, 5))
    failures.attempt_begins(1002.0)
    failures.late(cause(3, 1, 4))
    assert failures.past[0].first.rank == 3 and failures.open is None


def test_agent_that_does_not_say_the_cause() -> None:
    failures = JobFailures()
    failures.take(1001.0, 1, Fault([3, 2], 1001.0, 999.0), None, rounds=True)
    failures.take(1001.0, 0, Fault([], 1001.0), None, rounds=True)
    assert failures.open is not None
    assert (failures.open.first.rank, failures.open.first.node, failures.open.others) == (2, 1, [3])
    assert told(failures.open) == "rank 2 of node 1: its Agent does not say how; after it ranks 3"


def test_each_node_may_fail_as_often_as_it_has_offered() -> None:
    failures = at_work(10.0)
    assert failures.verdict(20.0, 0, settled=True) == "", "nothing has failed"
    take(failures, 20.0, cause())
    assert failures.verdict(20.0, 1, settled=False) == "failure 2 of node 1, which has 1 restarts"
    assert failures.verdict(20.0, 2, settled=False) == ""
    other = at_work(10.0)
    take(other, 20.0, cause(0, 0))
    assert other.verdict(20.0, 1, settled=False) == "", "another node"


def test_rank_that_has_lost_a_peer_decides_nothing_before_all_have_answered() -> None:
    failures = at_work()
    take(failures, 20.0, cause(0, 0, 0, GLOO))
    assert failures.verdict(20.0, 0, settled=False) == ""
    assert failures.verdict(20.0, 0, settled=True) == "failure 1 of node 0, which has 0 restarts"
    assert failures.open is not None and failures.open.lost == []
    failures.replaces(1)
    assert failures.verdict(20.0, 0, settled=True) == "", "its node was lost"
    assert failures.open.lost == [1] and told(failures.open) == "node 1 was lost; after it ranks 0"
    failures.attempt_begins(21.0)
    assert failures.charged == {} and failures.lost == set() and not failures.past[0].charged
    take(failures, 30.0, cause())
    failures.replaces(0)
    assert failures.verdict(30.0, 0, settled=False) == "failure 1 of node 1, which has 0 restarts", "its own failure"
    assert failures.open.lost == []


def test_lost_node_is_a_failure_also_where_no_rank_has_failed() -> None:
    failures = at_work(10.0)
    failures.loses(20.0, [2, 1])
    assert failures.open is not None and failures.count == 2
    assert (failures.open.lost, failures.open.others, told(failures.open)) == ([1, 2], [], "node 1,2 was lost")
    assert failures.verdict(20.0, 0, settled=True) == "" and not failures.comes_again
    assert failures.left(20.0, {0: None, 1: None}) == FAILURES - 1, "it costs nothing"
    failures.loses(21.0, [0])
    assert failures.count == 2 and failures.open.lost == [0, 1, 2]
    failures.late(cause(0, 0, 0, GLOO))
    assert told(failures.open) == "node 0,1,2 was lost; after it ranks 0", "a victim"
    failures.attempt_begins(22.0)
    assert failures.charged == {1: 1}


def test_rank_that_fails_by_itself_while_a_node_is_lost_is_the_cause() -> None:
    failures = at_work(10.0)
    failures.loses(20.0, [1])
    take(failures, 21.0, cause(0, 0))
    assert failures.open is not None and failures.open.lost == [] and failures.count == 2
    assert told(failures.open) == "rank 0 of node 0: exit code 1: ValueError: boom at train.py, line 3"


def test_lost_node_between_two_failures_does_not_part_them() -> None:
    """A node that goes and comes would keep a bug alive otherwise, and short attempts are no measure of progress."""
    failures = at_work(10.0)
    take(failures, 20.0, cause())
    failures.attempt_begins(21.0)
    failures.loses(22.0, [1])
    failures.attempt_begins(23.0)
    take(failures, 24.0, cause())
    assert failures.comes_again
    assert failures.recent(24.0) == 3


def test_pauses_grow_until_it_is_too_much() -> None:
    moments = [10.0 * number for number in range(1, FAILURES + 2)]
    for count in range(1, FAILURES + 1):
        failures = at_work(*moments[: count - 1])
        take(failures, moments[count - 1], cause())
        assert failures.pause(moments[count - 1]) == (PAUSE_S * 2 ** (count - 2) if count > 1 else 0.0)
        assert failures.verdict(moments[count - 1], None, settled=True) == ""
    failures = at_work(*moments[:-1])
    take(failures, moments[-1], cause())
    assert failures.verdict(moments[-1], None, settled=True) == f"{FAILURES + 1} failures within {FAILURES_S:g} s"


def test_progress_gives_the_failures_back() -> None:
    failures = at_work(10.0, 20.0, 30.0)
    assert failures.recent(31.0) == 3
    take(failures, 31.0 + 9.0 + FURTHER_S, cause())
    assert failures.open is not None and failures.open.fresh
    assert failures.recent(100.0) == 1, "it lived a minute longer"
    failures = at_work(10.0, 20.0, 30.0)
    take(failures, 31.0 + FAILURES_S, cause())
    assert failures.recent(31.0 + FAILURES_S) == 1
    failures = at_work(10.0, 20.0, 30.0)
    assert failures.recent(30.0 + FAILURES_S) == 0, "forgotten"


def at_steps(*steps: int) -> JobFailures:
    """Failures of ranks that mark steps: each attempt has reached one of these, and has failed in the same way."""
    failures = JobFailures(began=1.0)
    for number, step in enumerate(steps, 1):
        failures.reaches(step)
        take(failures, 1000.0 * number, cause())
        failures.attempt_begins(1000.0 * number + 1.0)
    return failures


def test_attempt_with_a_further_step_has_made_progress_however_short_it_was() -> None:
    failures = at_steps(40, 40)
    assert not failures.past[-1].fresh, "1000 s without a step of its own are no progress"
    take(failures, 2001.5, cause())
    assert failures.verdict(2001.5, None, settled=True).startswith("the same failure twice in a row")
    assert failures.recent(2001.5) == 2
    failures.reaches(41)
    assert failures.open is not None and failures.open.fresh and not failures.comes_again, "told after the failure"
    assert failures.recent(2001.5) == 1
    failures = at_steps(40)
    failures.reaches(41)
    assert failures.left(1002.0, {0: None}) == FAILURES
    take(failures, 1002.0, cause())
    assert failures.verdict(1002.0, None, settled=True) == ""


def test_manager_that_has_heard_of_no_step_goes_by_time() -> None:
    failures = at_steps(40)
    failures.reaches(None)
    take(failures, 1001.0 + FAILURES_S, cause())
    assert failures.open is not None and failures.open.fresh


def test_recovery_has_succeeded_when_a_step_is_done() -> None:
    failures = at_steps(40, 41)
    failures.changed = False
    failures.recovered(2, {"noticed": 0.5}, stepped=True)
    failures.recovered(7, {}, stepped=True)
    assert [(each.phases, each.stepped) for each in failures.past] == [({}, False), ({"noticed": 0.5}, True)]
    assert failures.changed


def test_restarts_left_are_those_of_the_node_with_the_fewest() -> None:
    failures = at_work(10.0)  # of node 1
    assert failures.left(20.0, {}) == 0
    assert failures.left(20.0, {0: 3, 1: 3}) == 2
    take(failures, 20.0, cause())
    assert [failures.left(20.0, {0: 3, 1: most}) for most in (3, 1, 0)] == [1, 0, 0], "the open failure counts"
    assert failures.left(20.0, {0: 1}) == 1
    lost = at_work(10.0)
    take(lost, 20.0, cause(2, 1, 0, GLOO))
    lost.replaces(0)
    assert lost.left(20.0, {1: 3}) == 2, "it costs nothing"


def test_restarts_left_without_a_number_come_back_with_progress() -> None:
    assert JobFailures().left(5.0, {0: None}) == FAILURES
    failures = at_work(10.0, 20.0)
    assert failures.left(22.0, {0: None, 1: None}) == FAILURES - 2
    assert failures.left(21.0 + 9.0 + FURTHER_S, {0: None}) == FAILURES, "this attempt has lived a minute longer"
    take(failures, 22.0, cause())
    assert failures.left(22.0, {0: None}) == FAILURES - 3
    moments = [10.0 * number for number in range(1, FAILURES + 2)]
    assert at_work(*moments).left(moments[-1] + 1.5, {0: None}) == 0


@pytest.mark.parametrize(
    ("before", "now", "likeness"),
    [
        (cause(), cause(0, 0), "ValueError at train.py, line 3"),
        (cause(), cause(reason=replace(BUG, place=Place("train.py", 4, "step"))), ""),
        (cause(), cause(reason=replace(BUG, kind="KeyError")), ""),
        (cause(reason=None, code=3), cause(0, 0, reason=None, code=3), "exit code 3"),
        (
            cause(reason=None, code=3),
            cause(reason=Reason("SystemExit", place=Place("a", 1, "")), code=3),
            "exit code 3",
        ),
        (cause(reason=None, code=3), cause(reason=None, code=4), ""),
        (cause(), cause(reason=None), ""),
        (cause(reason=GLOO), cause(reason=GLOO), ""),
        (cause(reason=None, code=0), cause(reason=None, code=0), ""),
    ],
)
def test_same_failure_twice_in_a_row_ends_the_job(before: Cause, now: Cause, likeness: str) -> None:
    failures = JobFailures(began=1.0)
    take(failures, 10.0, before)
    assert failures.verdict(10.0, None, settled=True) == "", "the first time"
    failures.attempt_begins(11.0)
    take(failures, 20.0, now)
    expected = f"the same failure twice in a row: {likeness}" if likeness else ""
    assert failures.verdict(20.0, None, settled=False) == expected


def test_same_failure_after_progress_or_another_one_goes_on() -> None:
    failures = JobFailures(began=1.0)
    take(failures, 10.0, cause())
    failures.attempt_begins(11.0)
    take(failures, 21.0 + FURTHER_S, cause())
    assert failures.verdict(100.0, None, settled=True) == ""
    failures = at_work(10.0)
    take(failures, 20.0, cause())
    assert failures.verdict(20.0, None, settled=True) == ""


def test_process_that_is_not_to_be_started_again() -> None:
    failures = at_work()
    take(failures, 10.0, cause(code=65, reason=None))
    assert failures.verdict(10.0, 9, settled=False) == "rank 3 has ended with 65, so it is not to be started again"
    assert failures.comes_again and not JobFailures().comes_again


def test_few_are_kept_and_only_the_last_with_its_traceback() -> None:
    failures = at_work(*(10.0 * number for number in range(1, KEPT + 5)))
    assert len(failures.past) == KEPT and failures.count == KEPT + 4 == failures.past[-1].number
    assert [bool(each.first.reason and each.first.reason.traceback) for each in failures.past[-2:]] == [False, True]
    assert failures.charged == {1: KEPT + 4} and failures.recent(150.0) == KEPT


def test_answer_and_end() -> None:
    failures = at_work()
    failures.answer(5.0, "nothing")
    take(failures, 10.0, cause())
    failures.answer(11.0, "all ranks restarted: round 2")
    assert failures.open is not None
    assert (failures.open.answer, failures.open.answered) == ("all ranks restarted: round 2", 11.0)
    failures.ends("no more")
    take(failures, 12.0, cause(0, 0, -5))
    assert (failures.ended, failures.count, failures.open.first.rank) == ("no more", 1, 0)


def test_platform_does_not_say_when_all_are_there_again() -> None:
    """A failure some seconds after the answer is the next one; without an answer it is the same."""
    failures = JobFailures()
    take(failures, 10.0, cause(), rounds=False)
    take(failures, 100.0, cause(0, 0), rounds=False)
    failures.answer(100.0, "all ranks restarted: round 1")
    take(failures, 100.0 + TOGETHER_S - 0.1, cause(1, 0), rounds=False)
    assert failures.count == 1
    take(failures, 100.0 + TOGETHER_S, cause(2, 1), rounds=False)
    assert failures.count == 2 and failures.began == 100.0
