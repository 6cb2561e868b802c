"""Hangs: a job that stands still is found, and one that goes on never is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from taskd_net.base.progress import NodeProgress, RankProgress, Seen
from taskd_net.job.decide.hangs import (
    COLLECTIVES,
    DONE,
    EACH_LOOK,
    ENDING,
    FIRST,
    FLOOR_S,
    GOES_ON,
    HUNG,
    LIE_S,
    LONGEST_TIMES,
    LOOK_S,
    NETWORK,
    OFF,
    OPEN_MOST,
    PLACES_MOST,
    RECOVERS,
    SECTION,
    STALE_S,
    STEPS,
    SUSPECTED,
    UNKNOWN,
    UNMARKED,
    UNWATCHED,
    Hangs,
    Lengths,
    Verdict,
)
from taskd_net.job.decide.laggards import LISTED_MOST
from tests.jobs.training import Training, is_stuck

LIMIT = 10.0
GOLDEN = Path(__file__).parent / "golden" / "hangs.txt"


def at_work(nodes: int = 2, processes: int = 2, timeout: float | None = LIMIT, steps: int = 5) -> Training:
    """A training after some steps of a second."""
    training = Training(nodes, processes, timeout)
    training.look()
    training.steps(steps)
    assert training.verdict == Verdict(GOES_ON)
    return training


def test_a_job_without_ranks_that_tell_anything_is_not_watched() -> None:
    hangs = Hangs()
    assert not hangs.look(1000.0, None) and hangs.verdict == Verdict(UNWATCHED)
    hangs.watch(1000.0, going=True)
    assert not hangs.take(1001.0, 0, NodeProgress(ranks=8), None)
    assert hangs.verdict == Verdict(UNWATCHED) and hangs.wake == float("inf")


def test_a_limit_of_none_switches_it_off() -> None:
    training = Training(timeout=0.0)
    training.steps(3)
    training.pass_by(1000)
    assert training.verdict == Verdict(UNWATCHED, words=OFF)


def test_a_rank_in_code_of_its_own_is_found_and_named() -> None:
    training = at_work()
    began = training.now
    training.enter(0, 1, 3)
    training.pass_by(LIMIT + 3)
    verdict = training.verdict
    assert (verdict.state, verdict.limit, training.named) == (HUNG, LIMIT, [2])
    assert verdict.guilty[0].node == 1 and verdict.guilty[0].pid == 102
    assert verdict.guilty[0].words == "has entered 5 collectives, and others 6"
    assert verdict.since == began
    assert training.when[SUSPECTED] == began - 1000.0 + LIMIT + 1 and training.when[HUNG] == began - 1000.0 + LIMIT + 2


def test_a_hang_that_goes_on_is_over() -> None:
    training = at_work()
    training.enter(0, 1, 3)
    training.pass_by(LIMIT + 3)
    training.steps(1)
    assert training.verdict == Verdict(GOES_ON)
    training.enter(0, 1, 3)
    training.pass_by(LIMIT + 1)
    assert training.verdict.state == SUSPECTED
    training.step()
    training.now += LIMIT + 1.0  # no look of these seconds has come
    training.look(0)
    training.look(1)
    assert training.verdict.state == GOES_ON, "the gap counts for nothing"


def test_a_second_quiet_is_suspected_anew() -> None:
    training = at_work(1, 2, 2.0)
    training.pass_by(3)
    assert training.verdict.state == SUSPECTED
    noticed = training.verdict.noticed
    training.now += 0.5
    training.step()
    training.now += 2.5  # a look of the second between is lost
    training.look()
    assert training.verdict.state == SUSPECTED and training.verdict.noticed > noticed


@pytest.mark.parametrize("seen", [Seen.STOPPED, Seen.DISK, Seen.TRACED, Seen.HOLDS])
def test_an_odd_process_among_equals_is_guilty(seen: Seen) -> None:
    training = at_work()
    training.enter()
    training.ranks[1].seen = seen
    training.pass_by(LIMIT + 3)
    assert training.verdict.state == HUNG and training.named == [1]


def test_a_process_that_is_stopped_to_look_at_the_hang_is_not_its_cause() -> None:
    training = at_work()
    training.enter()
    training.pass_by(2 * LIMIT + 2)
    assert training.verdict.state == HUNG and training.named == []
    assert training.verdict.words == "all ranks are equally far, and their processes run"
    training.ranks[1].seen = Seen.TRACED
    training.pass_by(5)
    training.ranks[1].seen = Seen.STOPPED
    training.pass_by(5)
    assert training.named == []


def test_a_short_odd_state_says_nothing() -> None:
    training = at_work()
    training.enter()
    training.pass_by(LIMIT)
    training.ranks[1].seen = Seen.DISK
    training.pass_by(1)
    training.ranks[1].seen = Seen.RUNS
    training.pass_by(3)
    assert training.verdict.state == HUNG and training.named == []


def test_a_rank_that_was_never_started_is_guilty() -> None:
    training = at_work(timeout=None)
    training.recover(5.0)
    training.ranks[3].seen = Seen.ABSENT
    training.pass_by(FLOOR_S + 3)
    assert training.verdict.state == HUNG and training.named == [3]
    assert training.verdict.guilty[0].words.startswith("was never started")


def test_a_rank_that_has_ended_before_the_others_is_guilty() -> None:
    training = at_work()
    training.step(0, 1, 2)
    training.ranks[3].seen = Seen.ENDED
    training.enter(0, 1, 2)
    training.pass_by(LIMIT + 3)
    assert training.verdict.state == HUNG and training.named == [3]
    assert training.verdict.guilty[0].words == "has ended; its last step is 5, and 6 that of others"


def test_the_last_beat_of_a_rank_that_has_ended_is_old() -> None:
    training = at_work()
    for number in (1, 2, 3):
        training.ranks[number].seen, training.ranks[number].group = Seen.ENDED, 2
    training.pass_by(60)
    assert training.verdict.state == UNKNOWN and training.verdict.guilty == []


def test_beats_of_different_moments_are_not_compared() -> None:
    training = at_work(timeout=1.0)
    training.enter(0, 1, 3)
    training.pass_by(2)
    assert training.verdict.state == SUSPECTED and training.named == []
    training.pass_by(2)
    assert training.verdict.state == HUNG and training.named == [2]


def test_the_end_of_a_training_is_no_hang() -> None:
    training = at_work()
    for number in (1, 2, 3):
        training.ranks[number].seen = Seen.ENDED
    training.pass_by(60)  # rank 0 saves the result
    assert training.verdict.state == UNKNOWN and training.verdict.guilty == []
    training.ranks[0].seen = Seen.ENDED
    training.pass_by(2)
    assert training.verdict == Verdict(GOES_ON, words=ENDING)
    training.silent |= {0, 1}
    training.quiet()
    assert training.verdict == Verdict(GOES_ON, words=ENDING) and training.hangs.wake == float("inf")


def test_quiet_after_the_last_step_is_unknown() -> None:
    training = at_work()
    training.of = 6
    training.step(0, 1, 2)
    training.pass_by(LIMIT + 3)
    assert training.verdict.state == HUNG and training.named == [3]
    training.step(3)
    training.pass_by(60)
    assert training.verdict.state == UNKNOWN and training.verdict.words == DONE


def test_several_ranks_behind_are_not_named() -> None:
    training = at_work(3, 2)
    training.enter(0, 1, 2)
    training.pass_by(LIMIT + 3)
    assert training.verdict.state == HUNG and training.named == []
    assert training.verdict.words == "several ranks are equally far behind, among them 3, 4, 5"


def test_ranks_that_are_not_described_may_be_as_far_behind() -> None:
    training = at_work(2, 8)
    training.enter(*range(8))
    training.pass_by(LIMIT + 3)
    assert training.verdict.state == HUNG and training.named == []


def test_one_rank_stands_still_while_others_go_on() -> None:
    training = at_work()
    began = training.now
    for _ in range(int(LIMIT) + 3):
        training.now += 1.0
        training.step(0, 1, 2)
        training.look()
    assert training.verdict.state == HUNG and training.named == [3]
    assert training.verdict.guilty[0].words.startswith("it stands still at step 5, and others have gone on to ")
    assert training.when[SUSPECTED] == began - 1000.0 + LIMIT + 1


def test_a_rank_that_waits_for_a_busy_one_does_not_stand_still() -> None:
    """Rank 0 evaluates, and marks each batch of it; the others wait for it."""
    training = at_work()
    training.enter(1, 2, 3)
    for _ in range(60):
        training.section("evaluation", 0)
        training.pass_by(2)
    assert not any(is_stuck(verdict) for _, verdict in training.history)


def test_a_leader_that_saves_is_no_proof_that_others_stand_still() -> None:
    """A pipeline: rank 0 is two steps ahead, and saves; the others wait for what it sends."""
    training = at_work()
    training.step(0)
    training.step(0)
    training.section("checkpoint", 0)
    training.hangs.lengths[f"{SECTION}checkpoint"] = replace(training.hangs.lengths[STEPS], longest=600.0)
    training.timeout = None
    training.pass_by(FLOOR_S + 30)
    assert training.verdict.state == GOES_ON


@pytest.mark.parametrize("steps", [None, 3])
def test_a_rank_without_comparable_steps_does_not_stand_alone(steps: int | None) -> None:
    training = at_work()
    training.ranks[3].step = steps
    training.pass_by(1)
    training.ranks[3].step = None if steps is None else 4
    training.hangs.steps_fell = steps is not None
    for _ in range(20):
        training.now += 1.0
        training.step(0, 1, 2)
        training.look()
    assert not any(is_stuck(verdict) for _, verdict in training.history)


def test_a_rank_that_waits_is_never_guilty_and_explains_the_others() -> None:
    training = at_work()
    training.ranks[2].waits = True
    training.enter(0, 1, 3)
    training.pass_by(600)
    assert training.verdict == Verdict(GOES_ON)


@pytest.mark.parametrize("every", [0.1, 1.0, 10.0, 60.0])
def test_an_evaluation_now_and_then_is_no_hang(every: float) -> None:
    training = Training(1, 2)
    for _ in range(3 if every <= 1.0 else 1):
        training.steps(100, every)
        training.pass_by(30 * every)
    assert not any(is_stuck(verdict) for _, verdict in training.history)


def test_a_checkpoint_to_a_slow_disk_and_a_loader_that_stalls_are_no_hang() -> None:
    training = Training(2, 2)
    for seconds in (60, 250, 280):
        training.steps(20, 0.5)
        training.pass_by(seconds)
    assert not any(is_stuck(verdict) for _, verdict in training.history)
    assert training.hangs.lengths[STEPS].longest >= 249


def test_a_section_is_unknown_the_first_time_and_measured_by_the_longest_one_then() -> None:
    training = at_work(timeout=None)
    training.section("checkpoint")
    training.pass_by(1200)
    assert training.verdict.state == UNKNOWN
    assert (
        training.verdict.words
        == "rank 0 is quiet at the section checkpoint, for longer than anything that is known of it"
    )
    since = training.verdict.since
    training.pass_by(100)
    assert training.verdict.since == since
    training.section("")
    training.steps(5)
    training.section("checkpoint")
    training.pass_by(LONGEST_TIMES * 1298)
    assert training.verdict.state == GOES_ON
    training.pass_by(30)
    assert training.verdict.state == HUNG


def test_a_first_step_is_measured_by_the_first_steps_before() -> None:
    training = Training(timeout=LIMIT)
    training.look()
    training.pass_by(200)
    assert training.verdict == Verdict(UNKNOWN, words=UNMARKED)
    training.steps(5)
    assert training.verdict == Verdict(GOES_ON)
    training.recover(5.0)
    training.pass_by(500)
    assert training.verdict == Verdict(GOES_ON)
    training.pass_by(110)
    assert training.verdict.state == HUNG and training.verdict.since == training.hangs.began


def test_the_first_step_of_a_rank_that_loads_is_unknown_without_one_before() -> None:
    training = Training(timeout=LIMIT)
    training.look()
    training.section("load")
    training.pass_by(5)
    training.hangs.lengths.clear()
    training.section("")
    training.pass_by(LIMIT + 3)
    assert training.verdict.words == "rank 0 is quiet at first step, for longer than anything that is known of it"


def test_a_recovery_is_no_hang_and_counts_for_nothing() -> None:
    training = at_work(timeout=None)
    training.recover(2.0, ranks=(3,))
    training.hangs.watch(training.now, going=False)
    training.look()
    assert training.verdict == Verdict(GOES_ON, words=RECOVERS)
    training.hangs.watch(training.now, going=True)
    training.hangs.watch(training.now, going=True)
    training.pass_by(60)
    assert training.verdict == Verdict(GOES_ON), "old marks of the others count from the begin on"


def test_a_replaced_rank_that_tells_nothing_has_not_come_as_far() -> None:
    training = at_work(timeout=None)
    training.recover(2.0, ranks=(3,))
    training.pass_by(FLOOR_S + 3)
    assert training.verdict.state == HUNG and training.named == [3]
    assert training.verdict.guilty[0].words == "has told nothing since its start"


def test_all_nodes_silent_is_the_network() -> None:
    training = at_work()
    training.silent |= {0, 1}
    assert training.hangs.wake == training.now + STALE_S + LOOK_S
    training.quiet()
    assert training.verdict == Verdict(UNKNOWN, words=NETWORK)
    assert training.hangs.wake == float("inf")
    training.silent.clear()
    training.now += 600.0
    training.look()
    training.pass_by(1)
    assert training.verdict == Verdict(GOES_ON), "the gap counts for nothing"


def test_a_node_out_of_sight_is_unknown() -> None:
    training = at_work()
    training.silent.add(1)
    training.enter()
    training.pass_by(LIMIT + 3)
    assert training.verdict == Verdict(UNKNOWN, words="node 1 is out of sight: its Agent does not report")


def test_a_killed_manager_keeps_suspicion_and_limits() -> None:
    training = at_work(timeout=None)
    training.step(0, 1, 2)
    training.ranks[3].seen = Seen.STOPPED
    training.pass_by(FLOOR_S + 1)
    assert training.verdict.state == SUSPECTED and training.named == [3]
    before, lengths = training.verdict, training.hangs.lengths
    training.again()
    assert training.verdict == before and training.hangs.lengths == lengths
    training.now += 20.0
    assert not training.hangs.look(training.now, None) and training.verdict == before, "no node has come yet"
    training.look(1)
    assert training.verdict == before
    training.look(0)
    assert training.verdict == replace(before, state=HUNG)
    training.pass_by(2)
    assert training.named == [3]


def test_a_node_that_does_not_come_to_the_next_manager_is_out_of_sight() -> None:
    training = at_work()
    training.again()
    training.silent.add(0)
    training.pass_by(STALE_S + 3)
    assert training.verdict.words == "node 0 is out of sight: its Agent does not report"


def test_an_age_that_cannot_be_makes_a_rank_unknown() -> None:
    training = at_work(1, 2, None)
    training.recover(0.0, ranks=())
    training.steps(3)
    training.now += 1.0
    progress = training.progress(0)
    training.hangs.began = 1.0
    lie = replace(
        progress, slowest=tuple(replace(each, marked=2 * LIE_S) for each in progress.slowest), marked=2 * LIE_S
    )
    for _ in range(3):
        training.now += 1.0
        training.hangs.take(training.now, 0, lie, None)
    assert training.verdict.state == UNKNOWN and training.verdict.guilty == []
    training.steps(2)
    assert training.verdict == Verdict(GOES_ON)


def test_numbers_that_are_too_far_apart_name_nobody() -> None:
    training = at_work(1, 2)
    training.ranks[1].group = training.ranks[1].step = 2**62
    training.pass_by(LIMIT + 3)
    assert training.verdict.state == HUNG and training.named == []


def test_steps_that_begin_again_are_not_compared() -> None:
    training = at_work(1, 4)
    for rank in training.ranks:
        rank.step = -1 + 1
        rank.marked = training.now
    training.now += 1.0
    training.look()
    training.ranks[3].step, training.ranks[3].marked = 9, training.now
    training.pass_by(LIMIT + 3)
    assert training.verdict.state == HUNG and training.named == []


def test_steps_before_those_of_the_last_attempt_may_be_compared() -> None:
    training = at_work(1, 2, steps=10)
    training.recover(1.0, ranks=(1,))
    training.pass_by(1)
    for rank in training.ranks:
        rank.step, rank.marked, rank.group = 4, training.now, 1
    training.steps(2)
    training.step(0)
    training.pass_by(LIMIT + 3)
    assert not training.hangs.steps_fell and training.verdict.guilty[0].words.startswith("its last step is 6")


def test_collectives_of_two_groups_are_not_compared() -> None:
    training = at_work(1, 2)
    training.ranks[0].group, training.ranks[0].moved = 1, training.now
    training.pass_by(1)
    training.ranks[0].marked = training.ranks[1].marked = training.now
    training.pass_by(LIMIT + 3)
    assert training.verdict.state == HUNG and training.named == []
    training.ranks[1].group, training.ranks[1].moved = 1, training.now
    training.pass_by(2)
    training.enter(0, 1)
    training.enter(1)
    training.pass_by(2)
    assert training.named == [0]


def test_limits_are_learnt_again_for_another_number_of_ranks() -> None:
    training = at_work(timeout=None, steps=15)
    assert training.hangs.world == 4 and training.hangs.lengths
    training.recover(1.0)
    training.ranks = training.ranks[:2]
    training.steps(1)
    assert training.hangs.lengths[FIRST].count, "kept until the size is known"
    count = training.hangs.lengths[STEPS].count
    training.steps(12)
    assert training.hangs.world == 2 and training.hangs.lengths[STEPS].count < count


def test_a_script_that_marks_nothing_is_reported_and_never_suspected() -> None:
    training = Training(2, 2, LIMIT, marks=False)
    training.look()
    assert training.verdict == Verdict(UNKNOWN, words=UNMARKED)
    training.steps(5)
    assert training.verdict == Verdict(GOES_ON, words=UNMARKED)
    assert training.hangs.lengths[COLLECTIVES].count
    training.enter(0, 1, 3)
    training.pass_by(1000)
    assert training.verdict.state == UNKNOWN and training.named == [2]
    training.timeout = None
    training.steps(1)
    training.pass_by(FLOOR_S - 2)
    assert training.verdict == Verdict(GOES_ON, words=UNMARKED)


def test_only_the_marking_rank_is_measured_where_others_mark_nothing() -> None:
    training = at_work()
    for rank in training.ranks[1:]:
        rank.step = rank.marked = None
    training.enter(0, 2, 3)
    training.pass_by(LIMIT + 3)
    assert training.verdict.state == HUNG and training.named == [1]


def test_an_interval_of_a_rank_that_is_not_described_ends_with_the_step_of_all() -> None:
    training = at_work(1, 8, None)
    count = training.hangs.lengths[STEPS].count
    training.pass_by(7)
    assert list(training.hangs.nodes[0].open) == [0], "it stands for its equals"
    training.step()
    training.step(0, 1, 2, 3)
    training.pass_by(1)
    assert training.hangs.lengths[STEPS].longest >= 7.0 and training.hangs.lengths[STEPS].count == count + 1


def test_a_large_job_is_judged_once_a_second() -> None:
    training = at_work(EACH_LOOK + 1, 1)
    training.hangs.judged = training.now
    training.now += 0.001
    assert not training.hangs.take(training.now, 0, training.progress(0), LIMIT)
    assert training.hangs.judged < training.now


def test_memory_is_bounded() -> None:
    training = at_work(1, 1, None)
    for number in range(PLACES_MOST + 5):
        training.section(f"s{number}")
        training.pass_by(1)
    assert len(training.hangs.lengths) == PLACES_MOST
    for number in range(0, 8 * OPEN_MOST, 4):
        slowest = tuple(RankProgress(number + each, step=7, group=1, marked=0.5, moved=0.5) for each in range(4))
        training.hangs.take(training.now, 0, NodeProgress(999, 999, 999, 7, 7, slowest=slowest, marked=0.5), None)
    assert len(training.hangs.nodes[0].open) <= OPEN_MOST + 4


def test_many_odd_processes_are_listed_in_part() -> None:
    training = at_work(8, 4)
    training.enter()
    for rank in training.ranks:
        rank.seen = Seen.DISK
    training.pass_by(LIMIT + 3)
    assert training.named == list(range(LISTED_MOST))


def story() -> Training:
    """A training of two nodes from its start on, with three hangs, and what comes between."""
    training = Training(2, 2)
    training.say("It starts, and loads: nothing is known of the first step.")
    training.look()
    training.section("load")
    training.pass_by(40)
    training.section("")
    training.pass_by(20)
    training.say("Steps of a second, an evaluation, a checkpoint.")
    training.steps(20)
    training.pass_by(30)
    training.section("checkpoint")
    training.pass_by(90)
    training.section("")
    training.steps(5)
    training.say("Rank 2 is stopped in a collective.")
    training.enter()
    training.ranks[2].seen = Seen.STOPPED
    training.pass_by(FLOOR_S + 3)
    training.say("The Manager is killed.")
    training.again()
    training.pass_by(3)
    training.say("Rank 2 goes on.")
    training.ranks[2].seen = Seen.RUNS
    training.steps(3)
    training.say("Rank 1 waits for its loader for ever.")
    training.enter(0, 2, 3)
    training.section("data", 1)
    training.hangs.lengths[f"{SECTION}data"] = Lengths(9, 9.0, 1.0)
    training.pass_by(FLOOR_S + 4)
    training.say("It is restarted in place, and does not come back.")
    training.recover(4.0, ranks=(1,))
    training.pass_by(FLOOR_S + 3)
    training.say("All start again. No node is heard, then one of two, then both.")
    training.recover(9.0)
    training.steps(5)
    training.silent = {0, 1}
    training.quiet()
    training.silent = {1}
    training.pass_by(6)
    training.silent = set()
    training.pass_by(6)
    training.say("One node is left, so all is learnt again.")
    training.recover(9.0)
    training.ranks = training.ranks[:2]
    training.steps(20)
    training.say("Both end.")
    training.ranks[0].seen = training.ranks[1].seen = Seen.ENDED
    training.pass_by(2)
    return training


def test_transcript(request: pytest.FixtureRequest) -> None:
    transcript = "\n".join(story().lines) + "\n"
    if request.config.getoption("--rewrite-golden"):
        GOLDEN.write_text(transcript, "utf-8")
    assert transcript == GOLDEN.read_text("utf-8")
