"""Answers in words and as JSON."""

from __future__ import annotations

import pytest

from taskd_net import Ack, Code, Echo, Failure, Position
from taskd_net.cli.probing import as_object, counted, counted_object, detail, failure, milliseconds, name

MGR, ALL = Position.mgr(), Position.worker("All", "All")


def echo(code: int = 0, text: str = "") -> Echo:
    return Echo(code, MGR, 0.0123456, "batched", text)


def test_an_answer_as_json() -> None:
    expected = {"code": 0, "name": "OK", "src": "Mgr/0", "ms": 12.346, "link": "batched", "detail": ""}
    assert as_object(echo()) == expected


def test_codes_have_names_and_later_ones_have_none() -> None:
    assert [name(code) for code in (0, 5002, 7777)] == ["OK", "NO_ROUTE", "UNKNOWN"]


def test_a_failure_has_its_detail_or_the_meaning_of_its_code() -> None:
    assert failure(echo(5002, "nobody")) == "5002 NO_ROUTE from Mgr/0: nobody"
    assert failure(echo(5002)).startswith("5002 NO_ROUTE from Mgr/0: nobody on the way knows")
    assert detail(Ack("u", Code.OK, MGR, "", 1)).startswith("delivered")


@pytest.mark.parametrize(
    ("ack", "text"),
    [
        (Ack("u", Code.OK, MGR, "", 3), ", 3 nodes have it"),
        (Ack("u", Code.OK, MGR, "", 1), ", 1 node has it"),
        (Ack("u", Code.OK, MGR, "", None), ", nobody knows how many"),
        (Ack("u", Code.NO_ROUTE, MGR, "", 0), ""),
        (
            Ack("u", Code.NETWORK_ACK_LOST, MGR, "", 2, (Failure(Position.worker(0, 3), Code.NETWORK_ACK_LOST),)),
            ", 2 nodes have it, not Worker/0/3 (6001)",
        ),
    ],
)
def test_a_broadcast_is_counted(ack: Ack, text: str) -> None:
    assert counted(ack, ALL, "have it") == text
    assert counted(ack, Position.worker(0, 3), "have it") == ""


def test_counts_as_json() -> None:
    ack = Ack("u", Code.NO_ROUTE, MGR, "", 2, (Failure(Position.worker(0, 3), Code.NO_ROUTE),))
    failures = [{"position": "Worker/0/3", "code": 5002, "name": "NO_ROUTE"}]
    assert counted_object(ack) == {"receivers": 2, "failures": failures}


def test_milliseconds_are_to_the_microsecond() -> None:
    assert milliseconds(0.001_234_567) == 1.235
