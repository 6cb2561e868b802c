"""Measures in fractions of a second: they must run and give sane figures, good or bad."""

import math
from collections.abc import Callable, Iterator
from typing import TypeAlias

import pytest

from benchmarks.measures import Bench, Effort
from benchmarks.results import Results

SHORT = Effort(turns=1, seconds=0.05, latency_seconds=0.05, settle=0.05)
OWN = ("taskd_net", "direct", "tasknet", "unary", "stream")

Measure: TypeAlias = Callable[[Bench], None]
Take: TypeAlias = Callable[[Measure], Results]


@pytest.fixture(scope="module")
def own() -> Iterator[Bench]:
    """The systems of this package alone, started once, because starting processes takes most of the time."""
    bench = Bench(SHORT, lambda _: None, OWN)
    with bench.running():
        for name in OWN:
            bench.chain(name)
        yield bench


@pytest.fixture
def take(own: Bench) -> Take:
    """Take a measure of our systems."""

    def take(measure: Measure) -> Results:
        own.results = Results()
        measure(own)
        require_sane(own.results)
        return own.results

    return take


def require_sane(results: Results) -> None:
    """Check that every turn has succeeded, and every figure is a number."""
    assert not results.failures
    for key, figures in results.medians():
        assert figures, key
        # A node on a socket has fewer threads than a channel of grpcio.
        least = -math.inf if "beyond" in key.metric else 0.0
        assert all(least <= value < math.inf for value in figures.values()), (key, figures)
