"""Positions on the wire, and which of them are remembered."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from taskd_net import Position
from taskd_net.base.position import REMEMBERED_CHARS
from taskd_net.net.wire import positions
from taskd_net.net.wire import tasknet_pb2 as pb

pytestmark = pytest.mark.oldest

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=REMEMBERED_CHARS)
POSITIONS = st.builds(Position, TEXT, TEXT, TEXT)
LONG = Position("Worker", "0", "7" * REMEMBERED_CHARS)


@given(POSITIONS)
@example(LONG)
@example(Position("", "", ""))
def test_position_comes_back(position: Position) -> None:
    assert positions.read_position(positions.write_position(position)) == position


@given(POSITIONS)
@example(LONG)
def test_field_is_written_as_the_generated_class_writes_it(position: Position) -> None:
    written = pb.Ack(src=positions.write_position(position)).SerializeToString()
    assert positions.position_field(b"\x1a", position) == written


@pytest.mark.parametrize("tag", [b"\x1a", b"\x22", b"\x2a"])
def test_one_position_stands_in_several_fields(tag: bytes) -> None:
    field = positions.position_field(tag, Position.worker(0, 3))
    assert field[:1] == tag
    assert pb.Position.FromString(field[2:]) == positions.write_position(Position.worker(0, 3))


def test_equal_short_positions_are_one_object() -> None:
    one, other = (positions.read_position(pb.Position(role="Worker", serverRank="5", processRank="9")) for _ in "ab")
    assert one is other


def test_long_positions_are_not_remembered() -> None:
    """A peer chooses how long they are; thousands of them would fill the memory."""
    read, written = positions._position.cache_info().currsize, positions._remembered_field.cache_info().currsize
    new = Position("Worker", "1", "8" * REMEMBERED_CHARS)
    positions.read_position(positions.write_position(new))
    positions.position_field(b"\x1a", new)
    assert positions._position.cache_info().currsize == read
    assert positions._remembered_field.cache_info().currsize == written
