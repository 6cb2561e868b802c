"""Random faults, one a second: kills, stops, cuts, resets and bad networks, each undone after a while."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tests.faults.lab import Lab, Member

EVERY_S: Final = 1.0
AT_ONCE: Final = 0.3
"""Share of the members that something is wrong with at any time, at most: what is left has to be a mesh."""


@dataclass(frozen=True, slots=True)
class _Fault:
    until: float
    undo: Callable[[], object]


class Chaos:
    """Faults for one laboratory, whose Proxies and Workers all reach their parents through relays.

    Args:
        lab: where.
        seed: of the choice of faults. The processes have their own chances, so no two runs are the same.

    Attributes:
        counts: faults so far, by kind.
    """

    def __init__(self, lab: Lab, seed: int) -> None:
        self._lab = lab
        self._random = random.Random(seed)
        self._faults: dict[str, _Fault] = {}
        self.counts: Counter[str] = Counter()

    @property
    def total(self) -> int:
        """Faults so far."""
        return self.counts.total()

    def run(self, until: float, more: Callable[[], bool] = lambda: False) -> float:
        """Let it happen until then, and on while `more` says so; then undo all, and wait until the mesh is whole.

        Returns:
            Seconds that the last took.
        """
        following = time.monotonic()
        while (now := time.monotonic()) < until or more():
            for name, fault in list(self._faults.items()):
                if fault.until <= now:
                    del self._faults[name]
                    fault.undo()
            if now >= following:
                following += EVERY_S
                self._begin(now)
            time.sleep(0.05)
        for fault in self._faults.values():
            fault.undo()
        self._faults.clear()
        for member in self._lab.members:
            assert member.process.alive, f"{member.name} has ended by itself"
        undone = time.monotonic()
        return max(self._lab.probe().values()) - undone

    def _begin(self, now: float) -> None:
        members = [member for member in self._lab.members if member.name not in self._faults]
        if len(self._faults) >= AT_ONCE * len(self._lab.members):
            return
        chance = self._random
        # Everybody that others depend on as often as all Workers together.
        inner = [member for member in members if member.kind != "worker"]
        member = chance.choice(inner if inner and chance.random() < 0.5 else members)
        kinds = ["kill", "stop"] if member is self._lab.mgr else ["kill", "stop", "cut", "reset", "bad network"]
        kind = chance.choice(kinds)
        self.counts[kind] += 1
        undo, seconds = self._do(kind, member)
        self._faults[member.name] = _Fault(now + seconds, undo)

    def _do(self, kind: str, member: Member) -> tuple[Callable[[], object], float]:
        lab, chance = self._lab, self._random
        # Many short ones, and some that are longer than it takes to notice.
        seconds = min(10.0, chance.expovariate(1 / 3.0))
        match kind:
            case "kill":
                member.kill()
                return member.start, min(2.0, seconds)
            case "stop":
                member.stop()
                return member.cont, seconds
            case "cut":
                lab.shape(member, cut=chance.choice((["up"], ["down"], ["up", "down"])))
            case "reset":
                lab.reset(member)
                seconds = 0.0
            case _:
                lab.shape(member, delay=0.1, jitter=0.05, loss=0.02, reset=0.001)
        return lambda: lab.heal(member), seconds
