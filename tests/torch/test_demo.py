"""`taskd-net demo training`: the scenarios, on real torch."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest

from taskd_net import BlockingNode, NodeConfig
from taskd_net.demo.training import scenarios
from taskd_net.demo.training.scenarios import SCENARIOS, Scenario, play
from taskd_net.demo.training.stage import Stage
from tests.peers.original.applications import OriginalManager
from tests.peers.original.applications import Stage as Played

pytestmark = pytest.mark.timeout(600)

BRIEF_S = 3.0
"""Seconds for each step after one that was left out."""


RANGE = "worker-killed"
"""The scenario for other versions of torch: it starts, ends and restarts processes."""


def _marks(scenario: Scenario) -> list[pytest.MarkDecorator]:
    return [pytest.mark.torch_range] if scenario.name == RANGE else []


@pytest.mark.parametrize("scenario", [pytest.param(each, id=each.name, marks=_marks(each)) for each in SCENARIOS])
async def test_scenario_goes_as_expected(scenario: Scenario) -> None:
    result = await play(scenario)
    assert result.ok, "\n".join(result.problems)


class Faultless(Stage):
    """A stage on which no fault happens, and no command is sent."""

    def kill(self, rank: int) -> None:
        self._patience = BRIEF_S

    def freeze(self, rank: int) -> None:
        self._patience = BRIEF_S

    async def kill_daemon(self, who: str) -> None:
        self._patience = BRIEF_S

    def command(self, to: str, code: int, message: str = "", msg_type: str = "ACTION") -> None:
        self._patience = BRIEF_S


class Faulty(Stage):
    """A stage on which node 1 is lost when the training has begun."""

    async def ended(self, node: int) -> None:
        await self.until_step(scenarios.FIRST)
        self._processes["Agent/1"].kill()
        self._patience = BRIEF_S
        await super().ended(node)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
async def test_scenario_without_one_of_its_steps_fails(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenarios, "Stage", Faulty if scenario.name == "to-the-end" else Faultless)
    result = await play(scenario)
    assert not result.ok and result.as_json()["ok"] is False


async def test_same_training_under_a_mgr_that_decides_as_the_originals(monkeypatch: pytest.MonkeyPatch) -> None:
    """It keeps no state, forgets reports with each REGISTER, and takes any 202 for a fault."""
    manager = OriginalManager()
    with ExitStack() as stack:

        class Originals(Stage):
            async def start_mgr(self, *, operated: bool = False) -> None:
                node = BlockingNode(NodeConfig.mgr(listen=f"{self.host}.1:9601"))
                await asyncio.to_thread(node.start)
                stack.callback(node.close)
                stack.enter_context(Played(node, manager))

        monkeypatch.setattr(scenarios, "Stage", Originals)
        result = await play(next(each for each in SCENARIOS if each.name == "worker-killed"))
    assert result.ok, "\n".join(result.problems)
    assert manager.rounds == [("Agent/1",)]
