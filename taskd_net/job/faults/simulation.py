"""A simulation: events of the past, and the time between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from taskd_net.job.faults.decisions import Decision
from taskd_net.job.faults.device import TO_BE_DONE
from taskd_net.job.faults.events import FaultEvent
from taskd_net.job.faults.policy import FaultPolicy

REST_S: Final = 86_400.0
"""Seconds after the last event for which the time goes on: longer than every duration and limit of a step."""


class Simulation:
    """A policy whose clock is the time of its events.

    An event with a time before that of the one before it arrives at the time of that one.

    Args:
        policy: the policy.
        ends: each step ends at once; else none does, so that their limits pass.

    Attributes:
        now: the time.
    """

    def __init__(self, policy: FaultPolicy, *, ends: bool = True) -> None:
        self.now = 0.0
        self._policy = policy
        self._ends = ends

    def run(self, events: Iterable[FaultEvent]) -> Iterator[Decision]:
        """Take the events one after another. Yields the decisions as they are made."""
        for event in events:
            yield from self._until(event.at)
            self.now = max(self.now, event.at)
            yield from self._policy.event(event, self.now)
            yield from self._steps(event.device)
        yield from self._until(self.now + REST_S)

    def _until(self, moment: float) -> Iterator[Decision]:
        while self._policy.next_look <= moment:
            self.now = max(self.now, self._policy.next_look)
            found = self._policy.look(self.now)
            yield from found
            for decision in found:
                yield from self._steps(decision.device)

    def _steps(self, device: str) -> Iterator[Decision]:
        while self._ends and (step := self._policy.step(device)) is not None and step.action in TO_BE_DONE:
            yield from self._policy.step_done(device, step.action, self.now)
