"""The scenarios: for each its steps, and the course that outside observers have to see."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from taskd_net.base import vocabulary
from taskd_net_lab.demos.job.run import Result, play_beside
from taskd_net_lab.demos.job.stage import Missed
from taskd_net_lab.demos.mindspore.evidence import Course
from taskd_net_lab.demos.mindspore.stage import PATIENCE_S, Stage


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario.

    Args:
        name: for the command line.
        title: a sentence for people.
        play: the steps.
        expected: the course that they have to lead to.
        real: the launcher is MindSpore's own.
    """

    name: str
    title: str
    play: Callable[[Stage], Awaitable[None]]
    expected: Course
    real: bool = False


async def _to_the_end(stage: Stage) -> None:
    await stage.start_job()
    stage.finish(0, 1)
    await stage.ended()


async def _worker_fails(stage: Stage) -> None:
    await stage.start_job()
    stage.fail(1)
    await stage.until_fault(1)
    stage.command(vocabulary.RESTART_RANKS, '["1"]')
    await stage.until_lives(2, 1)
    stage.finish(0, 1)
    await stage.ended()


async def _restart_all(stage: Stage) -> None:
    await stage.start_job()
    stage.command(vocabulary.RESTART_ALL, "1")
    await stage.until_lives(2)
    stage.finish(0, 1)
    await stage.ended()


async def _exit(stage: Stage) -> None:
    await stage.start_job()
    stage.command(vocabulary.EXIT)
    await stage.ended()


async def _manager_killed(stage: Stage) -> None:
    """The worker fails while there is no Manager."""
    await stage.start_job()
    await stage.kill_mgr()
    stage.fail(1)
    await stage.start_mgr()
    await stage.until_fault(1)
    stage.command(vocabulary.RESTART_RANKS, '["1"]')
    await stage.until_lives(2, 1)
    stage.finish(0, 1)
    await stage.ended()


async def _plugin_fault(stage: Stage) -> None:
    await stage.start_without_mgr()
    stage.write_reset((1, "fault"))
    await stage.ended()


async def _plugin_reset(stage: Stage) -> None:
    await stage.start_without_mgr()
    stage.write_reset((1, "unrecovered"))
    await stage.until_no_worker()
    stage.write_reset((1, "recovered"))
    await stage.until_lives(2)
    stage.finish(0, 1)
    await stage.ended()


async def _plugin_retry_time(stage: Stage) -> None:
    await stage.start_without_mgr()
    stage.write_reset(RetryTime=1)
    await stage.until_lives(2)
    stage.finish(0, 1)
    await stage.ended()


async def _plugin_graceful_exit(stage: Stage) -> None:
    await stage.start_without_mgr()
    stage.write_reset(GracefulExit=1)
    await stage.ended()


_ONCE: Final = {0: 1, 1: 1}
_TWICE: Final = {0: 2, 1: 2}

SCENARIOS: Final = (
    Scenario("to-the-end", "Two workers finish, and msrun leaves with 0", _to_the_end, Course(_ONCE, {"msrun": [0]})),
    Scenario(
        "worker-fails",
        "A worker exits with 1 (202), and is restarted alone (209)",
        _worker_fails,
        Course({0: 1, 1: 2}, {"msrun": [0]}, faults=((1,),)),
    ),
    Scenario("restart-all", "All workers are restarted (208)", _restart_all, Course(_TWICE, {"msrun": [0]})),
    Scenario(
        "exit",
        "The node is sent away (203): msrun leaves with 1, no process is left",
        _exit,
        Course(_ONCE, {"msrun": [1]}),
    ),
    Scenario(
        "manager-killed",
        "A worker fails while the Manager is away; the next one has it restarted",
        _manager_killed,
        Course({0: 1, 1: 2}, {"Mgr": [-9], "msrun": [0]}, faults=((1,),)),
    ),
    Scenario(
        "plugin-fault",
        "Without a Manager: a device of the node is faulty, msrun leaves with 1",
        _plugin_fault,
        Course(_ONCE, {"msrun": [1]}),
    ),
    Scenario(
        "plugin-reset",
        "Without a Manager: workers end while a device is reset, and start when it is recovered",
        _plugin_reset,
        Course(_TWICE, {"msrun": [0]}),
    ),
    Scenario(
        "plugin-retry-time",
        "Without a Manager: RetryTime grows, and all workers restart",
        _plugin_retry_time,
        Course(_TWICE, {"msrun": [0]}),
    ),
    Scenario(
        "plugin-graceful-exit",
        "Without a Manager: GracefulExit, and the workers end by themselves",
        _plugin_graceful_exit,
        Course(_ONCE, {"msrun": [0]}, asked=(0, 1)),
    ),
)

REAL_SCENARIOS: Final = tuple(
    replace(each, name=f"{each.name}-msrun", title=f"{each.title} (mindspore's msrun)", real=True) for each in SCENARIOS
)
"""The same with the launcher of MindSpore, where it is installed."""


async def play(scenario: Scenario, patience: float = PATIENCE_S) -> Result:
    """Play one scenario."""
    began = time.monotonic()
    problems: list[str] = []
    async with Stage(real=scenario.real, patience=patience) as stage:
        try:
            await scenario.play(stage)
        except Missed as error:
            problems.append(str(error))
        await stage.settle()
        problems += scenario.expected.differences(stage.evidence)
    return Result(scenario.name, time.monotonic() - began, tuple(problems))


play_all = partial(play_beside, play, together=3)
"""Play scenarios, three at the same time with six processes each, which mostly wait."""
