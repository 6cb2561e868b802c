"""The domains of profiling that a job wants: a Manager and its Workers share them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProfilingSwitch:
    """The wanted profiling domains."""

    default: bool = False
    communication: bool = False

    @property
    def state(self) -> int:
        """The domains as a number: 10 for the default one, plus 1 for communication."""
        return 10 * self.default + self.communication

    @property
    def words(self) -> str:
        """The switch in the history of decisions."""
        return f"profiling switch {self.state:02}"
