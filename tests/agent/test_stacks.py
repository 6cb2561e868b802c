"""Stacks of processes: read, grouped, and in words."""

from __future__ import annotations

import faulthandler
import json
import tempfile
import threading
from dataclasses import replace

import pytest

from taskd_net.base.cause import Place
from taskd_net.base.progress import Seen
from taskd_net.base.stacks import (
    NODE_CHARS,
    RankStack,
    StackGroup,
    grouped,
    joined,
    named,
    read_stacks,
    read_threads,
    words,
    write_stacks,
)

WAITS = (Place("distributed.py", 7, "all_reduce"), Place("train.py", 30, "main"))
LOADS = (Place("train.py", 12, "load"), Place("train.py", 30, "main"))


def test_threads_of_faulthandler_are_read_with_the_main_thread_last() -> None:
    begun, end = threading.Event(), threading.Event()

    def other() -> None:
        begun.set()
        end.wait()

    thread = threading.Thread(target=other)
    thread.start()
    begun.wait()
    with tempfile.TemporaryFile() as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        text = file.read().decode()
    end.set()
    thread.join()
    threads = read_threads(text)
    assert threads[-1][0].function == test_threads_of_faulthandler_are_read_with_the_main_thread_last.__name__
    assert threads[-1][0].file == __file__
    assert any(place.function == "other" for stack in threads[:-1] for place in stack)


def test_what_is_no_frame_is_left_out() -> None:
    frames = '  File "a.py", line 3 in f\n' * 200
    text = f'  File "before.py", line 1 in g\nThread 0x7f (most recent call first):\n  <no Python frame>\n{frames}'
    text += 'Current thread 0x1a [main] (most recent call first):\n  File "b.py", line 99999999999 in g\n  ...\n'
    assert read_threads(text) == ((Place("a.py", 3, "f"),) * 100, ())
    assert read_threads("") == ()


def test_ranks_with_equal_stacks_are_one_group_and_the_odd_one_comes_first() -> None:
    ranks = [RankStack(rank, 100 + rank, threads=(LOADS, WAITS)) for rank in (0, 1, 3)]
    ranks.append(RankStack(2, 102, wchan="hrtimer_nanosleep", threads=(LOADS,)))
    ranks.append(RankStack(4, 104, Seen.STOPPED, why="a process that does not run writes no stack"))
    found = grouped(ranks)
    assert [group.ranks for group in found] == [[2], [4], [0, 1, 3]]
    assert (found[2].stack, found[2].others, found[2].pids) == (WAITS, (LOADS,), {0: 100, 1: 101, 3: 103})
    assert words(found) == [
        "rank 2, in the kernel's hrtimer_nanosleep, the most recent call first:",
        "  train.py, line 12, in load",
        "  train.py, line 30, in main",
        "rank 4 is stopped (SIGSTOP): a process that does not run writes no stack",
        "ranks 0-1,3, the most recent call first:",
        "  distributed.py, line 7, in all_reduce",
        "  train.py, line 30, in main",
    ]


@pytest.mark.parametrize("seen", list(Seen))
def test_states_of_several_are_in_the_plural(seen: Seen) -> None:
    one, two = (words([StackGroup(pids, seen, why="none")]) for pids in ({1: 1}, {1: 1, 2: 2}))
    assert seen is Seen.RUNS or one[0].startswith(("rank 1 is ", "rank 1 w", "rank 1 h"))
    assert seen is Seen.RUNS or two[0].startswith(("ranks 1-2 are ", "ranks 1-2 w", "ranks 1-2 h"))


def test_groups_of_nodes_are_put_together() -> None:
    first, second = StackGroup({0: 1}, stack=WAITS), StackGroup({8: 2}, stack=WAITS)
    assert joined([first, second, StackGroup({9: 3}, stack=LOADS)]) == [
        StackGroup({9: 3}, stack=LOADS),
        StackGroup({0: 1, 8: 2}, stack=WAITS),
    ]


def test_groups_travel_as_they_are() -> None:
    groups = grouped([RankStack(0, 7, wchan="futex_wait", threads=(LOADS, WAITS)), RankStack(1, why="none")])
    assert read_stacks(write_stacks(groups)) == groups


@pytest.mark.parametrize("ranks", [1, 300])
def test_text_of_a_node_is_bounded(ranks: int) -> None:
    deep = tuple(Place("f" * 500, line, "g" * 500) for line in range(100))
    groups = [
        StackGroup({rank: rank}, stack=(Place(str(rank), 1, ""), *deep), others=(deep,) * 9) for rank in range(ranks)
    ]
    text = write_stacks(groups)
    assert len(text) <= NODE_CHARS
    read = read_stacks(text)
    assert read and read[0].stack[0] == Place("0", 1, "")


def test_text_that_is_none_is_no_evidence() -> None:
    for text in ("", "{}", "7", "[", "[" * 200_000):
        assert read_stacks(text) is None
    good = {"pids": {"1": 7, "x": 2, "3": -1}, "seen": "flies", "stack": [["a", 1, "f"], ["a", "b", "c"], 7], "why": 1}
    bad = [7, {}, {"pids": []}, {"pids": {"x": 1}}]
    said = json.dumps([good, *bad, good | {"others": [7], "seen": "stopped"}])
    known = StackGroup({1: 7}, stack=(Place("a", 1, "f"),))
    assert read_stacks(said) == [known, replace(known, seen=Seen.STOPPED, others=((),))]


def test_ranks_in_words() -> None:
    assert (named([3]), named([0, 1, 2, 5]), named([1, 2])) == ("rank 3", "ranks 0-2,5", "ranks 1-2")
