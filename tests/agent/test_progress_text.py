"""The progress of a node's ranks in a KEEP_ALIVE."""

from __future__ import annotations

import json

from taskd_net.base.progress import (
    SLOWEST,
    NodeProgress,
    RankProgress,
    Seen,
    Spent,
    furthest_behind,
    read_progress,
    write_progress,
)

WHOLE = NodeProgress(
    ranks=8,
    watched=8,
    marking=7,
    lowest=40,
    highest=41,
    low_group=3,
    high_group=4,
    marked=0.25,
    slowest=(
        RankProgress(5, 4711, Seen.STOPPED, 40, 3, "data", marked=12.5, moved=12.0),
        RankProgress(6, seen=Seen.ABSENT, waits=True),
    ),
    steps=42,
    again=2,
    samples=1344,
    of=1000,
    loss=0.125,
    spent={Spent.STEPS: 40.5, Spent.SAVE: 5.0},
)


def test_a_progress_travels_as_it_is() -> None:
    assert read_progress(write_progress(WHOLE)) == WHOLE


def test_what_is_not_known_takes_no_room() -> None:
    assert write_progress(NodeProgress(ranks=8)) == '{"ranks":8}'
    assert read_progress('{"ranks":8}') == NodeProgress(ranks=8)


def test_a_text_that_is_none_is_no_progress() -> None:
    for text in ("", "[]", "{", "{}", '{"ranks":-1}', '{"ranks":true}', '{"ranks":8' + " " * 16384 + "}"):
        assert read_progress(text) is None, text[:20]


def test_what_is_out_of_bounds_counts_as_not_said() -> None:
    numbers = {"lowest": 2**63, "watched": -1, "loss": 10**400, "marked": -0.5, "highest": "7", "low_group": True}
    spent = {"steps": 1e10, "data": 3, "sleep": 1.0}
    rank = {"rank": 1, "seen": "flies", "section": "s" * 99, "marked": "soon", "waits": 1}
    slowest = [rank, {"rank": "x"}, 7, *({"rank": each} for each in range(9))]
    found = read_progress(json.dumps({"ranks": 2, **numbers, "spent": spent, "slowest": slowest}))
    assert found is not None
    assert found.slowest[0] == RankProgress(1, section="s" * 32)
    assert len(found.slowest) <= SLOWEST
    assert (found.spent, found.loss, found.lowest, found.watched) == ({Spent.DATA: 3.0}, None, None, 0)
    for text in ('{"ranks":2,"loss":NaN}', '{"ranks":2,"loss":true}', '{"ranks":2,"spent":[],"slowest":{}}'):
        assert read_progress(text) == NodeProgress(ranks=2)


def test_slowest_ranks_come_first_and_those_with_a_reason_before_their_equals() -> None:
    ahead = RankProgress(0, step=9, group=4, marked=0.5)
    stopped = RankProgress(1, seen=Seen.STOPPED, step=8, group=4, marked=0.5)
    saves = RankProgress(2, step=8, group=4, section="checkpoint", marked=0.5)
    later, sooner = RankProgress(3, step=8, group=4, marked=0.5), RankProgress(4, step=8, group=4, marked=0.7)
    late = RankProgress(5, step=8, group=3, marked=0.5)
    waits = RankProgress(6, step=8, group=4, waits=True, marked=0.9)
    found = furthest_behind([ahead, stopped, saves, later, sooner, late, waits])
    assert [each.rank for each in found] == [5, 1, 6, 2]
    assert [each.rank for each in furthest_behind([ahead, later, sooner])] == [4, 3, 0]


def test_one_rank_that_tells_nothing_has_a_place_among_the_slowest() -> None:
    marking = [RankProgress(rank, step=rank, marked=1.0) for rank in range(5)]
    silent = [RankProgress(9), RankProgress(8)]
    assert [each.rank for each in furthest_behind([*silent, *marking])] == [0, 1, 2, 8]
    assert [each.rank for each in furthest_behind([*silent, marking[4]])] == [4, 8, 9]
    assert [each.rank for each in furthest_behind(silent)] == [8, 9]
    assert furthest_behind([]) == ()
