"""Latencies in an HdrHistogram: three digits of every value, whatever its size, and mergeable over turns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from hdrh.histogram import HdrHistogram

LOWEST_NS, HIGHEST_NS, DIGITS = 1_000, 120_000_000_000, 3


class Latencies:
    """Latencies in nanoseconds, with their counts."""

    def __init__(self) -> None:
        self._histogram = HdrHistogram(LOWEST_NS, HIGHEST_NS, DIGITS)

    @classmethod
    def of(cls, nanoseconds: Iterable[int]) -> Self:
        """Record values."""
        latencies = cls()
        record = latencies._histogram.record_value
        for value in nanoseconds:
            record(value)
        return latencies

    @classmethod
    def merged(cls, encoded: Iterable[str]) -> Self:
        """Merge encoded histograms."""
        latencies = cls()
        for text in encoded:
            latencies._histogram.decode_and_add(text)
        return latencies

    def encode(self) -> str:
        """Encode as text, for `merged`."""
        data: bytes = self._histogram.encode()
        return data.decode()

    def percentile(self, percent: float) -> float:
        """Microseconds within which this share of the messages was acknowledged."""
        return float(self._histogram.get_value_at_percentile(percent)) / 1000.0

    @property
    def count(self) -> int:
        """Values recorded."""
        return int(self._histogram.get_total_count())

    def distribution(self) -> list[tuple[float, float]]:
        """Pairs of microseconds and the share of messages within them, ascending."""
        total, seen, points = self.count, 0, []
        for item in self._histogram.get_recorded_iterator():
            seen += item.count_added_in_this_iter_step
            points.append((item.value_iterated_to / 1000.0, seen / total))
        return points
