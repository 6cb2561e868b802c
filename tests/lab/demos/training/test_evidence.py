"""The expected course of a training: evidence that differs in one point is found."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from taskd_net_lab.demos.training.evidence import STEPS, Course, Evidence, Step
from taskd_net_lab.demos.training.scenarios import SCENARIOS, Scenario
from tests.documents.pages import ROOT


def loss(step: int) -> float:
    return 8.0 / (step + 1)


def steps(pids: list[int], rank: int, last: int) -> list[Step]:
    """A rank's steps; each process but the last ends after step 5, and the next one does that step again."""
    found = []
    begin = 0
    for pid in pids:
        end = last if pid == pids[-1] else 5
        found += [Step(rank, pid, step, loss(step)) for step in range(begin, end + 1)]
        begin = end
    return found


def seen(course: Course) -> Evidence:
    """The evidence of a course."""
    pids = {rank: [100 * rank + life for life in range(lives)] for rank, lives in course.lives.items()}
    last = STEPS - 1 if course.ends else 20
    every = [step for rank in pids for step in steps(pids[rank], rank, last)]
    exits = {who: list(codes) for who, codes in course.exits.items()}
    return Evidence(
        pids, exits, every, sum(course.lives.values()), {who: f"{course.words[who]} …" for who in course.words}
    )


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_expected_course_has_no_difference(scenario: Scenario) -> None:
    course = scenario.expected
    assert list(course.differences(seen(course))) == []


def another_process(evidence: Evidence) -> None:
    evidence.pids[0].append(7)


def no_process(evidence: Evidence) -> None:
    del evidence.pids[2]


def other_exit(evidence: Evidence) -> None:
    evidence.exits["Agent/0"][-1] += 1


def no_exit(evidence: Evidence) -> None:
    del evidence.exits["Agent/1"]


def missing_log(evidence: Evidence) -> None:
    evidence.logs -= 1


def left_process(evidence: Evidence) -> None:
    evidence.left.append(7)


def other_loss(evidence: Evidence) -> None:
    evidence.steps[3] = replace(evidence.steps[3], loss=9.0)


def gap(evidence: Evidence) -> None:
    del evidence.steps[3]


def repeated_step(evidence: Evidence) -> None:
    evidence.steps.insert(3, evidence.steps[2])


def foreign_process(evidence: Evidence) -> None:
    evidence.steps[3] = replace(evidence.steps[3], pid=7)


def no_steps(evidence: Evidence) -> None:
    evidence.steps = [step for step in evidence.steps if step.rank != 1]


PROCESSES = (another_process, no_process, other_exit, no_exit, missing_log, left_process)
LOSSES = (other_loss, gap, repeated_step, foreign_process, no_steps)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
@pytest.mark.parametrize("broken", [*PROCESSES, *LOSSES], ids=lambda broken: broken.__name__)
def test_each_deviation_is_a_problem(scenario: Scenario, broken: Callable[[Evidence], None]) -> None:
    course = scenario.expected
    evidence = seen(course)
    broken(evidence)
    assert list(course.differences(evidence)) != []


@pytest.mark.parametrize("scenario", [each for each in SCENARIOS if each.expected.ends], ids=lambda each: each.name)
def test_training_that_begins_again_or_stops_early_is_a_problem(scenario: Scenario) -> None:
    course = scenario.expected
    evidence = seen(course)
    evidence.steps = [step for step in evidence.steps if step.step < STEPS - 1]
    assert any("ended with step 38" in problem for problem in course.differences(evidence))
    evidence = seen(course)
    for rank, pids in evidence.pids.items():
        evidence.steps += [Step(rank, pids[-1] + 50, step, loss(step)) for step in range(STEPS)]
        pids.append(pids[-1] + 50)
    again = replace(course, lives={rank: lives + 1 for rank, lives in course.lives.items()})
    assert any("gone back from step 39 to 0" in problem for problem in again.differences(evidence))


@pytest.mark.parametrize("scenario", [each for each in SCENARIOS if each.expected.words], ids=lambda each: each.name)
@pytest.mark.parametrize("words", ["Killed", None])
def test_launcher_with_other_last_words_is_a_problem(scenario: Scenario, words: str | None) -> None:
    evidence = seen(scenario.expected)
    del evidence.words["Agent/1"]
    if words is not None:
        evidence.words["Agent/1"] = words
    (problem,) = scenario.expected.differences(evidence)
    assert problem.startswith(f"Agent/1 said last: {words or 'nothing'!r}; expected ")


def test_table_of_the_documents_has_every_scenario() -> None:
    table = (ROOT / "docs" / "training.md").read_text().partition("| scenario | course |\n|---|---|\n")[2]
    rows = table.partition("\n\n")[0].splitlines()
    named = [name for row in rows for name in re.findall(r"`([a-z0-9-]+)`", row.split("|")[1])]
    assert sorted(named) == sorted(each.name for each in SCENARIOS)


def test_loss_that_does_not_fall_is_a_problem() -> None:
    course = SCENARIOS[0].expected
    evidence = seen(course)
    evidence.steps = [replace(step, loss=1.0) for step in evidence.steps]
    assert list(course.differences(evidence)) == ["the loss went from 1.0 to 1.0; expected less than half"]


@pytest.mark.parametrize("scenario", [each for each in SCENARIOS if not each.expected.ends], ids=lambda each: each.name)
def test_training_that_comes_to_its_end_all_the_same_is_a_problem(scenario: Scenario) -> None:
    evidence = seen(replace(scenario.expected, ends=True))
    assert any(
        "ended with step 39; expected an earlier end" in each for each in scenario.expected.differences(evidence)
    )
