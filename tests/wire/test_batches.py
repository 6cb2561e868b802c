"""Batches of the batched link: they are written as the generated class writes them, and read within bounds."""

from __future__ import annotations

import contextlib
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskd_net.base import limits
from taskd_net.base.codes import Code, Refusal
from taskd_net.base.position import Position
from taskd_net.core.acks import FAILURES_TOLD, Told
from taskd_net.core.frame import Ack, Failure
from taskd_net.net.links import batched
from taskd_net.net.wire import batches, codec
from taskd_net.net.wire.batches import branch_of, read_batch, read_branches, read_spans, write_batch, write_span
from taskd_net.net.wire.link_pb2 import Batch, Branch, SpanContext

pytestmark = pytest.mark.oldest

BYTES = st.one_of(st.binary(max_size=20), st.sampled_from([100, 127, 128, 4095, 4096, 40_000]).map(bytes))
PATIENCE = st.one_of(st.integers(0, 5000), st.integers(0, 2**32 - 1))
NUMBER = st.one_of(st.integers(0, 300), st.integers(0, 2**64 - 1))
BATCHES = st.builds(
    lambda messages, accepted, answers, taken, numbered, numbers, branches, joined, spans: Batch(
        messages=[data for data, _, _ in messages],
        patience=[wait for _, wait, _ in messages],
        accepted=accepted,
        answers=[data for data, _ in answers],
        taken=taken,
        spans=spans,
        branches=branches,
        joined=joined,
        numbers=[number for _, _, number in messages] if numbered else [],
        accepted_numbers=numbers,
        answer_numbers=[number for _, number in answers] if numbered else [],
    ),
    st.lists(st.tuples(BYTES, PATIENCE, NUMBER), max_size=6),
    st.lists(st.text(max_size=9), max_size=6),
    st.lists(st.tuples(BYTES, NUMBER), max_size=6),
    st.one_of(st.integers(0, 4), st.integers(0, 2**32 - 1)),
    st.booleans(),
    st.lists(NUMBER, max_size=20),
    st.lists(
        st.builds(
            Branch,
            answer=st.integers(0, 9),
            receivers=st.none() | st.integers(0, 2**32 - 1),
            failures=st.lists(BYTES, max_size=3),
        ),
        max_size=3,
    ),
    st.one_of(st.integers(0, 3), st.integers(0, 2**32 - 1)),
    st.lists(st.builds(SpanContext, uuid=st.text(max_size=9), traceparent=st.text(max_size=9)), max_size=3),
)


def written(batch: Batch) -> bytes:
    """A batch as it is written on a link."""
    rest = Batch.FromString(batch.SerializeToString())
    rest.ClearField("messages")
    return write_batch(list(batch.messages), rest)


def generated(batch: Batch) -> bytes:
    """A batch as the generated class writes it."""
    data: bytes = batch.SerializeToString(deterministic=True)
    return data


@given(BATCHES)
def test_batch_is_written_as_the_generated_class_writes_it(batch: Batch) -> None:
    assert written(batch) == generated(batch)


@given(BATCHES)
def test_batch_comes_back_in_order(batch: Batch) -> None:
    assert read_batch(generated(batch)) == batch


LARGE = st.lists(st.integers(1, 3).map(lambda size: b"x" * (size * batches.LARGE)), min_size=1, max_size=4)


@given(LARGE, BATCHES, st.booleans())
def test_large_messages_are_taken_out_by_hand(large: list[bytes], more: Batch, view: bool) -> None:
    whole = Batch(messages=large, patience=[1] * len(large), numbers=[2] * len(large) if more.numbers else [])
    whole.MergeFrom(more)
    if not more.numbers:
        whole.ClearField("numbers")
    data = generated(whole)
    messages, rest = batches.split_batch(memoryview(data) if view else data)
    assert list(messages) == list(whole.messages)
    rest.ClearField("messages")
    whole.ClearField("messages")
    assert rest == whole


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a\x80\x80\x01" + bytes(10_000),
        b"\x0a\x80\x40" + bytes(8192),
        b"\x0a\x80\x40" + bytes(8192) + b"\x10\x01\xff",
        (b"\x0a\x80\x80\x10" + bytes(262_144)) * 5 + b"\x12\x05\x01\x01\x01\x01\x01",
        (b"\x0a\x80\x40" + bytes(8192)) + b"\x0a\x00" * 256 + b"\x12\x81\x02" + b"\x01" * 257,
        b"\x0a\x80\x40" + bytes(8192) + b"\x10\x01" + b"\x22\x00" * 200_000,
    ],
    ids=["cut", "without patience", "torn", "too many bytes", "too many messages", "too many fields"],
)
def test_batch_of_large_messages_beyond_its_bounds_is_refused(data: bytes) -> None:
    for read in (read_batch, batches.split_batch):
        with pytest.raises(Refusal) as refused:
            read(data)
        assert refused.value.code == Code.NET_ERR


