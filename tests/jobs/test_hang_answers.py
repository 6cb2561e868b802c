"""Hangs in a job: what the log has, which ranks are restarted, and what it costs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taskd_net.base import vocabulary
from taskd_net.base.cause import Cause, read_cause, summary, write_cause
from taskd_net.base.progress import Seen, write_progress
from taskd_net.job.decide import epochs
from taskd_net.job.decide.events import ClockMoved, Tick
from taskd_net.job.decide.failures import JobFailures, told
from taskd_net.job.decide.hang_answers import failures_of
from taskd_net.job.decide.hangs import (
    EVIDENCE_S,
    GOES_ON,
    HUNG,
    NETWORK,
    RECOVERS,
    STALE_S,
    SUSPECTED,
    UNKNOWN,
    UNWATCHED,
    Guilty,
    Verdict,
)
from taskd_net.job.decide.records import AgentRecord, Fault, Records
from taskd_net.job.decide.snapshot import JobConfig
from taskd_net.job.decide.traffic import Notice
from tests.jobs.plugins.test_restarts import JOB, Nodes, at_work, left
from tests.jobs.training import Training

LIMIT = 10.0


class Watched:
    """A job of two nodes that train, and whose Agents tell of it each second.

    Args:
        on_hang: the setting.
        config: of the job.
        nodes: at work in round 1; None for new ones.
    """

    def __init__(self, on_hang: str = "report", config: JobConfig = JOB, nodes: Nodes | None = None) -> None:
        self.nodes = nodes or at_work(config=replace(config, hang_timeout=LIMIT, on_hang=on_hang))
        self.scene = self.nodes.scene
        self.training = Training(2, 2, LIMIT)
        self.notices = list[Notice]()
        self.sent = list[tuple[str, int, str]]()

    @property
    def verdict(self) -> Verdict:
        return self.scene.job.state.hangs.verdict

    def seconds(self, number: int, *, steps: bool = False) -> None:
        """So many seconds pass, with a look of each node."""
        for _ in range(number):
            self.scene.now += 1.0
            self.training.now = self.scene.now
            if steps:
                self.training.step()
            for node in (0, 1):
                progress = {vocabulary.PROGRESS: write_progress(self.training.progress(node))}
                self.scene.report(f"Agent/{node}", "KEEP_ALIVE", 0, **progress)
            if self.scene.job.state.dirty:
                self.settle()

    def settle(self) -> None:
        """Let the job decide."""
        for outcome in self.scene.settle():
            self.notices += outcome.notices
            self.sent += [(each.to, each.code, each.message) for each in outcome.commands]

    def hang(self) -> None:
        """Rank 2 is stopped, and the others wait for it."""
        self.seconds(5, steps=True)
        self.training.enter()
        self.training.ranks[2].seen = Seen.STOPPED
        self.sent.clear()
        self.seconds(14)

    @property
    def ended(self) -> str:
        return self.scene.job.state.failures.ended

    @property
    def events(self) -> list[str]:
        return [each.event for each in self.notices if each.event.startswith("hang")]


def test_a_hang_is_told_and_by_default_nothing_more() -> None:
    job = Watched()
    job.hang()
    assert job.verdict.state == HUNG and job.events == ["hang_suspected", "hang_found"]
    assert job.notices[-1].fields == {
        "seconds": 12,
        "limit": 10,
        "ranks": "2",
        "reason": "rank 2: is stopped (SIGSTOP)",
    }
    assert job.sent == [] and job.scene.job.state.failures.count == 0
    assert job.scene.job.state.books.stage == "hang"
    job.training.ranks[2].seen = Seen.RUNS
    job.seconds(2, steps=True)
    assert job.verdict == Verdict(GOES_ON) and job.events[-1] == "hang_over"


def test_nothing_is_killed_before_the_stacks_are_collected() -> None:
    job = Watched("all")
    records = job.scene.job.state.records
    for agent in records.agents.values():
        agent.reports["REGISTER/0"].extension[vocabulary.FEATURES] += f",{vocabulary.SHOWS_STACKS}"
    records.unsaved_agents.update(records.agents)
    job.hang()
    assert job.verdict.state == HUNG and job.sent == []
    job.seconds(round(EVIDENCE_S))
    assert {(to, code) for to, code, _ in job.sent} == {("Agent/0", 208), ("Agent/1", 208)}


@pytest.mark.parametrize("on_hang", ["guilty", "all"])
def test_ranks_that_do_not_rejoin_are_restarted_together(on_hang: str) -> None:
    job = Watched(on_hang)
    job.hang()
    assert {(to, code) for to, code, _ in job.sent} == {("Agent/0", 208), ("Agent/1", 208)}
    (failure,) = job.scene.job.state.failures.shown
    assert failure.first.rank == 2 and failure.first.pid == 102
    assert told(failure) == "rank 2 of node 1: hung: no mark for 12 s; is stopped (SIGSTOP)"
    assert failure.answer == "all ranks restarted: round 2"
    assert job.verdict == Verdict(GOES_ON, words=RECOVERS)
    job.seconds(20)
    assert job.verdict == Verdict(GOES_ON, words=RECOVERS), "they wait for each other"
    job.nodes.ready(2, 0, 1)
    job.settle()
    assert left(job.nodes) == 2, "the node of the guilty rank has one restart less"
    assert job.scene.job.state.hangs.going and not job.scene.job.state.hangs.acted


def test_guilty_ranks_that_rejoin_are_restarted_alone() -> None:
    job = Watched("guilty")
    job.scene.part(epochs.NEW, 0, 1, 2, 3)
    job.settle()
    job.scene.part(epochs.RUNNING, 0, 1, 2, 3, epoch=1)
    job.settle()
    job.hang()
    assert ("Agent/1", 209, '["2"]') in job.sent
    assert {code for _, code, _ in job.sent} == {209, 303}
    (failure,) = job.scene.job.state.failures.shown
    assert failure.answer == "ranks restarted alone: 2"


def test_all_are_restarted_by_setting_also_where_they_rejoin() -> None:
    job = Watched("all")
    job.scene.part(epochs.NEW, 0, 1, 2, 3)
    job.settle()
    job.scene.part(epochs.RUNNING, 0, 1, 2, 3, epoch=1)
    job.settle()
    job.hang()
    assert {code for _, code, _ in job.sent} == {208}


def test_all_are_restarted_where_the_guilty_one_is_not_known() -> None:
    job = Watched("guilty")
    job.seconds(5, steps=True)
    job.training.enter()
    job.sent.clear()
    job.seconds(14)
    assert {code for _, code, _ in job.sent} == {208}
    (failure,) = job.scene.job.state.failures.shown
    words = "no mark for 12 s; all ranks are equally far, and their processes run"
    assert told(failure) == f"the job hung: {words}" and failure.ranks == {}
    job.nodes.ready(2, 0, 1)
    job.settle()
    assert job.scene.job.state.failures.past[0].charged


def test_the_budget_ends_a_job_that_hangs_again_and_again() -> None:
    job = Watched("all")
    for number in range(2, 5):
        job.hang()
        job.nodes.ready(number, 0, 1)
        job.settle()
        job.training.ranks[2].seen = Seen.RUNS
    assert "which has" not in job.ended
    job.hang()
    assert job.ended == "failure 4 of node 1, which has 3 restarts"
    assert {code for _, code, _ in job.sent} == {203}


def test_nothing_is_done_where_a_platform_restarts() -> None:
    config = replace(JOB, supervises=False, in_place=False)
    job = Watched("all", config, Nodes(config=replace(config, hang_timeout=LIMIT, on_hang="all")))
    job.nodes.come(0, 1)
    job.settle()
    job.hang()
    assert job.verdict.state == HUNG and job.sent == []


def test_a_failure_that_comes_with_the_hang_is_answered_alone() -> None:
    job = Watched("all")
    job.seconds(5, steps=True)
    job.training.enter()
    job.seconds(11)
    assert job.verdict.state == SUSPECTED
    job.nodes.fail(3, 5)
    job.seconds(1)
    assert job.scene.job.state.failures.count == 1 and job.scene.job.state.failures.shown[0].first.rank == 3


def test_silence_of_all_nodes_is_looked_at_without_a_report() -> None:
    job = Watched()
    job.seconds(5, steps=True)
    current = job.scene.job
    assert current.wake <= job.scene.now + STALE_S + 1.0
    outcome = current.step(job.scene.now + STALE_S + 1.0, Tick())
    assert job.verdict == Verdict(UNKNOWN, words=NETWORK) and outcome.notices == []


def test_a_step_of_the_clock_is_no_quiet() -> None:
    job = Watched()
    job.seconds(5, steps=True)
    job.scene.job.step(job.scene.now + 5000.0, ClockMoved(job.scene.now))
    for rank in job.training.ranks:
        rank.marked = (rank.marked or 0.0) + 5000.0
    job.scene.now += 5000.0
    job.seconds(3)
    assert job.verdict == Verdict(GOES_ON)


def test_a_job_without_agents_or_with_ranks_that_left_is_not_judged() -> None:
    nodes = Nodes()
    assert not nodes.scene.job._trains()
    job = Watched()
    job.scene.part(epochs.NEW, 0, 1, 2, 3)
    job.settle()
    job.scene.part(epochs.RUNNING, 0, 1, 2, 3, epoch=1)
    job.settle()
    assert job.scene.job._trains() and job.verdict.state == UNWATCHED
    job.scene.part(epochs.LEFT, 0, epoch=1)
    assert not job.scene.job._trains()


def records() -> Records:
    """Two nodes, the second one of which has not registered."""
    return Records(agents={0: AgentRecord(registered=True, restarted="r1"), 1: AgentRecord()})


@pytest.mark.parametrize("guilty", [Guilty(7, 0), Guilty(2, 1), Guilty(4, 2)])
def test_a_rank_of_another_node_is_not_believed(guilty: Guilty) -> None:
    (found,) = failures_of(Verdict(HUNG, 90.0, words="w", guilty=[guilty]), records(), 2, 100.0, everybody=False)
    assert found.node == 0 and found.fault == Fault([], 100.0, 100.0, "r1")
    assert found.cause == Cause(node=0, at_ns=90 * 10**9, hung="no mark for 10 s; w")


def test_several_guilty_ranks_of_a_node_are_one_failure() -> None:
    guilty = [Guilty(1, 0, 11, words="b"), Guilty(0, 0, 10, words="a")]
    (found,) = failures_of(Verdict(HUNG, 90.0, guilty=guilty), records(), 2, 100.0, everybody=False)
    assert found.fault == found.failed and found.fault.ranks == [1, 0]
    assert (found.cause.rank, found.cause.pid, found.cause.hung) == (0, 10, "no mark for 10 s; a")


def test_a_hang_stays_the_first_cause_and_is_no_lost_node() -> None:
    failures = JobFailures()
    hung = Cause(node=0, at_ns=5, hung="w")
    failures.take(100.0, 0, Fault([]), hung, rounds=True)
    failures.take(101.0, 1, Fault([3]), Cause(3, 1, at_ns=9), rounds=True)
    failures.replaces(1)
    assert failures.open is not None and failures.open.first == hung and failures.open.lost == []
    failures.attempt_begins(102.0)
    assert failures.past[0].charged


def test_a_cause_says_that_the_process_hung() -> None:
    cause = Cause(3, 1, at_ns=5, hung="is stopped (SIGSTOP)")
    assert read_cause(write_cause(cause)) == cause
    assert cause.end == "hung: is stopped (SIGSTOP)" and cause.likeness == ""
    assert summary(cause) == "rank 3 of node 1: hung: is stopped (SIGSTOP)"
