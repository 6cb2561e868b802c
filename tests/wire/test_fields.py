"""Protobuf fields as bytes: they are those of the generated classes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskd_net.wire import fields
from taskd_net.wire import tasknet_pb2 as pb

pytestmark = pytest.mark.compat


@given(st.one_of(st.integers(-(2**63), 2**63 - 1), st.sampled_from([1, 127, 128, 2**35, 2**42, 2**63 - 1, -1])))
def test_number_is_written_as_the_generated_class_writes_it(value: int) -> None:
    field = pb.MessageHeader(createTime=value).SerializeToString()
    assert b"\x30" + fields.varint(value) == (field or b"\x30\x00")
    assert fields.read_varint(fields.varint(value), 0) == (value % 2**64, len(fields.varint(value)))


def test_number_is_read_where_it_begins() -> None:
    assert fields.read_varint(b"\xff\xac\x02\xff", 1) == (300, 3)


@pytest.mark.parametrize(("data", "error"), [(b"", IndexError), (b"\x80", IndexError), (b"\x80" * 10, ValueError)])
def test_number_that_does_not_end_is_refused(data: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        fields.read_varint(data, 0)


@given(st.text(max_size=300))
def test_text_is_written_as_the_generated_class_writes_it(text: str) -> None:
    assert fields.text_field(b"\x12", text) == pb.Message(body=text).SerializeToString()


def test_lone_surrogate_is_no_text() -> None:
    with pytest.raises(UnicodeEncodeError):
        fields.text_field(b"\x12", "\ud800")
