"""The platform's files: their values, and one clear reason for bytes that are none."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskd_net.mindspore.reset import PlatformReset, Status, read_reset, read_restart_type, read_version

pytestmark = pytest.mark.oldest


def test_all_fields() -> None:
    text = {
        "RankList": [{"RankId": 9, "Status": "recovered", "Policy": "x"}, {"RankId": 0, "Status": "fault"}],
        "RetryTime": 3,
        "GracefulExit": 1,
        "FaultFlushing": True,
        "RestartFaultProcess": True,
        "UpdateTime": 1700000000,
    }
    ranks = {9: Status.RECOVERED, 0: Status.FAULT}
    assert read_reset(json.dumps(text).encode()) == PlatformReset(ranks, 3, True, True, True)


def test_missing_fields() -> None:
    assert read_reset(b"{}") == PlatformReset({}, None, False, False, False)


@pytest.mark.parametrize("value", [0, 2, -1])
def test_only_1_is_a_graceful_exit(value: int) -> None:
    assert not read_reset(json.dumps({"GracefulExit": value}).encode()).graceful_exit


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("fault", "recovered", Status.FAULT),
        ("recovered", "unrecovered", Status.UNRECOVERED),
        ("unheard", "recovered", Status.UNKNOWN),
        ("unheard", "unrecovered", Status.UNRECOVERED),
    ],
)
def test_rank_that_is_listed_twice_has_the_worse_state(first: str, second: str, expected: Status) -> None:
    for pair in ((first, second), (second, first)):
        listed = [{"RankId": 4, "Status": status} for status in pair]
        assert read_reset(json.dumps({"RankList": listed}).encode()).ranks == {4: expected}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[]", r"it is \[\]; expected a JSON object"),
        ('{"RankList": {}}', r"RankList is {}; expected a list"),
        ('{"RankList": [3]}', "an entry of RankList is 3; expected a JSON object"),
        ('{"RankList": [{"RankId": "3", "Status": "fault"}]}', "RankId is '3'; expected a whole number, at least 0"),
        ('{"RankList": [{"RankId": true, "Status": "fault"}]}', "RankId is True; expected"),
        ('{"RankList": [{"RankId": -1, "Status": "fault"}]}', "RankId is -1; expected"),
        ('{"RankList": [{"RankId": 2147483648, "Status": "fault"}]}', "RankId is 2147483648; expected"),
        ('{"RankList": [{"RankId": 3}]}', "Status of rank 3 is None; expected fault, unrecovered or recovered"),
        ('{"RetryTime": "1"}', "RetryTime is '1'; expected a whole number"),
        ('{"RetryTime": true}', "RetryTime is True; expected a whole number"),
        ('{"RetryTime": 1.0}', "RetryTime is 1.0; expected a whole number"),
        ('{"RetryTime": null}', "RetryTime is None; expected a whole number"),
        ('{"GracefulExit": false}', "GracefulExit is False; expected a whole number"),
        ('{"FaultFlushing": 1}', "FaultFlushing is 1; expected true or false"),
        ('{"RestartFaultProcess": "on"}', "RestartFaultProcess is 'on'; expected true or false"),
        ('{"RankList": [', "Expecting value"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_reset_files_that_are_none(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_reset(text.encode())


def test_words_and_digits() -> None:
    assert (read_restart_type(b"hotReset\n"), read_restart_type(b" podReschedule")) == ("hotReset", "podReschedule")
    assert (read_version(b"12\n"), read_version(b"0")) == (12, 0)


@pytest.mark.parametrize("data", [b"", b"hotreset", b"\xff", b"hotReset podReschedule"])
def test_restart_types_that_are_none(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"expected hotReset or podReschedule|decode"):
        read_restart_type(data)


@pytest.mark.parametrize("data", [b"", b"-1", b"1.0", "²".encode(), b"9" * 5000, b"\xff"])
def test_versions_that_are_none(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"expected digits|decode"):
        read_version(data)


@given(st.binary() | st.text().map(str.encode))
def test_any_bytes_are_read_or_are_a_value_error(data: bytes) -> None:
    for read in (read_reset, read_restart_type, read_version):
        try:
            read(data)
        except ValueError:
            continue
