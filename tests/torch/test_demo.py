"""`taskd-net demo training`: the scenarios, on real torch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taskd_net.demo.training import scenarios
from taskd_net.demo.training.scenarios import SCENARIOS, Scenario, play
from taskd_net.demo.training.stage import Stage

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
async def test_scenario_goes_as_expected(scenario: Scenario) -> None:
    result = await play(scenario)
    assert result.ok, "\n".join(result.problems)


async def test_scenario_without_one_of_its_steps_fails() -> None:
    """Nobody starts node 1 again."""

    async def nobody_returns(stage: Stage) -> None:
        await stage.start_job()
        await stage.until_step(scenarios.FIRST)
        stage.kill(3)
        await stage.ended(1)

    worker_killed = next(each for each in SCENARIOS if each.name == "worker-killed")
    result = await play(replace(worker_killed, play=nobody_returns))
    assert not result.ok and any("Agent/1" in problem for problem in result.problems), result.problems
