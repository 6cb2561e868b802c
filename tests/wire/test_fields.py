"""Protobuf fields as bytes: they are those of the generated classes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskd_net.net.wire import fields
from taskd_net.net.wire import tasknet_pb2 as pb
from taskd_net.net.wire.fields import field_sizes, varint
from taskd_net.net.wire.link_pb2 import Batch

pytestmark = pytest.mark.oldest


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


FIELDS = st.lists(
    st.one_of(
        st.tuples(st.integers(1, 2000), st.binary(max_size=300)).map(
            lambda field: (field[0], varint(field[0] << 3 | 2) + varint(len(field[1])) + field[1])
        ),
        st.tuples(st.integers(1, 2000), st.integers(0, 2**64 - 1)).map(
            lambda field: (field[0], varint(field[0] << 3) + varint(field[1]))
        ),
        st.tuples(st.integers(1, 2000), st.sampled_from([(1, 8), (5, 4)])).map(
            lambda field: (field[0], varint(field[0] << 3 | field[1][0]) + bytes(field[1][1]))
        ),
    ),
    max_size=20,
)


@given(FIELDS)
def test_every_field_is_counted_with_its_bytes(fields: list[tuple[int, bytes]]) -> None:
    data = b"".join(written for _, written in fields)
    assert list(field_sizes(data, len(fields))) == [(number, len(written)) for number, written in fields]
    if fields:
        with pytest.raises(ValueError, match=f"more than {len(fields) - 1} fields"):
            list(field_sizes(data, len(fields) - 1))


@given(st.binary(max_size=50))
def test_any_bytes_are_counted_or_refused(data: bytes) -> None:
    try:
        sizes = list(field_sizes(data, 50))
    except (IndexError, ValueError):
        return
    assert sum(size for _, size in sizes) == len(data)


@pytest.mark.parametrize(
    "data", [b"\x0a\x05abc", b"\x0a", b"\x28\x80", b"\x29abc", b"\x0b\x0c", b"\x0a" + b"\x80" * 10, bytes(2)]
)
def test_fields_that_are_cut_off_and_groups_are_refused(data: bytes) -> None:
    with pytest.raises((IndexError, ValueError)):
        list(field_sizes(data, 50))


def test_a_batch_is_counted_as_it_is_written() -> None:
    batch = Batch(messages=[b"a", b"b"], patience=[1, 2], accepted=["u"], taken=3, numbers=[1, 300])
    assert [number for number, _ in field_sizes(batch.SerializeToString(), 10)] == [1, 1, 2, 3, 5, 13]
