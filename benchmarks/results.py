"""The results: one record for each figure of each turn, and their medians."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple, TypeAlias

from benchmarks.histogram import Latencies

Conditions: TypeAlias = dict[str, str | int]

Case: TypeAlias = tuple[tuple[str, str | int], ...]
"""The conditions of a measurement, e.g. direction and body, sorted by name."""


class Key(NamedTuple):
    """The subject of a figure: measure, metric, unit and conditions."""

    measure: str
    metric: str
    case: Case
    unit: str


@dataclass(slots=True)
class Results:
    """All figures of a run, by subject and system.

    Attributes:
        figures: of each turn, in order.
        latencies: encoded histograms of each turn.
        failures: the failed turns, in words.
    """

    figures: dict[Key, dict[str, list[float]]] = field(default_factory=dict)
    latencies: dict[tuple[str, Case, str], list[str]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def add(self, measure: str, metric: str, unit: str, system: str, value: float, **case: str | int) -> None:
        """Record a figure."""
        key = Key(measure, metric, _case(case), unit)
        self.figures.setdefault(key, {}).setdefault(system, []).append(value)

    def add_latencies(self, measure: str, system: str, encoded: str, **case: str | int) -> None:
        """Record the latencies of a turn, and their percentiles as figures."""
        latencies = Latencies.merged([encoded])
        for metric, percent in (("p50", 50.0), ("p99", 99.0), ("p99.9", 99.9)):
            self.add(measure, metric, "µs", system, latencies.percentile(percent), **case)
        self.latencies.setdefault((measure, _case(case), system), []).append(encoded)

    def add_percentiles(self, measure: str, metric: str, system: str, seconds: Sequence[float]) -> None:
        """Record the median and the 99th percentile of these times, in milliseconds."""
        ordered = sorted(seconds)
        for name, share in (("p50", 0.5), ("p99", 0.99)):
            value = ordered[min(int(share * len(ordered)), len(ordered) - 1)]
            self.add(measure, f"{metric}, {name}", "ms", system, value * 1e3)

    def value(self, measure: str, metric: str, system: str, **case: str | int) -> float | None:
        """The median over the turns; None without a figure."""
        wanted = _case(case)
        for key, systems in self.figures.items():
            if key[:3] == (measure, metric, wanted) and system in systems:
                return median(systems[system])
        return None

    def values(self, measure: str, metric: str, system: str) -> list[float]:
        """The figures of all turns, of a metric without conditions; none without a figure."""
        found = [each for key, each in self.figures.items() if key[:3] == (measure, metric, ())]
        return list(found[0].get(system, ())) if found else []

    def last(self, measure: str, metric: str, system: str, **case: str | int) -> float:
        """The last recorded figure."""
        wanted = _case(case)
        return next(values[system][-1] for key, values in self.figures.items() if key[:3] == (measure, metric, wanted))

    def ratio(self, measure: str, metric: str, system: str, other: str, **case: str | int) -> float | None:
        """One system's figure in terms of another's."""
        mine, theirs = (self.value(measure, metric, name, **case) for name in (system, other))
        return mine / theirs if mine is not None and theirs else None

    def curve(self, measure: str, metric: str, system: str, along: str, **case: str | int) -> list[tuple[int, float]]:
        """A figure against one of its conditions, ascending."""
        points = []
        for key, systems in self.figures.items():
            conditions = dict(key.case)
            at = conditions.pop(along, None)
            if key[:2] == (measure, metric) and conditions == case and isinstance(at, int) and system in systems:
                points.append((at, median(systems[system])))
        return sorted(points)

    def distribution(self, measure: str, system: str, **case: str | int) -> Latencies | None:
        """The latencies of all turns."""
        encoded = self.latencies.get((measure, _case(case), system))
        return Latencies.merged(encoded) if encoded else None

    def medians(self) -> Iterator[tuple[Key, Mapping[str, float]]]:
        """Every figure, in the order of the first measurement."""
        for key, systems in self.figures.items():
            yield key, {system: median(values) for system, values in systems.items()}


def _case(case: Mapping[str, str | int]) -> Case:
    return tuple(sorted(case.items()))
