"""Faults: what a 202 says, and whether it is newer than a restart."""

from __future__ import annotations

import pytest

from taskd_net.job.decide.records import Fault, read_fault


@pytest.mark.parametrize(
    ("message", "ranks"),
    [
        ("", None),
        ('{"fault_ranks": [], "restart_times": -1}', None),
        ('{"fault_ranks": [3, 4]}', [3, 4]),
        ('{"fault_ranks": ["3", 4]}', [4]),
        ('{"fault_ranks": 3}', []),
        ("{}", []),
        ("[]", []),
        ("nonsense", []),
    ],
)
def test_a_fault_that_cannot_be_read_is_a_fault(message: str, ranks: list[int] | None) -> None:
    fault = read_fault(1.0, message, {})
    assert (None if fault is None else fault.ranks) == ranks


@pytest.mark.parametrize(("text", "seconds"), [("77", 77.0), ("-3", None), ("", None), ("9" * 20, None)])
def test_time_and_the_restart_before(text: str, seconds: float | None) -> None:
    extension = {"REPORT_FAULT_TIME": text, "AfterRestart": "u-7"}
    assert read_fault(1.0, '{"fault_ranks": [3]}', extension) == Fault([3], 1.0, seconds, "u-7")


@pytest.mark.parametrize(
    ("after", "sent", "reported", "newer"),
    [
        ("u-7", None, None, True),
        ("u-6", None, 1e9, False),
        ("", None, 1e9, False),
        ("", 1000.9, 1000.0, False),
        ("", 1000.9, 1001.0, True),
        ("", 1000.9, None, True),
    ],
)
def test_fault_after_a_restart(after: str, sent: float | None, reported: float | None, newer: bool) -> None:
    assert Fault([3], 1.0, reported, after).is_newer("u-7", sent) is newer


@pytest.mark.parametrize(
    ("after", "taken", "answered"),
    [
        ("", "", False),
        ("", "u-7", True),
        ("u-6", "u-7", True),
        ("u-7", "u-7", False),
        ("u-10", "u-9", False),  # the acknowledgement of that restart is still on its way
        ("v-12", "u-9", False),
        ("nonsense", "u-7", False),
        ("u-", "u-7", False),
    ],
)
def test_fault_that_a_taken_restart_has_answered(after: str, taken: str, answered: bool) -> None:
    assert Fault([3], 1.0, None, after).is_answered_by(taken) is answered
