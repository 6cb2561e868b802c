"""Evidence of a scenario, from outside: processes, their exit codes, signals that they got, reports at the Mgr."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class Evidence:
    """All that was seen.

    Args:
        lives: number of processes of each rank.
        schedulers: number of msrun's schedulers.
        asked: ranks whose workers got SIGTERM.
        faults: failed global ranks, report by report.
        exits: exit codes of launchers and of a Mgr that was killed, by name.
        left: processes that ran after the launcher had ended.
    """

    lives: dict[int, int] = field(default_factory=dict)
    schedulers: int = 0
    asked: list[int] = field(default_factory=list)
    faults: list[list[int]] = field(default_factory=list)
    exits: dict[str, list[int]] = field(default_factory=dict)
    left: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Course:
    """The expected course of a scenario; fields as of `Evidence`."""

    lives: Mapping[int, int]
    exits: Mapping[str, list[int]]
    faults: tuple[tuple[int, ...], ...] = ()
    asked: tuple[int, ...] = ()

    def differences(self, seen: Evidence) -> Iterator[str]:
        """Each point in which the evidence is not as expected, in words."""
        points: tuple[tuple[str, object, object], ...] = (
            ("processes of each rank", dict(sorted(seen.lives.items())), dict(sorted(self.lives.items()))),
            ("schedulers", seen.schedulers, 1),
            ("ranks that got SIGTERM", sorted(seen.asked), sorted(self.asked)),
            ("failed ranks", [sorted(ranks) for ranks in seen.faults], [sorted(ranks) for ranks in self.faults]),
            ("exits", dict(seen.exits), dict(self.exits)),
            ("processes that are left", seen.left, []),
        )
        for name, came, due in points:
            if came != due:
                yield f"{name}: {came}; expected {due}"
