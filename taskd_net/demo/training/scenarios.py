"""The scenarios of a training: for each its steps, and the course that outside observers have to see."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from taskd_net.demo.job.run import Result
from taskd_net.demo.job.stage import Missed
from taskd_net.demo.training.evidence import Course
from taskd_net.demo.training.stage import PATIENCE_S, STEPS, Stage

FIRST: Final = 5
"""The step after which something happens."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario.

    Args:
        name: for the command line.
        title: a sentence for people.
        play: the steps.
        expected: the course that they have to lead to.
        restarts: restarts of the job.
        in_place: the Manager restarts failed workers alone.
    """

    name: str
    title: str
    play: Callable[[Stage], Awaitable[None]]
    expected: Course
    restarts: int = 3
    in_place: bool = False


async def _to_the_end(stage: Stage) -> None:
    await stage.start_job()
    await _both_end(stage)


async def _worker_killed(stage: Stage) -> None:
    await stage.start_job()
    await _replace_node_1(stage)
    await stage.until_step(STEPS - 1, lives=2)
    await _both_end(stage)


async def _worker_killed_in_place(stage: Stage) -> None:
    await stage.start_job()
    await stage.until_step(FIRST)
    stage.kill(3)
    await stage.until_step(STEPS - 1)
    await _both_end(stage)


async def _restarts_exhausted(stage: Stage) -> None:
    await stage.start_job()
    await _replace_node_1(stage)
    await stage.until_step(FIRST, lives=2)
    stage.kill(3)
    await _both_end(stage)


async def _replace_node_1(stage: Stage) -> None:
    """A worker of node 1 is killed; its Agent leaves, and the platform starts it again."""
    await stage.until_step(FIRST)
    stage.kill(3)
    await stage.ended(1)
    await stage.launch(1)


async def _both_end(stage: Stage) -> None:
    await stage.ended(0)
    await stage.ended(1)


def _each(lives: int) -> dict[int, int]:
    return dict.fromkeys(range(4), lives)


SCENARIOS: Final = (
    Scenario(
        "to-the-end",
        "Four ranks on two nodes train to the last step",
        _to_the_end,
        Course(_each(1), {"Agent/0": [0], "Agent/1": [0]}, STEPS - 1),
    ),
    Scenario(
        "worker-killed",
        "Its node leaves (203) and returns, the other one restarts (208), from the checkpoint",
        _worker_killed,
        Course(_each(2), {"Agent/0": [0], "Agent/1": [1, 0]}, STEPS - 1),
    ),
    Scenario(
        "worker-killed-in-place",
        "The worker alone is restarted (209), the others rejoin in their processes, and the loss continues",
        _worker_killed_in_place,
        Course({**_each(1), 3: 2}, {"Agent/0": [0], "Agent/1": [0]}, STEPS - 1),
        in_place=True,
    ),
    Scenario(
        "restarts-exhausted",
        "A second worker is killed, no restart remains, and both nodes leave with 1",
        _restarts_exhausted,
        Course(_each(2), {"Agent/0": [1], "Agent/1": [1, 1]}, None),
        restarts=1,
    ),
)


async def play(scenario: Scenario, patience: float = PATIENCE_S) -> Result:
    """Play one scenario."""
    began = time.monotonic()
    problems: list[str] = []
    async with Stage(scenario.restarts, patience, in_place=scenario.in_place) as stage:
        try:
            await scenario.play(stage)
        except Missed as error:
            problems.append(str(error))
        await stage.settle()
        problems += scenario.expected.differences(stage.evidence)
    return Result(scenario.name, time.monotonic() - began, tuple(problems))


async def play_all(scenarios: Sequence[Scenario], done: Callable[[Result], None]) -> list[Result]:
    """Play scenarios, one after another: each keeps two cores busy.

    Args:
        scenarios: the scenarios.
        done: called with each result, as it comes.
    """
    results = []
    for scenario in scenarios:
        results.append(await play(scenario))
        done(results[-1])
    return results
