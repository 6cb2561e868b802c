"""The scenarios of faults in real processes: played as they are, and with a broken step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import pytest

from taskd_net_lab.demos.faults.plays import BUSINESS
from taskd_net_lab.demos.faults.scenarios import SCENARIOS
from taskd_net_lab.demos.faults.stage import (
    LASTING,
    OFTEN,
    CountedStage,
    CurrentStage,
    FaultStage,
    GraceExitStage,
    GraceStage,
    HotSwitchStage,
    InferenceStage,
    InPlaceStage,
)
from taskd_net_lab.demos.job.evidence import Evidence, Summary
from taskd_net_lab.demos.job.run import play, play_all, problems
from taskd_net_lab.demos.job.stage import Stage
from taskd_net_lab.demos.job.terms import ENDED, RESET
from tests.lab.demos.job.test_scenarios import broken, runs

BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}


async def played(*names: str) -> None:
    """Play scenarios, and see that each piece of their evidence counts."""
    results = await play_all([BY_NAME[name] for name in names], lambda _: None)
    assert {result.name: result.problems for result in results} == dict.fromkeys(names, ())
    for result in results:
        scenario = BY_NAME[result.name]
        assert result.as_json() == {"name": result.name, "ok": True, "seconds": round(result.seconds, 3)}
        killed = [each.code for each in result.seen if each.who == "Mgr" and each.what == ENDED]
        assert killed == ([-9] if "Mgr" in scenario.expected.exits else [])
        assert not any(map(runs, {each.pid for each in result.seen}))
        for place, each in enumerate(result.seen):
            for wrong in broken(result.seen, place):
                assert problems(scenario, wrong), each
            if each.what == RESET:
                assert problems(scenario, [*result.seen, each]) and problems(scenario, result.seen[:place])


@pytest.mark.parametrize(
    "names", [["one-round"], pytest.param(["level-3-to-5", "request-again"], marks=pytest.mark.more)], ids=" ".join
)
async def test_a_fault_stops_a_process_and_resets_its_device(names: Sequence[str]) -> None:
    await played(*names)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", BY_NAME)
async def test_a_scenario_leaves_the_expected_evidence_and_each_piece_of_it_counts(name: str) -> None:
    await played(name)


RULE: Final = {"EventId": [OFTEN], "TimeWindow": 60, "Times": 2, "FaultHandling": "SeparateNPU"}


class Impatient(FaultStage):
    """A stage with a broken step, after which nothing is waited for any longer."""

    def give_up(self) -> None:
        """Wait for a moment at most from now on."""
        self._patience = 0.5


class NoEdit(Impatient):
    """The files stay as they are."""

    async def move(self, code: str, key: str) -> None:
        self.give_up()


class NoEditGrace(NoEdit, GraceStage):
    """The same with the mode `grace`."""


class Silent(Impatient):
    """The watcher says nothing of some faults.

    Attributes:
        unsaid: their codes.
    """

    unsaid: tuple[str, ...] = ()

    async def report(self, code: str, node: int = 1, device: str = "Ascend910-1", **flags: str) -> None:
        if code in self.unsaid:
            self.give_up()
        else:
            await super().report(code, node, device, **flags)


class SilentGrace(Silent, GraceStage):
    """L4 and L5 are not reported."""

    unsaid = ("8C1FA006", "8C0E4E00", BUSINESS)


class SilentInPlace(Silent, InPlaceStage):
    """The port is not reported."""

    unsaid = ("81078603", "8C1FA006")


class Forgotten(Impatient):
    """The name in the list is never removed."""

    def remove_from_list(self, device: str) -> None:
        self.give_up()


class SilentMajor(Silent):
    """The unknown major code is not reported."""

    unsaid = ("8CFFFFFE",)


class SilentGraceExit(Silent, GraceExitStage):
    """The slow device is not reported."""

    unsaid = ("8C2FA001",)


class SilentInference(Silent, InferenceStage):
    """The fault of L2 is not reported."""

    unsaid = ("80C98008",)


class NeverFree(Impatient, CurrentStage):
    """ReleaseTimeWindow does not pass."""

    customization: Mapping[str, object] = {"FaultFrequency": [{**RULE, "ReleaseTimeWindow": 3600}]}

    async def all_registered(self) -> None:
        await super().all_registered()
        if self.evidence.count("Agent/1", ENDED):
            self.give_up()


class Alone(Impatient, HotSwitchStage):
    """The Manager has no ClusterD."""

    async def until(self, holds: Callable[[Evidence], bool], what: str) -> None:
        if "subscribed" not in what:
            await super().until(holds, what)

    async def look_for(self, holds: Callable[[], bool], what: str, after: float = 0.0) -> None:
        if "slow" not in what:  # without ClusterD the line says that there is no switch over
            await super().look_for(holds, what, after)


class Momentary(Impatient, CountedStage):
    """The fault never lasts."""

    async def report(self, code: str, node: int = 1, device: str = "Ascend910-1", **flags: str) -> None:
        if code == LASTING and not flags:
            self.give_up()
            flags = {"kind": "once"}
        await super().report(code, node, device, **flags)


class Exits(CurrentStage):
    """Slow devices are not ignored."""

    settings = GraceExitStage.settings


class ExitsAtHotSwitch(HotSwitchStage):
    """Slow devices replace their node, instead of a switch over."""

    settings = GraceExitStage.settings


class Known(FaultStage):
    """The files are good where they should be broken, and give the code another level."""

    async def break_files(self) -> None:
        await self.move("8C0A4E00", "SeparateNPUCodes")
        self._patience = 3.0


class AnotherNode(Impatient):
    """The device is that of another node."""

    async def report(self, code: str, node: int = 1, device: str = "Ascend910-1", **flags: str) -> None:
        await super().report(code, 0, device, **flags)
        self._patience = 3.0


@pytest.mark.more
@pytest.mark.parametrize(
    ("name", "stage", "problem"),
    [
        ("level-1-to-5", NoEdit, "commands of Agent/1: 210 3; expected 210 3, 203, 210 2"),
        pytest.param("level-3-to-5", NoEditGrace, "resets: none; expected 1/Ascend910-1", marks=pytest.mark.long),
        pytest.param("reset-in-place", SilentInPlace, "starts of Worker/3: 3; expected 3 3", marks=pytest.mark.long),
        pytest.param("wait-until-idle", SilentGrace, "resets: none; expected 1/Ascend910-1", marks=pytest.mark.long),
        pytest.param("frequency", Forgotten, "exits of Agent/1: 1; expected 1 1", marks=pytest.mark.long),
        pytest.param("duration", SilentInPlace, "exits of Agent/1: none; expected 1", marks=pytest.mark.long),
        pytest.param("duration-and-frequency", Momentary, "exits of Agent/1: none; expected 1", marks=pytest.mark.long),
        pytest.param("release", NeverFree, "not within 0.5 s: the device is free", marks=pytest.mark.long),
        pytest.param("clusterd-answers", Alone, "commands of Agent/1: 210 3, 203", marks=pytest.mark.long),
        pytest.param("unknown-codes", SilentMajor, "exits of Agent/1: none; expected 1", marks=pytest.mark.long),
        pytest.param("one-round", AnotherNode, "exits of Agent/0: 1; expected none", marks=pytest.mark.long),
        pytest.param("sub-health-ignore", Exits, "not within", marks=pytest.mark.long),
        pytest.param("sub-health-hot-switch", ExitsAtHotSwitch, "not within", marks=pytest.mark.long),
        pytest.param(
            "sub-health-grace-exit", SilentGraceExit, "exits of Agent/1: none; expected 1", marks=pytest.mark.long
        ),
        pytest.param("request-again", SilentInference, "commands of Worker/3: none; expected", marks=pytest.mark.long),
        pytest.param("refused-files", Known, "not within", marks=pytest.mark.long),
    ],
)
async def test_scenario_with_a_broken_step_fails(name: str, stage: type[Stage], problem: str) -> None:
    result = await play(replace(BY_NAME[name], stage=stage))
    assert not result.ok
    assert any(problem in each for each in result.problems), result.problems


@pytest.mark.long
async def test_a_reset_that_works_fails_the_scenario_of_one_that_does_not() -> None:
    result = await play(replace(BY_NAME["reset-fails"], variables={}), patience=5.0)
    assert not result.ok
    assert any(each.startswith("commands of Agent/1") for each in result.problems)


def test_resets_are_part_of_the_summary() -> None:
    assert [name for name, each in BY_NAME.items() if each.expected.resets] == [
        *("level-3-to-5", "reset-in-place", "wait-until-idle", "reset-fails"),
    ]
    assert Summary().resets == ""