def test_message_behind_other_fields_is_found() -> None:
    whole = Batch(messages=[b"x" * batches.LARGE, b"y"], patience=[1, 2])
    data = b"\x0a\x80\x20" + whole.messages[0] + b"\x10\x01\x10\x02" + b"\x0a\x01y"
    messages, _ = batches.split_batch(data)
    assert list(messages) == list(whole.messages)


def test_fields_of_a_later_version_are_passed_over() -> None:
    known = Batch.DESCRIPTOR.fields_by_name
    for batch in (
        Batch(messages=[b"message"], patience=[1000], accepted=["u"], answers=[b"ack"]),
        Batch(messages=[b"one that is alone"], patience=[1]),
    ):
        for unknown in (b"\x5a\x03new", b"\x58\x01", b"\x58\x7f"):
            for data in (unknown + generated(batch), generated(batch) + unknown):
                assert written(Batch(**{name: getattr(read_batch(data), name) for name in known})) == generated(batch)


def test_patience_one_by_one_is_patience_all_the_same() -> None:
    """A peer may write a repeated number unpacked."""
    two = read_batch(b"\x0a\x01x\x0a\x01y\x10\x07\x10\x08")
    assert two == Batch(messages=[b"x", b"y"], patience=[7, 8])
    assert read_batch(b"\x0a\x05alone\x10\x07") == Batch(messages=[b"alone"], patience=[7])


def test_spans_come_back_by_the_uuids_of_their_messages() -> None:
    headers = {"traceparent": "00-1-2-01", "tracestate": "a=b"}
    spans = [write_span("u", headers), write_span("v", {"traceparent": "00-3-4-01"})]
    assert read_spans(read_batch(written(Batch(spans=spans))).spans) == {
        "u": headers,
        "v": {"traceparent": "00-3-4-01", "tracestate": ""},
    }


@pytest.mark.parametrize(
    "data",
    [
        b"\xff",
        b"\x0a",
        b"\x1a\x01\xff",
        b"\x0a\x09x",
        generated(Batch(messages=[b"x"])),
        b"\x12\x01\x01",
        generated(Batch(messages=[b"x", b"y"], patience=[1, 1], numbers=[1])),
        generated(Batch(answers=[b"x", b"y"], answer_numbers=[1])),
        b"\x72\x01\x80",
        b"\x0a\x01x\x12\x01\x80\x12\x01\x01",
    ],
    ids=[
        "garbage",
        "nothing behind a tag",
        "uuid is not UTF-8",
        "cut off",
        "no patience for a message",
        "for none",
        "no number for a message",
        "no number for an answer",
        "number cut off",
        "patience cut off",
    ],
)
def test_what_is_no_batch_is_6999(data: bytes) -> None:
    with pytest.raises(Refusal) as refused:
        read_batch(data)
    assert refused.value.code == Code.NET_ERR


@given(
    st.one_of(st.binary(max_size=40), st.builds(lambda batch, cut: generated(batch)[:cut], BATCHES, st.integers(0, 99)))
)
def test_garbage_is_refused_and_never_more(data: bytes) -> None:
    with contextlib.suppress(Refusal):
        read_batch(data)


PROXY = Position.proxy(0)


@pytest.mark.parametrize("receivers", [None, 0, 1, 4096])
def test_what_an_answer_says_comes_back(receivers: int | None) -> None:
    failures = (Failure(Position.worker(0, 3), 6001), Failure(Position("Agent", "1", "17"), 5001))
    acks = [Ack("u", 6001, PROXY, "", receivers, failures), Ack("v", 0, PROXY, "", receivers)]
    data = written(Batch(answers=[b"", b"", b""], branches=[branch_of(0, acks[0]), branch_of(2, acks[1])]))
    assert read_branches(read_batch(data).branches, PROXY) == {0: Told(receivers, failures), 2: Told(receivers)}


