"""Evidence of a training, from outside: processes as the kernel shows them, exit codes, and the losses on disk."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

STEPS: Final = 40
"""Steps of the training."""

CLOSE: Final = 1e-4
"""Relative difference of two losses of one step: sums of several ranks may be rounded differently."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step of one rank, from its file.

    Args:
        rank: the rank.
        pid: its process.
        step: number of the step.
        loss: of all ranks.
        epoch: of the training.
    """

    rank: int
    pid: int
    step: int
    loss: float
    epoch: int = 1


@dataclass(slots=True)
class Evidence:
    """All that was seen of a training.

    Args:
        pids: the processes of each rank, in order.
        exits: the exit codes of each launcher, and of each other process that was killed, in order, by name.
        steps: the steps of all ranks, in order for each rank.
        logs: number of log files with the beginning of a training process.
        words: the last words of each launcher, by name.
        left: processes of launchers, guardians too, that ran 3 s after the last one had ended.
    """

    pids: dict[int, list[int]] = field(default_factory=dict)
    exits: dict[str, list[int]] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    logs: int = 0
    words: dict[str, str] = field(default_factory=dict)
    left: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Course:
    """The expected course of a training.

    Args:
        lives: number of processes of each rank.
        exits: exit codes, as in `Evidence`.
        ends: every rank comes to the last step; else none does.
        words: a part of the last words of each launcher, by name.
    """

    lives: Mapping[int, int]
    exits: Mapping[str, list[int]]
    ends: bool = True
    words: Mapping[str, str] = field(default_factory=dict)

    def differences(self, seen: Evidence) -> Iterator[str]:
        """Each point in which the evidence is not as expected, in words."""
        for rank in sorted(self.lives.keys() | seen.pids.keys()):
            came, due = len(seen.pids.get(rank, ())), self.lives.get(rank, 0)
            if came != due:
                yield f"rank {rank} had {came} processes; expected {due}"
        for who in sorted(self.exits.keys() | seen.exits.keys()):
            if seen.exits.get(who) != self.exits.get(who):
                yield f"{who} left with {seen.exits.get(who)}; expected {self.exits.get(who)}"
        if seen.logs != sum(self.lives.values()):
            yield f"{seen.logs} log files of training processes; expected {sum(self.lives.values())}"
        for who, part in self.words.items():
            if part not in seen.words.get(who, ""):
                yield f"{who} said last: {seen.words.get(who, 'nothing')!r}; expected {part!r}"
        if seen.left:
            yield f"processes are left: {seen.left}"
        yield from self._differences_of_steps(seen)

    def _differences_of_steps(self, seen: Evidence) -> Iterator[str]:
        losses: dict[int, float] = {}
        for rank in self.lives:
            steps = [each for each in seen.steps if each.rank == rank]
            if not steps:
                yield f"rank {rank} has done no step"
                continue
            for before, after in pairwise(steps):
                if after.step > before.step + 1:
                    yield f"rank {rank} has gone from step {before.step} to {after.step}"
                same = (before.pid, before.epoch) == (after.pid, after.epoch)
                if after.step <= before.step and (same or after.step == 0):
                    yield f"rank {rank} has gone back from step {before.step} to {after.step}"
            if strange := {each.pid for each in steps} - set(seen.pids.get(rank, ())):
                yield f"rank {rank} has steps of other processes: {sorted(strange)}"
            if (steps[-1].step == STEPS - 1) is not self.ends:
                expected = STEPS - 1 if self.ends else "an earlier end"
                yield f"rank {rank} ended with step {steps[-1].step}; expected {expected}"
            for each in steps:
                if not math.isclose(losses.setdefault(each.step, each.loss), each.loss, rel_tol=CLOSE):
                    yield f"rank {rank} has loss {each.loss} in step {each.step}, after {losses[each.step]}"
        if self.ends and losses and not losses[max(losses)] < losses[min(losses)] / 2:
            yield f"the loss went from {losses[min(losses)]} to {losses[max(losses)]}; expected less than half"
