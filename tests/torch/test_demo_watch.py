"""`taskd-net demo watch`: the scenarios, on real torch."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from typing import Final

import pytest

from taskd_net_lab.demos.watch import scenarios
from taskd_net_lab.demos.watch.scenarios import SCENARIOS, Scenario, play
from taskd_net_lab.demos.watch.stage import WORLD, Stage
from taskd_net_lab.demos.watch.terms import CODE

pytestmark = pytest.mark.timeout(300)

BRIEF_S: Final = 15.0
"""Seconds for each step of a training that goes otherwise. Four processes import torch in the first one."""

BY_NAME: Final = {each.name: each for each in SCENARIOS}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
async def test_scenario_goes_as_expected(scenario: Scenario) -> None:
    result = await play(scenario)
    assert result.ok, "\n".join(result.problems)
    assert scenario.healthy or result.named, result.words


async def test_scenario_without_its_fault_fails() -> None:
    result = await play(replace(BY_NAME["in-its-code"], fault=""), BRIEF_S)
    assert "no rank held the job up" in " ".join(result.problems)
    assert result.as_json()["noticed_after"] is None and result.words == "no hang"


async def test_healthy_job_that_stands_still_fails() -> None:
    result = await play(replace(BY_NAME["long-evaluation"], fault=CODE), BRIEF_S)
    assert any(each.endswith("and is healthy") for each in result.problems), result.problems
    assert "the launcher left with None; expected 0" in result.problems


class OneFurther(Stage):
    """A stage that stops the next rank, and does not look at stacks."""

    def stop(self) -> None:
        for rank in self._hurt:
            os.kill(self.evidence.pids[(rank + 1) % WORLD][-1], signal.SIGSTOP)
        self.seen.hurt = dict.fromkeys(self._hurt, time.monotonic())

    async def look_at_stacks(self) -> None:
        pass


async def test_name_of_another_rank_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Manager names the rank that was stopped, which is not the one that the demo believes."""
    monkeypatch.setattr(scenarios, "Stage", OneFurther)
    result = await play(BY_NAME["stopped"])
    (wrong,) = [each for each in result.problems if each.startswith("the Manager has named")]
    (named,) = result.named
    assert wrong == f"the Manager has named rank {named}; expected rank {(named - 1) % WORLD}"
