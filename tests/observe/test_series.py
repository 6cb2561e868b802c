"""Samples of the last hour: columns, gaps and bounds."""

from __future__ import annotations

from math import nan

from taskd_net.observe.records import Direction
from taskd_net.observe.series import COLUMNS, FIELDS, WHOLE, Series, figures


def sample(series: Series, now: float, **nodes: float) -> None:
    """Take a sample in which each node has one value in every field."""
    for name, value in nodes.items():
        series.put(name, [value] * len(FIELDS))
    series.end(now)


def column(series: Series, name: str, since: float = 0.0) -> list[tuple[float, float | None]]:
    """The first field of a node."""
    told = series.of(name, since)
    return list(zip(told["times"], told[FIELDS[0]], strict=True))


def test_samples_are_columns_oldest_first() -> None:
    series = Series(20.0, 5, 10)
    assert (series.last, column(series, "a")) == (float("-inf"), [])
    series.put("a", [1.0, 2.0, nan, 0.00123456, 3.0, nan])
    series.end(100.0)
    assert series.last == 100.0
    assert series.of("a", 0.0) == {
        "times": [100.0],
        "down": [1.0],
        "up": [2.0],
        "down_p50": [None],
        "down_p99": [0.001235],
        "in_flight": [3.0],
        "up_p99": [None],
    }
    sample(series, 120.0, a=7.0)
    assert column(series, "a") == [(100.0, 1.0), (120.0, 7.0)]
    assert column(series, "a", since=100.0) == [(120.0, 7.0)]
    assert column(series, "b") == [(100.0, None), (120.0, None)]


def test_older_samples_than_the_bound_are_dropped() -> None:
    series = Series(20.0, 3, 10)
    for number in range(10):
        sample(series, 20.0 * number, a=float(number))
    assert column(series, "a", since=-1.0) == [(140.0, 7.0), (160.0, 8.0), (180.0, 9.0)]


def test_a_node_that_is_away_has_no_values_meanwhile() -> None:
    series = Series(20.0, 5, 10)
    sample(series, 20.0, a=1.0, b=1.0)
    sample(series, 40.0, b=2.0)
    sample(series, 60.0, a=3.0, b=3.0)
    assert column(series, "a") == [(20.0, 1.0), (40.0, None), (60.0, 3.0)]


def test_a_node_takes_no_room_once_its_samples_are_over() -> None:
    series = Series(20.0, 3, 10)
    sample(series, 20.0, a=1.0)
    for number in range(2, 4):
        sample(series, 20.0 * number, b=1.0)
    assert len(series) == 2
    assert column(series, "a")[0] == (20.0, 1.0)
    sample(series, 80.0, b=1.0)
    assert len(series) == 1
    assert [value for _, value in column(series, "a")] == [None] * 3


def test_a_time_without_samples_is_a_gap() -> None:
    series = Series(20.0, 5, 10)
    sample(series, 20.0, a=1.0)
    sample(series, 70.0, a=2.0)
    assert column(series, "a") == [(20.0, 1.0), (70.0, 2.0)]
    sample(series, 170.0, a=3.0)
    assert column(series, "a") == [(20.0, 1.0), (70.0, 2.0), (120.0, None), (170.0, 3.0)]


def test_nodes_are_bounded_and_the_sum_is_none_of_them() -> None:
    series = Series(20.0, 5, 2)
    sample(series, 20.0, a=1.0, b=2.0, c=3.0, **{WHOLE: 6.0})
    assert len(series) == 2
    assert [column(series, name)[0][1] for name in ("a", "b", "c", WHOLE)] == [1.0, 2.0, None, 6.0]


def test_figures_are_those_that_the_columns_declare() -> None:
    down = Direction(messages=7, in_flight=2, ack_p50=0.5)
    own = Direction(messages=0, in_flight=3, ack_p99=0.25)
    assert figures(down, own, Direction(messages=9, in_flight=100)) == [7, 9, 0.5, None, 5, 0.25]
    ways, fields = zip(*(figure for column in COLUMNS for figure in column.figures), strict=True)
    assert set(ways) <= {"down", "up"} and set(fields) <= set(Direction._fields)
