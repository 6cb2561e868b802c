"""Random faults, one a second: kills, stops, cuts, resets and bad networks, each undone after a while."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tests.faults.lab import Lab, Member
from tests.faults.ledger import Letter

EVERY_S: Final = 1.0
AT_ONCE: Final = 0.3
"""Greatest share of members in trouble at a time, so that the rest is still a mesh."""


@dataclass(slots=True)
class Fault:
    """One fault of a member, with its times.

    `until` is the time to undo it, and afterwards the time at which that was done.
    """

    member: str
    since: float
    until: float
    undo: Callable[[], object]


class Chaos:
    """Faults for one laboratory, whose Proxies and Workers all reach their parents through relays.

    Args:
        lab: the laboratory.
        seed: of the choice of faults. The processes have random numbers of their own, so no two runs are the same.

    Attributes:
        counts: faults so far, by kind.
        history: all faults.
    """

    def __init__(self, lab: Lab, seed: int) -> None:
        self._lab = lab
        self._random = random.Random(seed)
        self._faults: dict[str, Fault] = {}
        self.counts: Counter[str] = Counter()
        self.history: list[Fault] = []

    @property
    def total(self) -> int:
        """Faults so far."""
        return self.counts.total()

    def run(self, until: float, more: Callable[[], bool] = lambda: False) -> float:
        """Inject faults until then, and on while `more` returns True. Then undo all, and wait until the mesh is whole.

        Returns:
            Seconds of that wait.
        """
        following = time.monotonic()
        while (now := time.monotonic()) < until or more():
            for name, fault in list(self._faults.items()):
                if fault.until <= now:
                    self._end(name, fault)
            if now >= following:
                following += EVERY_S
                self._begin(now)
            time.sleep(0.05)
        for name, fault in list(self._faults.items()):
            self._end(name, fault)
        for member in self._lab.members:
            assert member.process.alive, f"{member.name} has ended by itself"
        undone = time.monotonic()
        return max(self._lab.probe().values()) - undone

    def _begin(self, now: float) -> None:
        members = [member for member in self._lab.members if member.name not in self._faults]
        if len(self._faults) >= AT_ONCE * len(self._lab.members):
            return
        chance = self._random
        # A Proxy or the Mgr as often as all Workers together.
        inner = [member for member in members if member.kind != "worker"]
        member = chance.choice(inner if inner and chance.random() < 0.5 else members)
        kinds = ["kill", "stop"] if member is self._lab.mgr else ["kill", "stop", "cut", "reset", "bad network"]
        kind = chance.choice(kinds)
        self.counts[kind] += 1
        undo, seconds = self._do(kind, member)
        fault = self._faults[member.name] = Fault(member.name, now, now + seconds, undo)
        self.history.append(fault)

    def _end(self, name: str, fault: Fault) -> None:
        del self._faults[name]
        fault.undo()
        fault.until = time.monotonic()

    def longest_without_fault(self, letter: Letter) -> float:
        """Seconds of the longest time without a fault on a message's way, while it was being sent."""
        lab, ended = self._lab, letter.attempts[-1].ended
        place = {member.position: member for member in lab.members}
        sender = next(member for member in lab.members if member.name == letter.sender.rpartition(".")[0])
        way = lab.way(sender, place[letter.dst])
        longest, whole_since = 0.0, letter.begun
        for fault in sorted(self.history, key=lambda fault: fault.since):
            if fault.member in way and fault.until > letter.begun and fault.since < ended:
                longest = max(longest, fault.since - whole_since)
                whole_since = max(whole_since, fault.until)
        return max(longest, ended - whole_since)

    def _do(self, kind: str, member: Member) -> tuple[Callable[[], object], float]:
        lab, chance = self._lab, self._random
        # Many short ones, and some longer than the detection time.
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
