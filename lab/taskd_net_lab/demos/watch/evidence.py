"""The verdict of the demo: it knows which ranks were hurt, and when, and compares the Manager's answers with that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from taskd_net.base.stacks import StackGroup
from taskd_net.observe.job_view import HUNG, STUCK

LIMIT_S: Final = 5.0
"""The `--hang-timeout` of the job, in seconds."""

LATE_S: Final = 3.0
"""Seconds from the limit until the Manager has to call the job hung: two looks of its node, on a busy machine."""

EARLY_S: Final = 0.5
"""Seconds from the last mark of a rank to the moment that the demo knows, at most: a step takes 0.1 s."""


@dataclass(frozen=True, slots=True)
class Look:
    """The Manager's judgement at a moment.

    Args:
        at: the moment, of the monotonic clock.
        state: a state of `taskd-net job hang`.
        named: the ranks that it names.
    """

    at: float
    state: str
    named: frozenset[int] = frozenset()


@dataclass(slots=True)
class Evidence:
    """All that was seen of a job.

    Args:
        hurt: the moment at which each rank was hurt.
        looks: the Manager's judgements, in order.
        stacks: those of all ranks; empty where none have come.
        exit: the exit code of the launcher; None where it did not end.
    """

    hurt: Mapping[int, float] = field(default_factory=dict)
    looks: list[Look] = field(default_factory=list)
    stacks: list[StackGroup] = field(default_factory=list)
    exit: int | None = None

    @property
    def noticed_after(self) -> float | None:
        """Seconds from the last rank's hurt until the Manager called the job hung; None: it never did."""
        hung = [each.at for each in self.looks if each.state == HUNG]
        return hung[0] - max(self.hurt.values()) if hung and self.hurt else None

    @property
    def named(self) -> frozenset[int]:
        """The ranks that the Manager named last."""
        return self.looks[-1].named if self.looks else frozenset()

    def group_of(self, rank: int) -> StackGroup | None:
        """The group with the stack of a rank."""
        return next((each for each in self.stacks if rank in each.pids), None)

    def functions_of(self, rank: int) -> list[str]:
        """The functions in which a rank is, the most recent call first."""
        group = self.group_of(rank)
        return [] if group is None else [place.function for place in group.stack]


@dataclass(frozen=True, slots=True)
class Hang:
    """The expected end of a job that stands still.

    Args:
        hurt: the ranks that hold it up.
        function: the function in which they do; empty where a rank gives no stack.
        state: the state of their processes, a value of `base.progress.Seen`.
    """

    hurt: frozenset[int]
    function: str
    state: str = "runs"

    def differences(self, seen: Evidence) -> Iterator[str]:
        """Each point in which the evidence is not as expected, in words."""
        if seen.hurt.keys() != self.hurt:
            yield f"{listed(seen.hurt)} held the job up; expected {listed(self.hurt)}"
            return
        after, hurt = seen.noticed_after, max(seen.hurt.values())
        if after is None:
            yield "the Manager has not called the job hung"
        elif after > LIMIT_S + LATE_S:
            yield f"the job was called hung after {after:.1f} s; expected at most {LIMIT_S + LATE_S:g} s"
        stuck = [each for each in seen.looks if each.state in STUCK]
        if stuck and stuck[0].at < hurt + LIMIT_S - EARLY_S:
            yield f"the job was {stuck[0].state} after {stuck[0].at - hurt:.1f} s; expected at least {LIMIT_S:g} s"
        yield from _wrong_names(seen, self.hurt)
        for rank in sorted(self.hurt):
            group = seen.group_of(rank)
            if group is None:
                yield f"rank {rank} has no stack"
            elif group.seen.value != self.state:
                yield f"rank {rank} {group.seen.value}; expected {self.state}"
            elif self.function and self.function not in seen.functions_of(rank):
                functions = ", ".join(seen.functions_of(rank)) or "no function"
                yield f"rank {rank} is in {functions}; expected {self.function}"
            elif not group.pids.keys() <= self.hurt:
                yield f"{listed(group.pids)} have the same stack; expected {listed(self.hurt)}"


@dataclass(frozen=True, slots=True)
class Healthy:
    """The expected end of a job that goes on: one rank is busy for longer than the limit, and says so.

    Args:
        busy: that rank.
        seconds: for which it is busy.
    """

    busy: frozenset[int]
    seconds: float

    def differences(self, seen: Evidence) -> Iterator[str]:
        """Each point in which the evidence is not as expected, in words."""
        if seen.hurt.keys() != self.busy:
            yield f"{listed(seen.hurt)} was busy; expected {listed(self.busy)}"
            return
        began = max(seen.hurt.values())
        if not any(began + LIMIT_S < each.at < began + self.seconds for each in seen.looks):
            yield "the Manager was not asked while the job was quiet"
        if stuck := [each for each in seen.looks if each.state in STUCK]:
            yield f"the job was {stuck[0].state} after {stuck[0].at - began:.1f} s, and is healthy"
        yield from _wrong_names(seen, frozenset())
        if seen.exit != 0:
            yield f"the launcher left with {seen.exit}; expected 0"


def _wrong_names(seen: Evidence, hurt: frozenset[int]) -> Iterator[str]:
    if wrong := frozenset[int]().union(*(each.named for each in seen.looks)) - hurt:
        yield f"the Manager has named {listed(wrong)}; expected {listed(hurt)}"


def listed(ranks: Mapping[int, object] | frozenset[int]) -> str:
    """Ranks in words."""
    return f"rank {', '.join(map(str, sorted(ranks)))}" if ranks else "no rank"
