"""taskd_net.job.faults.events: events from outside."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskd_net.base.codes import ArgumentError
from taskd_net.job.faults.events import FaultEvent, FaultKind, Severity, device_name, fault_code, read_event

GOOD = {"code": "8c0a4e00", "device": "node-0/npu-3", "kind": "once", "severity": "minor", "at": 5, "network": True}


def test_an_event_with_all_keys() -> None:
    assert read_event(GOOD) == FaultEvent("8C0A4E00", "node-0/npu-3", FaultKind.ONCE, Severity.MINOR, 5.0, True)


def test_an_event_with_the_least() -> None:
    found = read_event({"code": "1ABCDEF00", "device": "npu-3"}, at=7.0)
    assert found == FaultEvent("1ABCDEF00", "npu-3", FaultKind.OCCURRED, None, 7.0, False)


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("code", [None, "", "8C0A", "8C0A4E0000", 5, ["8C0A4E00"]]),
        ("device", [None, "", " ", "a\nb", "x" * 129, 5, "\x1b[2J"]),
        ("kind", [None, "", "gone", 5, [], "OCCURRED"]),
        ("severity", ["", "grave", 5, {}]),
        ("at", [None, "5", -1, True, float("nan"), float("inf"), 1e300, 10**400, []]),
        ("network", [None, "true", 1]),
    ],
)
def test_a_wrong_value_is_named(key: str, values: list[object]) -> None:
    for value in values:
        with pytest.raises(ArgumentError, match=rf"^{key} is .*; expected "):
            read_event({**GOOD, key: value})


@pytest.mark.parametrize("value", [None, [], "x", 5])
def test_an_event_that_is_no_object_is_named(value: object) -> None:
    with pytest.raises(ArgumentError, match=re.escape(f"event is {value!r}; expected a JSON object")):
        read_event(value)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(list(GOOD)), inner),
    )
)
def test_nothing_else_is_raised(value: Any) -> None:
    try:
        found = read_event(value)
    except ArgumentError:
        return
    assert fault_code(found.code) == found.code and device_name(found.device) == found.device and found.at >= 0


def test_codes_are_compared_as_numbers() -> None:
    assert fault_code("020000002") == fault_code("20000002") == "20000002"
    assert fault_code("0x0000000a") == "0000000A" and fault_code("110000002") == "110000002"
