"""`taskd-net demo mindspore`, with msrun's double: as it is, and with a step left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from click.testing import CliRunner

from taskd_net.cli.demo import demo
from taskd_net_lab.demos.job.run import Result
from taskd_net_lab.demos.mindspore import scenarios
from taskd_net_lab.demos.mindspore.evidence import Course, Evidence
from taskd_net_lab.demos.mindspore.scenarios import REAL_SCENARIOS, SCENARIOS, Scenario, play_all
from taskd_net_lab.demos.mindspore.stage import Stage, has_mindspore

BRIEF_S = 1.0
"""Seconds for each step after one that was left out."""


QUICK = [each for each in SCENARIOS if each.name in ("worker-fails", "exit", "plugin-reset")]


@pytest.mark.parametrize("chosen", [QUICK, pytest.param(SCENARIOS, marks=pytest.mark.long)], ids=["quick", "all"])
async def test_scenarios_go_as_expected(chosen: Sequence[Scenario]) -> None:
    shown: list[Result] = []
    results = await play_all(chosen, shown.append)
    assert {result.name: result.problems for result in results} == {each.name: () for each in chosen}
    assert len(shown) == len(chosen)
    for result in results:
        assert result.as_json() == {"name": result.name, "ok": True, "seconds": round(result.seconds, 3)}


class Without(Stage):
    """A stage on which no worker fails or finishes, no command is sent, and no file changes, whichever comes first."""

    left_out = False

    def _leave_out(self) -> None:
        self.left_out = True
        self._patience = BRIEF_S

    def command(self, code: int, message: str = "") -> None:
        self._leave_out()

    def finish(self, *ranks: int) -> None:
        self._leave_out()

    def fail(self, *ranks: int) -> None:
        self._leave_out()

    def write_reset(self, *listed: tuple[int, str], **fields: object) -> None:
        if listed or fields:
            self._leave_out()
        else:
            super().write_reset()


@pytest.mark.parametrize(
    "chosen",
    [pytest.param(QUICK, marks=pytest.mark.more), pytest.param(SCENARIOS, marks=pytest.mark.long)],
    ids=["quick", "all"],
)
async def test_scenarios_without_a_step_fail(chosen: Sequence[Scenario], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenarios, "Stage", Without)
    for result in await play_all(chosen, lambda _: None):
        assert not result.ok and result.as_json()["ok"] is False, result.name


def seen(course: Course) -> Evidence:
    """The evidence of a course."""
    faults = [list(ranks) for ranks in course.faults]
    return Evidence(dict(course.lives), 1, list(course.asked), faults, {who: [*c] for who, c in course.exits.items()})


@pytest.mark.parametrize("scenario", [*SCENARIOS, *REAL_SCENARIOS], ids=lambda scenario: scenario.name)
def test_each_piece_of_evidence_counts(scenario: Scenario) -> None:
    course = scenario.expected
    assert list(course.differences(seen(course))) == []
    for wrong in (
        replace(seen(course), lives={**course.lives, 1: 3}),
        replace(seen(course), lives={0: course.lives[0]}),
        replace(seen(course), schedulers=0),
        replace(seen(course), asked=[*course.asked, 1]),
        replace(seen(course), faults=[[1], [0]]),
        replace(seen(course), exits={"msrun": [3]}),
        replace(seen(course), exits={}),
        replace(seen(course), left=[7]),
    ):
        assert len(list(course.differences(wrong))) == 1


def test_real_scenarios_are_the_same_ones() -> None:
    assert [each.play for each in REAL_SCENARIOS] == [each.play for each in SCENARIOS]
    assert all(each.real for each in REAL_SCENARIOS)


@pytest.mark.mindspore
@pytest.mark.timeout(600)
@pytest.mark.skipif(not has_mindspore(), reason="mindspore is not installed; make mindspore does so")
async def test_scenarios_with_the_real_msrun() -> None:
    results = await play_all(REAL_SCENARIOS, lambda _: None)
    assert {result.name: result.problems for result in results} == {each.name: () for each in REAL_SCENARIOS}


@pytest.mark.skipif(has_mindspore(), reason="mindspore is installed")
def test_demo_with_an_msrun_that_is_missing() -> None:
    done = CliRunner().invoke(demo, ["mindspore", "exit-msrun"])
    assert done.exit_code == 1
    assert "mindspore is not installed: pip install 'mindspore==2.10.*'" in done.output
