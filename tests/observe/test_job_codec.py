"""The state of a job, there and back."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from taskd_net.base import limits
from taskd_net.base.codes import Refusal
from taskd_net.observe import job_codec as wire
from taskd_net.observe.job_codec import TEXT_CHARS
from taskd_net.observe.job_view import (
    AGENTS_SHOWN,
    DECISIONS_SHOWN,
    FAILURES_SHOWN,
    MESSAGES_SHOWN,
    RANKS_SHOWN,
    AgentView,
    BooksView,
    CauseView,
    ClusterdView,
    DecisionView,
    FailureView,
    GuiltyView,
    HangView,
    JobCounters,
    JobView,
    LeaderView,
    MessageView,
    StreamView,
)
from tests.observe.jobs import IN_ETCD, REFUSED, WHOLE

pytestmark = pytest.mark.oldest

SENT = JobCounters.__dataclass_fields__.keys() - {"fault_to_command"}


def sent(view: JobView) -> JobView:
    """A job without the histogram, which stays at the Manager."""
    return replace(view, counters=replace(view.counters, fault_to_command=()))


@pytest.mark.parametrize("view", [WHOLE, IN_ETCD, REFUSED, JobView()], ids=["file", "etcd", "refused", "empty"])
def test_a_job_comes_out_as_it_went_in(view: JobView) -> None:
    assert wire.read_job(wire.write_job(view)) == sent(view)


@pytest.mark.parametrize(
    "kind",
    [
        *(JobView, StreamView, AgentView, DecisionView, MessageView, JobCounters, ClusterdView, LeaderView),
        *(FailureView, CauseView, BooksView, HangView, GuiltyView),
    ],
)
def test_the_example_has_every_field(kind: type) -> None:
    def within(value: Any) -> list[Any]:
        if isinstance(value, tuple):
            return [found for each in value for found in within(each)]
        named = getattr(value, "__dataclass_fields__", ())
        return ([value] if isinstance(value, kind) else []) + [
            found for name in named for found in within(getattr(value, name))
        ]

    default, found = kind(), within(REFUSED)
    for field in fields(kind):
        assert any(getattr(each, field.name) != getattr(default, field.name) for each in found), field.name


def test_the_widest_job_fits_into_an_answer() -> None:
    text = "\U0001f600" * 100_000
    number = 10**60
    agent = AgentView(number, True, True, True, text, (-number,) * RANKS_SHOWN, 1.0, True, 1.0, (203, 208), 1.0)
    message = MessageView(text, 208, text, text, 6001, True)
    decision = DecisionView(1, 1.0, text, text, (message,) * MESSAGES_SHOWN, 1, 1, 1, (text,), number)
    view = JobView(
        text,
        streams=(StreamView(text, text, (text,), (text,)),) * 10,
        agents=(agent,) * AGENTS_SHOWN,
        decisions=(decision,) * DECISIONS_SHOWN,
        restarts_left=number,
        profiling={number: 1},
        failures=(FailureView(first=CauseView(number, message=text, traceback=(text,) * 100)),) * FAILURES_SHOWN,
        ended=text,
    )
    data = wire.write_job(view)
    assert len(data) < limits.RECEIVE_BYTES
    read = wire.read_job(data)
    assert (read.agents[0].rank, read.agents[0].fault_ranks[0]) == (2**63 - 1, -(2**63))
    assert read.job_id == text[:TEXT_CHARS]


@pytest.mark.parametrize(("number", "read"), [(2**63, 2**63 - 1), (-(2**63) - 1, -(2**63)), (2**63 - 1, 2**63 - 1)])
def test_a_number_of_more_than_64_bits_is_cut(number: int, read: int) -> None:
    assert wire.read_job(wire.write_job(JobView(restarts_left=number))).restarts_left == read


def test_a_text_without_bytes_is_sent() -> None:
    assert wire.read_job(wire.write_job(JobView("\ud800"))).job_id == "?"


@pytest.mark.parametrize("data", [b"\xff", b"\x0a\xff", b"\x0a\x01\xff"])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(Refusal, match="not the state of a job"):
        wire.read_job(data)


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -1.0, 1e300])
def test_a_time_that_nobody_can_print_is_refused(seconds: float) -> None:
    with pytest.raises(Refusal, match="not the state of a job"):
        wire.read_job(wire.write_job(replace(WHOLE, at=seconds)))
    with pytest.raises(Refusal, match="not the state of a job"):
        wire.read_job(wire.write_job(JobView(books=BooksView(seconds={"steps": seconds}))))


def test_an_earlier_version_does_not_say_each_part() -> None:
    assert wire.read_job(b"").hang == HangView()
    assert wire.read_job(wire.write_job(JobView(hang=HangView(state="")))).hang.state == ""


def test_a_later_version_says_more() -> None:
    data = wire.write_job(WHOLE) + b"\xfa\x7f\x01x"
    assert wire.read_job(data) == sent(WHOLE)
