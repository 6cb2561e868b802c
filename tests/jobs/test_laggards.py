"""The guess of the ranks that hold up the others."""

from __future__ import annotations

import pytest

from taskd_net.base.progress import RankProgress, Seen
from taskd_net.job.decide.laggards import APART_MOST, LISTED_MOST, NAMED_MOST, Described, Guess, Leaders, guess


def rank(number: int, step: int | None = 9, group: int | None = 9, *, odd: bool = False, **more: object) -> Described:
    """A rank that marks its steps, two to a node."""
    progress = RankProgress(number, step=step, group=group, marked=20.0)
    for name, value in more.items():
        object.__setattr__(progress, name, value)
    return Described(number // 2, progress, odd)


def named(found: Guess) -> list[int]:
    return [each.rank.rank for each, _ in found.guilty]


FOUR = Leaders(9, 9, 4)


@pytest.mark.parametrize(
    ("late", "words"),
    [
        (rank(2, 8, 8), "its last step is 8, and 9 that of others"),
        (rank(2, 9, 8), "has entered 8 collectives, and others 9"),
        (rank(2, 9, 8, section="data"), "has entered 8 collectives, and others 9; is in the section data"),
        (
            rank(2, 8, 9, odd=True, seen=Seen.STOPPED),
            "is stopped (SIGSTOP); its last step is 8, and 9 that of others",
        ),
    ],
)
def test_the_rank_behind_is_guilty(late: Described, words: str) -> None:
    assert guess([rank(0), rank(1), late, rank(3)], FOUR) == Guess(((late, words),))


def test_the_lowest_step_counts_before_the_lowest_collective() -> None:
    assert named(guess([rank(0, 8, 9), rank(1, 9, 8), rank(2), rank(3)], FOUR)) == [0]
    assert named(guess([rank(0, 8, 8), rank(1, 8, 7), rank(2), rank(3)], FOUR)) == [1]


def test_collectives_of_a_frozen_process_are_old_and_no_words() -> None:
    stopped = rank(2, 9, 3, odd=True, seen=Seen.STOPPED)
    assert guess([rank(0), rank(1), stopped, rank(3)], FOUR) == Guess(((stopped, "is stopped (SIGSTOP)"),))
    ended = rank(2, 8, 3, odd=True, seen=Seen.ENDED)
    assert named(guess([rank(0), rank(1, 8, 9), ended, rank(3)], FOUR)) == [2], "it counts by its step"
    assert named(guess([rank(0), rank(1, 8, 7), ended, rank(3)], FOUR)) == [2]


def test_two_are_named_and_three_are_not() -> None:
    many = [rank(number, 9, 8) for number in range(NAMED_MOST + 1)]
    assert named(guess([*many[:-1], rank(6), rank(7)], FOUR)) == [0, 1]
    found = guess([*many, rank(6), rank(7), rank(8)], Leaders(9, 9, 6))
    assert found == Guess(words="several ranks are equally far behind, among them 0, 1, 2")
    assert named(guess([rank(0, 9, 8), rank(1, 9, 8), rank(2)], Leaders(9, 9, 3))) == [], "most are no exception"


def test_an_odd_process_counts_among_those_behind_alone() -> None:
    stopped, behind = rank(0, odd=True, seen=Seen.STOPPED), rank(1, 9, 8)
    assert named(guess([stopped, behind, rank(2)], FOUR)) == [1]
    both = [rank(0, 9, 8, odd=True, seen=Seen.HOLDS), rank(1, 9, 8), rank(2, 9, 8), rank(3)]
    assert named(guess(both, FOUR)) == [0]
    all_in_disk = [rank(number, odd=True, seen=Seen.DISK) for number in range(LISTED_MOST + 9)]
    assert named(guess(all_in_disk, Leaders(9, 9, 99))) == list(range(LISTED_MOST))


def test_equal_ranks_tell_nothing() -> None:
    assert guess([rank(0), rank(1)], FOUR) == Guess(words="all ranks are equally far, and their processes run")


@pytest.mark.parametrize("leaders", [Leaders(None, None, 4), Leaders(9 + APART_MOST, 8 + APART_MOST + 2, 4)])
def test_numbers_that_cannot_be_compared_tell_nothing(leaders: Leaders) -> None:
    assert named(guess([rank(0, 8, 8), rank(1)], leaders)) == []


def test_one_rank_without_a_number_makes_it_useless() -> None:
    assert named(guess([rank(0, None, 9), rank(1, 8, 9), rank(2)], FOUR)) == []
    assert named(guess([rank(0, 9, None), rank(1, 9, 8), rank(2)], FOUR)) == []
    assert named(guess([rank(0, None, 9), rank(1, 8, 8), rank(2)], FOUR)) == [1], "by its collectives"
    assert named(guess([], FOUR)) == []


def test_a_node_that_is_described_in_part_may_hide_others() -> None:
    ranks = [rank(0, 9, 8), rank(2), rank(4)]
    assert named(guess(ranks, Leaders(9, 9, 6, [1]))) == [0]
    assert named(guess(ranks, Leaders(9, 9, 6, [0]))) == []


def silent(number: int, *, renewed: bool) -> Described:
    return Described(number // 2, RankProgress(number), renewed=renewed)


def test_a_rank_that_tells_nothing_is_behind_where_it_told_before() -> None:
    found = guess([rank(0), rank(1, 9, 8), silent(2, renewed=True)], FOUR)
    assert named(found) == [2] and found.guilty[0][1] == "has told nothing since its start"
    assert named(guess([rank(0), rank(1, 9, 8), silent(2, renewed=False)], FOUR)) == []
    assert named(guess([silent(1, renewed=True), silent(2, renewed=True)], FOUR)) == []


def test_a_rank_that_has_ended_is_guilty_only_behind_the_others() -> None:
    ended = rank(3, 8, 8, odd=True, seen=Seen.ENDED)
    assert named(guess([rank(0), rank(1), ended], FOUR)) == [3]
    found = guess([rank(0), rank(1), rank(3, odd=True, seen=Seen.ENDED)], FOUR)
    assert found == Guess(words="a rank has ended that is not behind the others", ends=True)
    assert guess([rank(0, 9, 8), rank(1), rank(3, odd=True, seen=Seen.ENDED)], FOUR).ends
