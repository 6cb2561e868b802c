"""Requests of a child over a direct link ↔ bytes: what goes in comes out, and bytes that are none are refused."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskd_net import Ack, Code, Position
from taskd_net.base.codes import Refusal
from taskd_net.base.states import State
from taskd_net.core.ready import Kind
from taskd_net.net.wire import link_pb2
from taskd_net.net.wire.link_requests import (
    Announcing,
    LinkReply,
    Request,
    read_reply,
    read_request,
    write_reply,
    write_request,
)

MGR = Position.mgr()
NUMBERS = st.integers(0, 2**64 - 1)


@given(
    NUMBERS,
    st.binary(max_size=200),
    st.sampled_from(Kind),
    st.sampled_from([None, State.FINISHED, State.STOPPED]),
    st.integers(0, 2**32 - 1),
)
def test_announcement(number: int, data: bytes, kind: Kind, end: State | None, ms: int) -> None:
    read = read_request(write_request(Request(number, Announcing(data, kind, end), ms / 1000)))
    assert read == Request(number, Announcing(data, kind, end, ms / 1000), ms / 1000)


@given(NUMBERS, st.binary(max_size=200))
def test_report_and_its_answer(number: int, data: bytes) -> None:
    assert read_request(write_request(Request(number, data, 3.0))) == Request(number, data, 3.0)
    assert read_reply(write_reply(LinkReply(number, data)), MGR) == LinkReply(number, data)


@given(NUMBERS, st.text(st.characters(codec="utf-8"), min_size=1, max_size=20))
def test_renewal_and_its_offer(number: int, offer: str) -> None:
    assert read_request(write_request(Request(number, None, 3.0))) == Request(number, None, 3.0)
    assert read_reply(write_reply(LinkReply(number, offer)), MGR) == LinkReply(number, offer)


@given(NUMBERS, st.sampled_from(Code), st.text(st.characters(codec="utf-8"), max_size=20))
def test_answer_to_an_announcement(number: int, code: Code, uuid: str) -> None:
    ack = Ack(uuid, int(code), Position.proxy(3))
    assert read_reply(write_reply(LinkReply(number, ack)), MGR) == LinkReply(number, ack)


@given(st.binary(max_size=100))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(Refusal):
        read_request(data)
    with contextlib.suppress(Refusal):
        read_reply(data, MGR)


def test_request_for_nothing_that_is_known_is_refused() -> None:
    with pytest.raises(Refusal, match="a request for nothing that is known"):
        read_request(link_pb2.Request(number=1).SerializeToString())


def test_fields_are_counted_before_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(_: bytes) -> None:
        raise AssertionError("it is read")

    monkeypatch.setattr(link_pb2, "Request", type("Request", (), {"FromString": staticmethod(read)}))
    with pytest.raises(Refusal, match="more than 32 fields"):
        read_request(b"\x08\x01" * 1_000_000)


def test_words_that_nobody_knows_are_an_addition_of_a_child_that_stays() -> None:
    data = link_pb2.Request(announcement=b"x", routes="shuffle", end="bored").SerializeToString()
    assert read_request(data).content == Announcing(b"x", Kind.ADD, None, 0.0)
