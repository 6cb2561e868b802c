"""The scenarios of `demo watch`: for each the fault, and the answers that the Manager has to give."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from functools import partial
from typing import Final

from taskd_net.base.progress import SEEN_WORDS, Seen
from taskd_net.observe.job_view import HUNG
from taskd_net_lab.demos.job.run import Result, play_beside
from taskd_net_lab.demos.job.stage import Missed
from taskd_net_lab.demos.training.stage import PATIENCE_S
from taskd_net_lab.demos.watch.evidence import LATE_S, LIMIT_S, Evidence, Hang, Healthy, listed
from taskd_net_lab.demos.watch.stage import LOOKED_AT_S, SCRIPT, WORLD, Stage
from taskd_net_lab.demos.watch.terms import (
    CODE,
    EVALUATION,
    EVALUATION_S,
    EVALUATIONS,
    FAULT_STEP,
    LOADER,
    NATIVE,
)

STOPPED: Final = "stopped"
"""The fault that comes from outside, by SIGSTOP."""

ENDLESS: Final = 100_000
"""Steps of a training that the demo ends."""

SHORT: Final = 2 * FAULT_STEP
"""Steps of the training that comes to its end."""

STAYS_S: Final = 3.0
"""Seconds in which the judgement of a hung job is looked at: no further look of the Manager's may name another rank."""

GRACE_S: Final = 30.0
"""Seconds for what is late already: the verdict says by how much."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario.

    Args:
        name: for the command line.
        title: a sentence for people.
        fault: what a rank does instead of training.
        function: of the script, in which it does that; empty where its stack cannot be seen.
        state: of its process meanwhile.
        count: number of ranks that do it.
        healthy: the job goes on afterwards.
    """

    name: str
    title: str
    fault: str
    function: str = ""
    state: Seen = Seen.RUNS
    count: int = 1
    healthy: bool = False


SCENARIOS: Final = (
    Scenario("in-its-code", "A rank sleeps in its own code, and the others wait for it", CODE, "augment_images"),
    Scenario("in-the-loader", "A rank waits for data, in a section of that name", LOADER, "read_shard"),
    Scenario("stopped", "A rank gets SIGSTOP", STOPPED, state=Seen.STOPPED),
    Scenario(
        "holds-the-interpreter",
        "A rank is in a call into C that holds the interpreter, so none of its threads can run",
        NATIVE,
        "parse_natively",
    ),
    Scenario("two-at-once", "Two ranks sleep in their own code", CODE, "augment_images", count=2),
    Scenario(
        "long-evaluation",
        "Healthy: one rank evaluates in parts, far beyond the limit in all, and the others wait for it",
        EVALUATION,
        healthy=True,
    ),
)


@dataclass(frozen=True, slots=True)
class Watched(Result):
    """The result of one scenario.

    Args:
        noticed_after: seconds until the Manager called the job hung; None: it never did.
        named: the ranks that it named.
        where: the place of each rank that was hurt, in words.
    """

    noticed_after: float | None = None
    named: frozenset[int] = frozenset()
    where: str = ""

    @property
    def words(self) -> str:
        """A line for people, below the name of the scenario."""
        if self.noticed_after is None:
            return "no hang"
        named = listed(self.named) if self.named else "not known"
        return f"noticed after {self.noticed_after:.1f} s | named: {named} | where: {self.where or 'not known'}"

    def as_json(self) -> dict[str, object]:
        """The result for `--json`."""
        after = None if self.noticed_after is None else round(self.noticed_after, 3)
        return {**Result.as_json(self), "noticed_after": after, "named": sorted(self.named), "where": self.where}


async def play(scenario: Scenario, patience: float = PATIENCE_S) -> Watched:
    """Play one scenario, with ranks that are drawn."""
    began = time.monotonic()
    hurt = frozenset(secrets.SystemRandom().sample(range(WORLD), scenario.count))
    healthy = Healthy(hurt, EVALUATIONS * EVALUATION_S)
    expected = healthy if scenario.healthy else Hang(hurt, scenario.function, scenario.state.value)
    problems: list[str] = []
    async with Stage("" if scenario.fault == STOPPED else scenario.fault, hurt, patience) as stage:
        try:
            await _play(scenario, stage, patience)
        except Missed as error:
            problems.append(str(error))
        seen = stage.seen
    problems += expected.differences(seen)
    where = "" if scenario.healthy else "; ".join(dict.fromkeys(_place(seen, rank) for rank in sorted(hurt)))
    took = time.monotonic() - began
    return Watched(scenario.name, took, tuple(problems), (), seen.noticed_after, seen.named, where)


def _place(seen: Evidence, rank: int) -> str:
    """The place of a rank in words: the last call of the script, or the state of its process."""
    group = seen.group_of(rank)
    if group is None:
        return "not known"
    script = (each for each in group.stack if each.file == str(SCRIPT))
    place = next(script, None)
    if place is None:
        return SEEN_WORDS[group.seen]
    return f"{place.function}, {SCRIPT.name}, line {place.line}"


async def _play(scenario: Scenario, stage: Stage, patience: float) -> None:
    await stage.begin(SHORT if scenario.healthy else ENDLESS)
    await stage.until_step(FAULT_STEP - 1)
    if scenario.fault == STOPPED:
        stage.stop()
    else:
        await stage.until_hurt()
    if scenario.healthy:
        await stage.ask_until(lambda: not stage.runs(), "the training comes to its end", patience)
        await stage.ended(0)
        (stage.seen.exit,) = stage.evidence.exits["Agent/0"]
        return
    look_at = max(stage.seen.hurt.values()) + LOOKED_AT_S
    await stage.ask_until(lambda: time.monotonic() > look_at, "a person looks", patience)
    await stage.look_at_stacks()
    due = LIMIT_S + LATE_S + GRACE_S
    await stage.ask_until(lambda: any(each.state == HUNG for each in stage.seen.looks), "the job is called hung", due)
    after = time.monotonic() + STAYS_S
    await stage.ask_until(lambda: time.monotonic() > after, "the judgement stays", patience)


play_all = partial(play_beside, play, together=1)
"""Play scenarios, one after another: the limits of a hang are those of a machine with room."""
