"""The scenarios of recovery: played in real processes, played with a broken step, and judged on broken evidence."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import pytest

from taskd_net_lab.demos.job.evidence import Evidence, Seen, Summary
from taskd_net_lab.demos.job.run import Result, play, problems
from taskd_net_lab.demos.job.stage import Missed
from taskd_net_lab.demos.job.terms import BEGAN, COMMAND, ENDED, FAILS, REGISTERED, REPLY
from taskd_net_lab.demos.recovery.manager import OFFERS, SAYS
from taskd_net_lab.demos.recovery.scenarios import FURTHER_KILLS, SCENARIOS
from taskd_net_lab.demos.recovery.stage import RecoveryStage
from tests.lab.demos.job.test_scenarios import broken, runs

BY_NAME: Final = {scenario.name: scenario for scenario in (*SCENARIOS, *FURTHER_KILLS)}
COUNTED: Final = (COMMAND, ENDED, REPLY)


def check(result: Result) -> None:
    """Assert that a result is well, and that each piece of its evidence counts."""
    assert result.problems == ()
    assert not any(map(runs, {each.pid for each in result.seen}))
    check_breaks(result.name, result.seen)
    silent = [each for each in result.seen if each.what != REGISTERED]
    assert not problems(BY_NAME[result.name], silent), "the Manager's own word is no evidence"


def check_breaks(name: str, seen: Sequence[Seen]) -> None:
    """Assert that a scenario fails with any other evidence than this."""
    for place, each in enumerate(seen):
        for wrong in broken(seen, place) if each.what in COUNTED or each.who.startswith("Worker/") else ():
            # An exit code of 0 changed to 0 is nothing broken.
            assert wrong == list(seen) or problems(BY_NAME[name], wrong), each


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", BY_NAME)
async def test_a_recovery_leaves_the_expected_evidence(name: str) -> None:
    check(await play(BY_NAME[name]))


def evidence(expected: Summary) -> Iterator[Seen]:
    """Evidence with an expected summary."""
    pids = itertools.count(1)
    running = expected.running.split(", ")
    for who, starts in expected.starts.items():
        lives = [Seen(who, BEGAN, next(pids), text=left) for left in starts.split()]
        yield from lives
        yield from (Seen(who, ENDED, life.pid) for life in (lives[:-1] if who in running else lives))
    for who, codes in expected.exits.items():
        yield from (Seen(who, ENDED, next(pids), int(code)) for code in codes.split())
    yield from (Seen(who, BEGAN, next(pids)) for who in running if who not in expected.starts)
    for who, commands in expected.commands.items():
        for command in commands.split(", "):
            code, _, text = command.partition(" ")
            yield Seen(who, COMMAND, 0, int(code), text)
    replies = re.split(", (?=[A-Z])", expected.replies) if expected.replies else []
    yield from (Seen("ClusterD", REPLY, 0, text=reply, uuid=str(number)) for number, reply in enumerate(replies))


@pytest.mark.parametrize("name", BY_NAME)
def test_each_piece_of_the_evidence_counts(name: str) -> None:
    seen = list(evidence(BY_NAME[name].expected))
    assert Summary.of(seen) == BY_NAME[name].expected
    check_breaks(name, seen)


@dataclass(frozen=True)
class Break:
    """A broken step of a scenario.

    Args:
        shows: the begin of the text of a report or command that shows it: nothing is waited for any longer.
        problem: the begin of a problem that has to be found.
        variables: instead of those of the scenario.
        clusterd: scenario of the package that ClusterD plays instead.
    """

    shows: str
    problem: str
    variables: Mapping[str, str] = field(default_factory=dict)
    clusterd: str = ""


def says(call: str, code: int) -> Mapping[str, str]:
    """The framework reports a code."""
    return {SAYS: f'{{"{call}": [{code}]}}'}


BREAKS: Final = {
    "retry": Break("RecoverStatus 499", "replies: StopComplete 0, ", says("retry", 499)),
    "recover": Break("RecoverStatus 499", "replies: StopComplete 0, ", says("recover", 499)),
    "recover-in-place": Break("RecoverStatus 0", "commands of Agent/1: 210 3, 203", clusterd="recover"),
    "dump": Break("RecoverStrategy retry exit", "commands of Framework: 0 stop, 0 ranks", {OFFERS: "retry,exit"}),
    "exit": Break("StopComplete 404", "replies: StopComplete 404; expected StopComplete 0, ", says("stop", 404)),
    "save-and-exit": Break("RecoverStatus 499", "replies: RecoverStatus 499; ", says("save", 499)),
    "downgrade-upgrade": Break("RecoverStatus 0", "replies: StopComplete 0, "),
    "hot-switch": Break("RecoverStatus 406", "replies: RecoverStrategy migration, ", says("migration", 406)),
    "hot-switch-timeout": Break("RecoverStatus 0", "commands of Framework: 0 hot switch, ", clusterd="hot-switch"),
    "switch-cards": Break("SwitchNicResult false", "replies: StopComplete 0, SwitchNicResult false", {FAILS: "3"}),
    "stress-test": Break("continue", "commands of Framework: 0 pause, 0 continue; "),
    "pre-exit": Break('["3"]', "replies: none; expected ProcessFault 3"),
    "pause-start-agent": Break("stop", "commands of Framework: 0 stop", clusterd="recover"),
    "kill-master": Break("StopComplete 499", "replies: StopComplete 499; ", says("stop", 499)),
    "switched-on-later": Break("RecoverStatus 0", "commands of ClusterD: none; expected 403 Init", clusterd="recover"),
    "recover-clusterd-killed": Break("RecoverStatus 499", "replies: StopComplete 0, ", says("recover", 499)),
    "retry-clusterd-killed": Break("RecoverStatus 499", "replies: StopComplete 0, ", says("retry", 499)),
    "recover-manager-killed": Break("RecoverStatus 499", "replies: StopComplete 0, ", says("recover", 499)),
    "retry-manager-killed": Break("RecoverStatus 499", "replies: StopComplete 0, ", says("retry", 499)),
}


def broken_stage(step: Break) -> type[RecoveryStage]:
    """A stage with a broken step, on which nothing is waited for once that shows."""

    def shows(seen: Evidence) -> bool:
        return any(each.what in (COMMAND, REPLY) and each.text.startswith(step.shows) for each in seen.seen)

    class Broken(RecoveryStage):
        async def start_clusterd(self, scenario: str | Mapping[str, object]) -> None:
            await super().start_clusterd(step.clusterd or scenario)

        async def until(self, holds: Callable[[Evidence], bool], what: str) -> None:
            await super().until(lambda seen: shows(seen) or holds(seen), what)
            if not holds(self.evidence):
                raise Missed(f"broken before: {what}")

    return Broken


def test_each_scenario_has_a_broken_step() -> None:
    assert BREAKS.keys() == {scenario.name for scenario in SCENARIOS}


@pytest.mark.timeout(180)
async def test_a_kill_at_each_stage_of_a_short_flow() -> None:
    """The sample of those that `make kills` plays."""
    check(await play(BY_NAME["hot-switch-timeout-manager-killed"]))


@pytest.mark.more
@pytest.mark.parametrize(
    "name", [name if name == "retry" else pytest.param(name, marks=pytest.mark.long) for name in BREAKS]
)
async def test_a_scenario_with_a_broken_step_fails(name: str) -> None:
    step = BREAKS[name]
    scenario = replace(BY_NAME[name], variables=step.variables, stage=broken_stage(step))
    result = await play(scenario)
    assert not result.ok
    assert any(problem.startswith(step.problem) for problem in result.problems), result.problems