def test_what_a_peer_says_is_bounded() -> None:
    many = tuple(Failure(Position.worker(0, rank), 6001) for rank in range(100))
    long = (Failure(Position("Worker", "0", "9" * 1000), 6001), *many[:1])
    branches = [branch_of(0, Ack("u", 6001, PROXY, "", 2**40, many)), branch_of(1, Ack("u", 6001, PROXY, "", 0, long))]
    told = read_branches(branches, PROXY)
    assert told[0] == Told(2**32 - 1, many[:FAILURES_TOLD])
    assert told[1] == Told(0, (Failure(PROXY, 6001), *many[:1]))


def test_failure_that_is_no_ack_is_6999() -> None:
    with pytest.raises(Refusal) as refused:
        read_branches([Branch(failures=[b"\xff"])], PROXY)
    assert refused.value.code == Code.NET_ERR


MOST = batches.BATCH_ANSWERS_READ


def small(count: int) -> dict[str, Any]:
    """So many messages."""
    return {"messages": [b"x"] * count, "patience": [1] * count}


@pytest.mark.parametrize(
    ("name", "at", "above"),
    [
        ("messages", small(batches.BATCH_MESSAGES), small(batches.BATCH_MESSAGES + 1)),
        ("answers", {"answers": [b"x"] * MOST}, {"answers": [b"x"] * (MOST + 1)}),
        ("accepted", {"accepted": ["x"] * MOST}, {"accepted": ["x"] * (MOST + 1)}),
        ("accepted numbers", {"accepted_numbers": [1] * MOST}, {"accepted_numbers": [1] * (MOST + 1)}),
        ("branches", {"branches": [Branch()] * batches.BATCH_ANSWERS}, {"branches": [Branch()] * 1025}),
        ("spans", {"spans": [SpanContext()] * batches.BATCH_MESSAGES}, {"spans": [SpanContext()] * 257}),
        ("a large message", {"messages": [bytes(8 << 20)], "patience": [1]}, None),
        (
            "large messages",
            {"messages": [bytes(batches.DIRECT_BATCH_BYTES // 2)] * 2, "patience": [1, 1]},
            {"messages": [bytes(batches.DIRECT_BATCH_BYTES), bytes(100)], "patience": [1, 1]},
        ),
        (
            "bytes beside the messages",
            {"answers": [bytes(batches.BATCH_OTHER_BYTES - 10)]},
            {"answers": [bytes(batches.BATCH_OTHER_BYTES)]},
        ),
    ],
)
def test_bounds_of_a_batch(name: str, at: dict[str, Any], above: dict[str, Any] | None) -> None:
    assert read_batch(Batch(**at).SerializeToString()) == Batch(**at)
    if above is not None:
        with pytest.raises(Refusal) as refused:
            read_batch(Batch(**above).SerializeToString())
        assert refused.value.code == Code.NET_ERR


def test_all_the_answers_that_a_node_of_an_earlier_version_may_have_waiting() -> None:
    """It writes them in one batch, with messages beside them, and names each message by its uuid."""
    uuids = [f"tn1-06a19922dda77225-2-{index}-7a1a980ff8caa632" for index in range(limits.SHARED_IN_FLIGHT)]
    refusals = [codec.write_ack(Ack(uuid, Code.RECV_BUF_BUSY, Position.worker(12, 99))) for uuid in uuids]
    large = [bytes(batched.BATCH_BYTES // 8)] * 8
    both = Batch(accepted=uuids[:2048], answers=refusals[2048:])
    for batch in (Batch(accepted=uuids), Batch(answers=refusals), both):
        batch.messages.extend(large)
        batch.patience.extend([1] * len(large))
        assert read_batch(batch.SerializeToString()) == batch


@pytest.mark.parametrize(
    "field", [b"\x0a\x00", b"\x1a\x00", b"\x22\x00", b"\x32\x00", b"\x3a\x00", b"\x28\x01", b"\xa2\x06\x00"]
)
@pytest.mark.parametrize("first", [b"", b"\x0a\xa0\x8d\x06" + bytes(100_000)], ids=["alone", "behind a large message"])
def test_nobody_reads_more_fields_than_a_batch_has(field: bytes, first: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read, they would take many times their bytes of memory."""
    read: list[int] = []
    monkeypatch.setattr(batches, "Batch", Mock(wraps=Batch, FromString=read.append, MESSAGES_FIELD_NUMBER=1))
    with pytest.raises(Refusal, match=f"more than {batches.BATCH_FIELDS} fields"):
        read_batch(first + field * (batches.BATCH_COUNTED_BYTES // len(field) + 1))
    assert not read
