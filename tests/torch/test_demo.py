"""`taskd-net demo training`: the scenarios, on real torch."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from taskd_net import BlockingNode, NodeConfig
from taskd_net_lab.demos.job.stage import Missed
from taskd_net_lab.demos.training import scenarios
from taskd_net_lab.demos.training.scenarios import SCENARIOS, Scenario, play
from taskd_net_lab.demos.training.stage import LEFT_S, Stage
from tests.peers.original.applications import OriginalManager
from tests.peers.original.applications import Stage as Played
from tests.torch.cluster import SOON, await_end

pytestmark = pytest.mark.timeout(600)

BRIEF_S = 3.0
"""Seconds for each step after one that was left out."""


RANGE = ("worker-killed", "worker-killed-in-place")
"""The scenarios for other versions of torch: they start, end and restart processes, and ranks rejoin."""


def _marks(scenario: Scenario) -> list[pytest.MarkDecorator]:
    return [pytest.mark.torch_range] if scenario.name in RANGE else []


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

    def interrupt(self, node: int) -> None:
        self._patience = BRIEF_S

    async def block_checkpoints(self) -> None:
        self._patience = BRIEF_S

    async def start_clusterd(self, scenario: str | Mapping[str, object]) -> None:
        if isinstance(scenario, str):  # the fault is in the scenario
            self._patience = BRIEF_S
        else:
            await super().start_clusterd(scenario)

    async def ended(self, who: int | str) -> None:
        if who in (0, 1) or who in self._processes:
            await super().ended(who)

    def command(self, to: str, code: int, message: str = "", msg_type: str = "ACTION") -> None:
        self._patience = BRIEF_S


class Faulty(Stage):
    """A stage on which node 1 is lost when the training has begun."""

    async def ended(self, who: int | str) -> None:
        await self.until_step(scenarios.FIRST)
        if self._processes["Agent/1"].returncode is None:  # the other launcher may end soon after it
            self._processes["Agent/1"].kill()
        self._patience = BRIEF_S
        await super().ended(who)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
async def test_scenario_without_one_of_its_steps_fails(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenarios, "Stage", Faulty if scenario.name == "to-the-end" else Faultless)
    result = await play(scenario)
    assert not result.ok and result.as_json()["ok"] is False


async def test_process_whose_name_a_successor_has_taken_over_ends_with_the_stage() -> None:
    async with Stage() as stage:
        await stage.start_proxy(1)
        first = stage._processes["Proxy/1"]
        with pytest.raises(Missed, match="Proxy/1 does not listen"):
            await stage.start_proxy(1)  # the address is in use
        assert stage._processes["Proxy/1"] is not first and first.returncode is None
    assert first.returncode == -signal.SIGKILL


MARK = "TEST_MARK"


def marked(mark: str) -> list[int]:
    """The processes with this mark in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"{MARK}={mark}".encode() in (path / "environ").read_bytes().split(b"\0"):
                found.append(int(path.name))
    return found


def test_nothing_is_left_of_a_demo_that_is_killed(tmp_path: Path) -> None:
    mark = str(tmp_path)
    command = [sys.executable, "-m", "taskd_net.cli", "demo", "training", "to-the-end"]
    demo = subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ, MARK: mark, "TMPDIR": mark})
    give_up_at = time.monotonic() + SOON
    while len(marked(mark)) < 6:  # the demo, the Manager, two launchers with their guardians
        assert time.monotonic() < give_up_at and demo.poll() is None
        time.sleep(0.05)
    demo.kill()
    demo.wait()
    await_end(*marked(mark), seconds=LEFT_S)


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
