"""Findings and faults in a report."""

import pytest

from taskd_net import Position
from taskd_net.demo.report import DemoReport, Sends, percentile

A, B = Position.worker(0, 0), Position.worker(0, 1)


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [([7.0], 50, 7.0), ([7.0], 99, 7.0), ([2.0, 1.0], 50, 1.0), ([float(n) for n in range(1, 201)], 99, 198.0)],
)
def test_percentile(values: list[float], percent: float, expected: float) -> None:
    assert percentile(values, percent) == expected


def test_one_unexpected_answer_among_many_is_the_code_that_is_shown() -> None:
    report = DemoReport(expected=2)
    report.add(Sends.of("a", "A", 0, [0, 0], [1.0, 2.0]))
    assert report.problems == []
    report.add(Sends.of("b", "B", 5001, [5001, 0, 5001], [1.0, 2.0, 3.0]))
    assert report.sends[1].code == 0
    assert not report.ok
    assert report.problems[0].startswith("B: expected 5001, got 0 OK")


@pytest.mark.parametrize(
    ("came", "problem"),
    [
        (["1", "2"], None),
        (["1"], "1 missing, 0 twice, 0 not for it"),
        (["1", "2", "2"], "0 missing, 1 twice, 0 not for it"),
        (["1", "2", "3"], "0 missing, 0 twice, 1 not for it"),
        (["2", "1"], "not in order"),
    ],
)
def test_every_message_once_in_order_and_no_other(came: list[str], problem: str | None) -> None:
    report = DemoReport(expected=2)
    for _ in range(2):  # what was wrong once is reported once
        report.check_received({A: {"kind": ["1", "2"]}}, {A: {"kind": came}, B: {}})
    assert report.problems == ([f"{A} received 'kind' messages wrongly: {problem}"] if problem else [])


def test_a_message_for_somebody_else_is_wrong() -> None:
    report = DemoReport(expected=2)
    report.check_received({A: {"kind": ["1"]}}, {A: {"kind": ["1"]}, B: {"kind": ["1"]}})
    assert report.problems == [f"{B} received 'kind' messages wrongly: 0 missing, 0 twice, 1 not for it"]


def test_a_report_of_nothing_is_json_too() -> None:
    assert DemoReport(expected=13, problems=["it ended"]).as_json() == {
        "joined": 0,
        "expected": 13,
        "sends": [],
        "broadcast": {"expected": 0, "delivered": 0, "duplicates": 0},
        "recovered_s": None,
        "ok": False,
    }
