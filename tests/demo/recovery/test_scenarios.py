"""The scenarios of recovery in real processes: played as they are, and with a broken step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taskd_net.demo.job.run import Result, play, play_all, problems
from taskd_net.demo.job.terms import COMMAND, ENDED, REPLY
from taskd_net.demo.recovery.manager import SAYS
from taskd_net.demo.recovery.scenarios import SCENARIOS
from tests.demo.job.test_scenarios import broken, runs

BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}


def check(result: Result) -> None:
    """Assert that a result is well, and that each piece of its evidence counts."""
    assert result.problems == ()
    assert not any(map(runs, {each.pid for each in result.seen}))
    scenario = BY_NAME[result.name]
    for place, each in enumerate(result.seen):
        for wrong in broken(result.seen, place) if each.what in (COMMAND, ENDED, REPLY) else ():
            # An exit code of 0 changed to 0 is nothing broken.
            assert wrong == list(result.seen) or problems(scenario, wrong), each


async def test_a_recovery_leaves_the_expected_evidence() -> None:
    check(await play(BY_NAME["recover"]))


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_all_recoveries_leave_the_expected_evidence() -> None:
    shown: list[Result] = []
    results = await play_all(SCENARIOS, shown.append)
    assert sorted(result.name for result in shown) == sorted(BY_NAME)
    for result in results:
        check(result)


async def test_a_framework_that_says_another_code_is_noticed() -> None:
    scenario = BY_NAME["retry"]
    # The end of the scenario never comes.
    result = await play(replace(scenario, variables={SAYS: '{"retry": [499]}'}), patience=8.0)
    assert not result.ok
    assert any(problem.startswith("replies: ") and "RecoverStatus 499" in problem for problem in result.problems)
