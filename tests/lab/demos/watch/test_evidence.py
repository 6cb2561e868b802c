"""The verdict of `demo watch`: evidence that differs in one point is found."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from taskd_net.base.cause import Place
from taskd_net.base.progress import Seen
from taskd_net.base.stacks import StackGroup
from taskd_net_lab.demos.watch.evidence import EARLY_S, LATE_S, LIMIT_S, Evidence, Hang, Healthy, Look, listed
from taskd_net_lab.demos.watch.scenarios import SCENARIOS, Watched
from taskd_net_lab.demos.watch.terms import EVALUATION_S, EVALUATIONS
from tests.documents.pages import ROOT

HURT = frozenset({1, 2})
EXPECTED = Hang(HURT, "read_shard")
BUSY = Healthy(frozenset({3}), EVALUATIONS * EVALUATION_S)
STACK = (Place("/job/train.py", 7, "read_shard"), Place("/job/train.py", 9, "<module>"))
WAITS = (Place("/torch.py", 3, "all_reduce"),)


def hung() -> Evidence:
    """The evidence of a job in which two ranks were hurt at 100."""
    looks = [
        Look(100.0, "goes on"),
        Look(105.9, "suspected", frozenset({2})),
        Look(107.0, "hung", HURT),
        Look(108.0, "hung"),
    ]
    return Evidence(
        dict.fromkeys(HURT, 100.0), looks, [StackGroup({1: 11, 2: 12}, stack=STACK), StackGroup({0: 10}, stack=WAITS)]
    )


def healthy() -> Evidence:
    """The evidence of a job in which one rank was busy from 100 on."""
    looks = [Look(100.0 + second, "goes on") for second in range(20)]
    return Evidence({3: 100.0}, looks, exit=0)


def test_evidence_as_expected_has_no_difference() -> None:
    assert list(EXPECTED.differences(hung())) == []
    assert list(BUSY.differences(healthy())) == []


def test_not_known_is_an_answer() -> None:
    seen = hung()
    seen.looks = [replace(each, named=frozenset()) for each in seen.looks]
    assert list(EXPECTED.differences(seen)) == []


def late(seen: Evidence) -> None:
    seen.looks[2:] = [Look(100.2 + LIMIT_S + LATE_S, "hung")]


def early(seen: Evidence) -> None:
    seen.looks[1] = Look(99.8 + LIMIT_S - EARLY_S, "suspected")


def never(seen: Evidence) -> None:
    del seen.looks[2:]


def wrong_for_a_moment(seen: Evidence) -> None:
    seen.looks[2] = Look(107.0, "hung", frozenset({0, 1}))


def other_rank(seen: Evidence) -> None:
    seen.hurt = {1: 100.0, 3: 100.0}


def no_stack(seen: Evidence) -> None:
    del seen.stacks[0]


def other_function(seen: Evidence) -> None:
    seen.stacks[0] = replace(seen.stacks[0], stack=WAITS)


def no_function(seen: Evidence) -> None:
    seen.stacks[0] = replace(seen.stacks[0], stack=(), why="it has not answered within 1 s")


def other_state(seen: Evidence) -> None:
    seen.stacks[0] = replace(seen.stacks[0], seen=Seen.STOPPED)


def stack_of_others(seen: Evidence) -> None:
    seen.stacks = [StackGroup({rank: 10 + rank for rank in range(4)}, stack=STACK)]


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (late, "the job was called hung after 8.2 s; expected at most 8 s"),
        (early, "the job was suspected after 4.3 s; expected at least 5 s"),
        (never, "the Manager has not called the job hung"),
        (wrong_for_a_moment, "the Manager has named rank 0; expected rank 1, 2"),
        (other_rank, "rank 1, 3 held the job up; expected rank 1, 2"),
        (no_stack, "rank 1 has no stack"),
        (other_function, "rank 1 is in all_reduce; expected read_shard"),
        (no_function, "rank 1 is in no function; expected read_shard"),
        (other_state, "rank 1 stopped; expected runs"),
        (stack_of_others, "rank 0, 1, 2, 3 have the same stack; expected rank 1, 2"),
    ],
)
def test_hang_that_is_judged_otherwise_is_a_problem(broken: Callable[[Evidence], None], words: str) -> None:
    seen = hung()
    broken(seen)
    assert words in list(EXPECTED.differences(seen))


def suspected(seen: Evidence) -> None:
    seen.looks[9] = Look(109.0, "suspected")


def named(seen: Evidence) -> None:
    seen.looks[9] = Look(109.0, "unknown", frozenset({3}))


def not_asked(seen: Evidence) -> None:
    del seen.looks[5:]


def fails(seen: Evidence) -> None:
    seen.exit = 1


def nobody_busy(seen: Evidence) -> None:
    seen.hurt = {}


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (suspected, "the job was suspected after 9.0 s, and is healthy"),
        (named, "the Manager has named rank 3; expected no rank"),
        (not_asked, "the Manager was not asked while the job was quiet"),
        (fails, "the launcher left with 1; expected 0"),
        (nobody_busy, "no rank was busy; expected rank 3"),
    ],
)
def test_healthy_job_that_is_judged_otherwise_is_a_problem(broken: Callable[[Evidence], None], words: str) -> None:
    seen = healthy()
    broken(seen)
    assert words in list(BUSY.differences(seen))


def test_each_part_of_the_evaluation_is_below_the_limit_and_all_are_far_above() -> None:
    assert EVALUATION_S < LIMIT_S and EVALUATIONS * EVALUATION_S > 2 * LIMIT_S


def test_result_in_words_and_as_json() -> None:
    result = Watched("in-the-loader", 1.0, (), (), 6.25, frozenset({2}), "read_shard, trainee.py, line 7")
    assert result.words == "noticed after 6.2 s | named: rank 2 | where: read_shard, trainee.py, line 7"
    assert result.as_json() == {
        "name": "in-the-loader",
        "ok": True,
        "seconds": 1.0,
        "noticed_after": 6.25,
        "named": [2],
        "where": "read_shard, trainee.py, line 7",
    }
    assert replace(result, named=frozenset()).words == (
        "noticed after 6.2 s | named: not known | where: read_shard, trainee.py, line 7"
    )
    assert replace(result, noticed_after=None).words == "no hang"
    assert listed(frozenset()) == "no rank"


def test_table_of_the_documents_has_every_scenario() -> None:
    table = (ROOT / "docs" / "watching.md").read_text().partition("| scenario | course |\n|---|---|\n")[2]
    rows = table.partition("\n\n")[0].splitlines()
    written = [name for row in rows for name in re.findall(r"`([a-z0-9-]+)`", row.split("|")[1])]
    assert sorted(written) == sorted(each.name for each in SCENARIOS)
