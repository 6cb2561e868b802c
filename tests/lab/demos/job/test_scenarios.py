"""The scenarios in real processes: played as they are, and with a broken step."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace

import psutil
import pytest

from taskd_net_lab.demos.job.evidence import Seen
from taskd_net_lab.demos.job.run import Result, play, play_all, problems
from taskd_net_lab.demos.job.scenarios import SCENARIOS, Scenario
from taskd_net_lab.demos.job.stage import Stage
from taskd_net_lab.demos.job.terms import ASKS, BEGAN, COMMAND, ENDED, HUNG, REGISTERED, REPLY
from tests.lab.demos.conftest import PLAYED_BY

BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}


@pytest.mark.more
async def test_scenarios_leave_the_expected_evidence_and_each_piece_of_it_counts() -> None:
    """All are played once, in one test, so that no two test processes play them."""
    shown: list[Result] = []
    results = await play_all(SCENARIOS, shown.append)
    assert [result.name for result in results] == list(BY_NAME)
    assert sorted(result.name for result in shown) == sorted(BY_NAME)
    assert {result.name: result.problems for result in results} == dict.fromkeys(BY_NAME, ())
    for result in results:
        assert result.as_json() == {"name": result.name, "ok": True, "seconds": round(result.seconds, 3)}
        kills = [each for each in result.seen if each.who == "Mgr" and each.what == ENDED]
        assert [kill.code for kill in kills] == [-9], "the Manager was killed in the middle"
        assert not any(map(runs, {each.pid for each in result.seen}))
        for place in range(len(result.seen)):
            for wrong in broken(result.seen, place):
                assert problems(BY_NAME[result.name], wrong), result.seen[place]
        silent = [each for each in result.seen if each.what != REGISTERED]
        assert not problems(BY_NAME[result.name], silent), "the Manager's own word is no evidence"
    kinds = {each.what for result in results for each in result.seen}
    assert kinds == {ASKS, BEGAN, ENDED, COMMAND, REPLY, REGISTERED, HUNG}


def broken(seen: Sequence[Seen], place: int) -> list[list[Seen]]:
    """Evidence of courses in which one step was another: without an event, twice, or with another code or text."""
    each = seen[place]
    without = [*seen[:place], *seen[place + 1 :]]
    match each.what:
        case "command":
            return [without, [*seen, each], changed(seen, place, code=299), changed(seen, place, text="7")]
        case "ended" if not each.who.startswith("Worker/"):
            return [without, changed(seen, place, code=0)]
        case "ended":
            return [without]
        case "began":
            # A launcher and a Mgr that nobody saw begin show in what they do.
            return [without, changed(seen, place, text="7")] if each.who.startswith("Worker/") else []
        case "reply":
            none = [event for event in seen if event.uuid != each.uuid]
            return [none, [*seen, replace(each, uuid="another")], [*none, replace(each, text="true")]]
        case "hung":
            return [[event for event in seen if event.what != HUNG]]
    return []


async def test_manager_that_forgets_its_state_fails_the_start() -> None:
    class Forgetful(Stage):
        async def kill(self, who: str) -> None:
            await super().kill(who)
            for file in self.folder.glob("state*"):
                file.unlink()

    result = await play(replace(BY_NAME["start"], stage=Forgetful))
    assert not result.ok
    assert "commands of Agent/1: 210 5; expected 210 3" in result.problems


class Impatient(Stage):
    """A stage with a broken step, after which nothing is waited for any longer."""

    def give_up(self) -> None:
        """Wait for a moment at most from now on."""
        self._patience = 0.5


class NodeDies(Impatient):
    """The launcher of node 1 dies where one of its training processes should."""

    async def kill(self, who: str) -> None:
        await super().kill("Agent/1" if who == "Worker/3" else who)

    def thaw(self, who: str) -> None:
        super().thaw(who)
        self.give_up()


class AnotherDies(Impatient):
    """A training process of node 1 dies where rank 0 should."""

    async def kill(self, who: str) -> None:
        await super().kill("Worker/3" if who == "Worker/0" else who)

    async def start_mgr(self) -> None:
        await super().start_mgr()
        if self.evidence.count("Mgr", BEGAN) == 2:
            self.give_up()


class NothingChanges(Impatient):
    """RetryTime stays as it is."""

    def set_retry_time(self, value: int) -> None:
        super().set_retry_time(0)
        if value:
            self.give_up()


class StaysFrozen(Impatient):
    """The frozen process never goes on."""

    def thaw(self, who: str) -> None:
        self.give_up()


class NoPlugin(Impatient):
    """The Manager has no plugin."""

    async def all_registered(self) -> None:
        await super().all_registered()
        self.give_up()

    async def start_mgr(self) -> None:
        self.plugins = None
        await super().start_mgr()


@pytest.mark.more
@pytest.mark.parametrize(
    ("name", "stage", "problem"),
    [
        ("worker-dies", NodeDies, "exits of Agent/1: -9; expected 1"),
        pytest.param("rank-0-dies", AnotherDies, "exits of Agent/0: none; expected 1", marks=pytest.mark.long),
        pytest.param("retry-time", NothingChanges, "starts of Worker/0: 3; expected 3 2", marks=pytest.mark.long),
        pytest.param("restarts-run-out", StaysFrozen, "exits of Agent/0: none; expected 1", marks=pytest.mark.long),
        pytest.param("profiling", StaysFrozen, "commands of Worker/3: none; expected 711, 700", marks=pytest.mark.long),
        pytest.param("hanging-plugin", NoPlugin, "hung: none; expected Plugin", marks=pytest.mark.long),
    ],
)
async def test_scenario_with_a_broken_step_fails(name: str, stage: type[Stage], problem: str) -> None:
    result = await play(replace(BY_NAME[name], stage=stage))
    assert not result.ok
    assert problem in result.problems


@pytest.mark.more
@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("switch-nic", "replies: ReplySwitchNicResult true; expected ReplySwitchNicResult false"),
        ("stress-test", '{"0": {"code": "0", "result": "OK"}}}; expected ReplyStressTestResult'),
    ],
)
async def test_worker_that_obeys_fails_the_scenario_of_one_that_does_not(name: str, problem: str) -> None:
    result = await play(replace(BY_NAME[name], variables={}))
    assert not result.ok
    (found,) = result.problems
    assert problem in found


async def test_step_that_does_not_happen_fails_the_scenario() -> None:
    async def nothing_dies(stage: Stage) -> None:
        await stage.until(lambda seen: seen.count("Agent/0", ENDED) == 1, "Agent 0 leaves")

    scenario = Scenario("none", "nothing happens", nothing_dies, BY_NAME["start"].expected)
    result = await play(scenario, patience=0.01)
    assert not result.ok
    assert result.problems[0].startswith("not within 0.01 s: Agent 0 leaves")
    assert result.as_json()["problems"] == list(result.problems)


def changed(seen: Sequence[Seen], place: int, **fields: object) -> list[Seen]:
    """Evidence with one event changed."""
    return [*seen[:place], replace(seen[place], **fields), *seen[place + 1 :]]  # type: ignore[arg-type]


def runs(pid: int) -> bool:
    """True for a process of a play that runs, which a zombie does not. A stranger may have its number by now."""
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and process.environ().get(PLAYED_BY) == str(os.getpid())
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False


def test_a_process_of_a_play_is_told_from_a_stranger() -> None:
    ours, another = [sys.executable, "-c", "input()"], {**os.environ, PLAYED_BY: "another"}
    played = subprocess.Popen(ours, stdin=subprocess.PIPE)
    stranger = subprocess.Popen(ours, stdin=subprocess.PIPE, env=another)
    try:
        assert runs(played.pid)
        assert not runs(stranger.pid)
    finally:
        for each in (played, stranger):
            each.communicate(b"\n")
    assert not runs(played.pid)
