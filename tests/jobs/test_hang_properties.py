"""Hangs under any interleaving of marks, looks, losses, recoveries and kills of the Manager."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from taskd_net.base.progress import Seen
from taskd_net.job.decide.hangs import GOES_ON, HUNG, SUSPECTED, UNKNOWN, UNWATCHED
from tests.jobs.training import Training, is_stuck

LIMIT = 10.0
LOOKS_S = 2.0
SIZES = st.tuples(st.integers(1, 4), st.integers(1, 3))
RANKS = st.integers(0, 11)

STEP = st.one_of(
    st.tuples(st.just("pass"), st.integers(1, 40)),
    st.tuples(st.just("work"), st.integers(1, 5)),
    st.tuples(st.just("step"), st.lists(RANKS, max_size=12, unique=True)),
    st.tuples(st.just("enter"), st.lists(RANKS, max_size=12, unique=True)),
    st.tuples(st.just("section"), st.lists(RANKS, max_size=3, unique=True)),
    st.tuples(st.just("leave"), st.none()),
    st.tuples(st.just("waits"), RANKS),
    st.tuples(st.just("lie"), st.tuples(RANKS, st.sampled_from([0, 1, 2**62]))),
    st.tuples(st.just("seen"), st.tuples(RANKS, st.sampled_from(list(Seen)))),
    st.tuples(st.just("lose"), st.integers(0, 3)),
    st.tuples(st.just("hear"), st.none()),
    st.tuples(st.just("recover"), st.lists(RANKS, max_size=3, unique=True)),
    st.tuples(st.just("kill"), st.none()),
)


class Watched(Training):
    """A training in which the verdict is checked at each look."""

    liars: set[int]

    def look(self, *nodes: int) -> None:
        """Looks of nodes arrive; a verdict names only ranks that had been quiet for longer than the limit."""
        super().look(*nodes)
        for each in self.verdict.guilty if is_stuck(self.verdict) else ():
            rank = self.ranks[each.rank]
            seen = self.hangs.nodes.get(each.node)
            if seen is None:
                continue  # the next Manager has the verdict of the one before
            quiet = seen.at - max(rank.marked or 0.0, self.hangs.began)
            assert quiet > LIMIT or (rank.marked or 0.0) > seen.at or rank.number in self.liars, each
            assert not rank.waits or rank.marked is not None

    def act(self, kind: str, what: object) -> None:
        """Something happens."""
        numbers = [each for each in what if each < len(self.ranks)] if isinstance(what, list) else []
        if kind == "pass":
            assert isinstance(what, int)
            self.pass_by(what)
        elif kind == "work":
            assert isinstance(what, int)
            self.steps(what)
        elif kind in ("step", "enter"):
            if numbers:
                (self.step if kind == "step" else self.enter)(*numbers)
        elif kind == "section":
            if numbers:
                self.section("data", *numbers)
        elif kind == "leave":
            self.section("")
        elif kind == "waits":
            assert isinstance(what, int)
            rank = self.ranks[what % len(self.ranks)]
            rank.waits, rank.marked = not rank.waits, self.now
        elif kind in ("lie", "seen"):
            assert isinstance(what, tuple)
            rank = self.ranks[what[0] % len(self.ranks)]
            if kind == "seen":
                rank.seen = what[1]
            else:
                rank.step = rank.group = what[1]
                self.liars.add(rank.number)
        elif kind == "lose":
            assert isinstance(what, int)
            self.silent.add(what)
        elif kind == "hear":
            self.silent.clear()
        elif kind == "recover":
            self.recover(3.0, numbers)
        else:
            self.again()


@settings(max_examples=60)
@given(size=SIZES, steps=st.lists(STEP, max_size=25))
def test_a_verdict_names_only_ranks_that_were_quiet_for_their_limit(
    size: tuple[int, int], steps: list[tuple[str, object]]
) -> None:
    training = Watched(*size, LIMIT)
    training.liars = set()
    training.look()
    for kind, what in steps:
        training.act(kind, what)
        assert training.verdict.state in (UNWATCHED, GOES_ON, UNKNOWN, SUSPECTED, HUNG)
    # A training goes on at once, after all of this, where its ranks mark in each second.
    training.silent.clear()
    training.hangs.watch(training.now, going=True)
    for rank in training.ranks:
        rank.seen, rank.waits, rank.section = Seen.RUNS, False, ""
    training.steps(3)
    assert training.verdict.state == GOES_ON


@settings(max_examples=60)
@given(
    size=st.tuples(st.integers(1, 4), st.integers(1, 3)).filter(lambda size: size[0] * size[1] > 1),
    guilty=RANKS,
    offsets=st.lists(st.floats(0.0, 0.99), min_size=4, max_size=4),
    alone=st.booleans(),
    lost=st.integers(0, 3),
    killed=st.integers(0, 30),
)
def test_a_rank_that_stands_still_is_found_within_its_limit_and_two_looks(
    size: tuple[int, int], guilty: int, offsets: list[float], alone: bool, lost: int, killed: int
) -> None:
    """The others wait for it in a collective, or go on without it. A node's looks are lost for a while, and the
    Manager is killed."""
    training = Watched(*size, LIMIT)
    training.liars = set()
    guilty %= len(training.ranks)
    training.look()
    training.steps(5)
    stood, number = training.now, 0
    others = training.all(guilty)
    if not alone:
        training.enter(*others)
    found = 0.0
    while not found and training.now < stood + 5 * LIMIT:
        number += 1
        begin = stood + number
        if alone:
            training.step(*others, now=begin - 1.0)
        for node in sorted(training.nodes, key=lambda each: offsets[each]):
            training.now = begin + offsets[node]
            if node != lost or not 2 <= number <= 4:
                training.look(node)
            if training.verdict.state == HUNG:
                found = found or training.now
        if number == killed:
            training.again()
    slack = 1.0 if killed else 0.0
    assert 0.0 < found - stood <= LIMIT + LOOKS_S + 1.0 + slack
    assert [each.rank for each in training.verdict.guilty] == [guilty]
