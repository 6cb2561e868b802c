"""The run of the scenarios, some beside each other, as most of their time is waiting."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from taskd_net_lab.demos.job.evidence import Seen, Summary
from taskd_net_lab.demos.job.scenarios import Scenario
from taskd_net_lab.demos.job.stage import PATIENCE_S, Missed

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one scenario.

    Args:
        name: of the scenario.
        seconds: for all of it.
        problems: each deviation from the expected course; none where it is ok.
        seen: the evidence.
    """

    name: str
    seconds: float
    problems: tuple[str, ...]
    seen: tuple[Seen, ...] = ()

    @property
    def ok(self) -> bool:
        """True where everything was seen as expected."""
        return not self.problems

    @property
    def words(self) -> str:
        """A line for people, below the name of the scenario; empty for none."""
        return ""

    def as_json(self) -> dict[str, object]:
        """The result for `--json`."""
        result = {"name": self.name, "ok": self.ok, "seconds": round(self.seconds, 3)}
        return result if self.ok else {**result, "problems": list(self.problems)}


async def play(scenario: Scenario, patience: float = PATIENCE_S) -> Result:
    """Play one scenario, on a stage of its kind."""
    began = time.monotonic()
    missed: list[str] = []
    async with scenario.stage(scenario.restarts, patience, **scenario.variables) as stage:
        try:
            await scenario.play(stage)
            await stage.settle()
        except Missed as error:
            missed.append(str(error))
        seen = tuple(stage.evidence.seen)
    return Result(scenario.name, time.monotonic() - began, (*missed, *problems(scenario, seen)), seen)


def problems(scenario: Scenario, seen: Sequence[Seen]) -> tuple[str, ...]:
    """Deviations of the evidence from the expected course."""
    return tuple(Summary.of(seen).differences(scenario.expected))


async def play_beside(
    play: Callable[[S], Awaitable[Result]], scenarios: Sequence[S], done: Callable[[Result], None], *, together: int
) -> list[Result]:
    """Play scenarios, some beside each other.

    Args:
        play: plays one scenario.
        scenarios: the scenarios.
        done: called with each result, as it comes.
        together: scenarios at the same time.

    Returns:
        The results, in the order of the scenarios.
    """
    room = asyncio.Semaphore(together)

    async def one(scenario: S) -> Result:
        async with room:
            result = await play(scenario)
            done(result)
        return result

    return await asyncio.gather(*map(one, scenarios))


play_all = partial(play_beside, play, together=3)
"""Play scenarios, three at the same time with seven processes each."""
