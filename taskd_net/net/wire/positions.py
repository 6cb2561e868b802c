"""Positions on the wire."""

from __future__ import annotations

from functools import lru_cache

from taskd_net.base.position import REMEMBERED_CHARS, Position
from taskd_net.net.wire import tasknet_pb2 as pb
from taskd_net.net.wire.fields import varint


def read_position(position: pb.Position) -> Position:
    """Convert a protobuf position; short ones are remembered, so equal positions are one object."""
    fields = position.role, position.serverRank, position.processRank
    # A field longer than any node's would fill the reader's memory.
    return _position(*fields) if sum(map(len, fields)) <= REMEMBERED_CHARS else Position(*fields)


def write_position(position: Position) -> pb.Position:
    """Convert a position to protobuf."""
    return pb.Position(role=position.role, serverRank=position.server_rank, processRank=position.process_rank)


def position_field(tag: bytes, position: Position) -> bytes:
    """Serialize a position as a field; `tag` is the field's number and wire type."""
    # The src of an answer comes from another node and may have any length.
    small = len(position.role) + len(position.server_rank) + len(position.process_rank) <= REMEMBERED_CHARS
    return _remembered_field(tag, position) if small else _remembered_field.__wrapped__(tag, position)


@lru_cache(maxsize=16_384)
def _position(role: str, server_rank: str, process_rank: str) -> Position:
    return Position(role, server_rank, process_rank)


@lru_cache(maxsize=16_384)
def _remembered_field(tag: bytes, position: Position) -> bytes:
    data = write_position(position).SerializeToString()
    return tag + varint(len(data)) + data
