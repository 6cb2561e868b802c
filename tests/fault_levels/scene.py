"""Files, rules and events for the tests of fault levels."""

from __future__ import annotations

import json
from typing import Any

from taskd_net.job.faults.decisions import Decision
from taskd_net.job.faults.editions import Edition
from taskd_net.job.faults.events import FaultEvent, FaultKind, Severity
from taskd_net.job.faults.levels import Action, JobKind, Mode, SubHealth
from taskd_net.job.faults.policy import Bounds, FaultPolicy
from taskd_net.job.faults.reading import read_rules
from taskd_net.job.faults.rules import CODES_FILE, CUSTOMIZATION_FILE, FaultRules, Problem

L1, L2, L3, L4, L5, L6 = "8C0A4E00", "80E01801", "8C204E00", "8C0E4E00", "8C03A000", "80F78008"
LINK = "81078603"
CODES = {
    "NotHandleFaultCodes": [L1],
    "RestartRequestCodes": [L2],
    "RestartBusinessCodes": [L3],
    "FreeRestartNPUCodes": [L4],
    "RestartNPUCodes": [L5],
    "SeparateNPUCodes": [L6],
}


def files(codes: object = CODES, custom: object = None) -> dict[str, bytes]:
    """The files with these values."""
    found = {CODES_FILE: json.dumps(codes).encode()}
    if custom is not None:
        found[CUSTOMIZATION_FILE] = json.dumps(custom).encode()
    return found


def read(
    codes: object = CODES, custom: object = None, edition: Edition = Edition.DOCUMENTED, linkdown_timeout: int = 30
) -> tuple[FaultRules, tuple[Problem, ...]]:
    """The rules of these values, and the problems."""
    return read_rules(files(codes, custom), edition, linkdown_timeout)


def frequency(**more: object) -> dict[str, list[dict[str, Any]]]:
    """A customization with one rule of frequency."""
    entry = {"EventId": L2, "TimeWindow": 60, "Times": 3, "FaultHandling": "SeparateNPU", **more}
    return {"FaultFrequency": [entry]}


class Scene:
    """A policy, and a clock that its events move on.

    Args:
        rules: of the policy; by default those of `CODES`.
        mode, kind, sub_health, bounds: of the policy.
    """

    def __init__(
        self,
        rules: FaultRules | None = None,
        mode: Mode = Mode.RESCHEDULING,
        kind: JobKind = JobKind.TRAINING,
        sub_health: SubHealth = SubHealth.IGNORE,
        bounds: Bounds = Bounds(),
    ) -> None:
        self.policy = FaultPolicy(read()[0] if rules is None else rules, mode, kind, sub_health, bounds)
        self.now = 0.0

    def at(self, now: float) -> list[Decision]:
        """Look at a time, at each time before it at which the policy wants a look."""
        found: list[Decision] = []
        while self.policy.next_look <= now:
            found += self.policy.look(self.policy.next_look)
        self.now = now
        return found + self.policy.look(now)

    def send(
        self,
        code: str,
        kind: str = "occurred",
        at: float | None = None,
        *,
        device: str = "npu-0",
        severity: Severity | None = None,
        network: bool = False,
        now: float | None = None,
    ) -> list[Decision]:
        """An event, by default at the present time, which it moves on to its own."""
        when = self.now if at is None else at
        self.now = when if now is None else now
        return self.policy.event(FaultEvent(code, device, FaultKind(kind), severity, when, network), self.now)

    def out(self) -> dict[str, str]:
        """The devices that take no new job, and how."""
        return {each.device: each.action.value for each in self.policy.isolated()}


def actions(decisions: list[Decision]) -> list[Action]:
    """The actions of decisions, in order."""
    return [step.action for decision in decisions for step in decision.steps]
