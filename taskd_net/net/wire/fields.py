"""Protobuf fields as bytes, for the few messages that are written and read tens of thousands of times a second.

`tag` is a field's number and wire type in one byte. Everything rare goes through the generated classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache


def varint(value: int) -> bytes:
    """A whole number of at most 64 bits as protobuf writes it; negative ones as the pattern that they stand for."""
    if 0 <= value < 0x80:
        return _SMALL[value]
    value &= 0xFFFF_FFFF_FFFF_FFFF
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_SMALL = [bytes((value,)) for value in range(0x80)]

cached_varint = lru_cache(maxsize=16_384)(varint)
"""The same for numbers that come again and again."""


def read_varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """The number that begins at an index, and the index behind it.

    Raises:
        IndexError: the bytes end in the middle of it.
        ValueError: it is longer than a number can be.
    """
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        if byte < 0x80:
            return value | byte << shift, at
        value |= (byte & 0x7F) << shift
        shift += 7
        if shift > 63:
            raise ValueError("a varint of more than ten bytes")


def text_field(tag: bytes, text: str) -> bytes:
    """A string field. proto3 does not write one that is empty.

    Raises:
        UnicodeEncodeError: the text has a lone surrogate.
    """
    if not text:
        return b""
    data = text.encode()
    return tag + cached_varint(len(data)) + data


def field_sizes(data: bytes, most: int) -> Iterator[tuple[int, int]]:
    """The number and the bytes of each field of a serialized message, without the fields themselves.

    The generated classes need many times the memory of a message for one of nothing but empty fields, so those of
    others are counted before.

    Args:
        data: the message.
        most: fields at most.

    Raises:
        IndexError, ValueError: the bytes are not a message, or have more fields.
    """
    at, end = 0, len(data)
    for _ in range(most):
        if at >= end:
            break
        start = at
        number, at = field_end(data, at)
        yield number, at - start
    if at != end:
        raise ValueError(f"more than {most} fields, or one that is longer than the message")


def field_end(data: bytes, at: int) -> tuple[int, int]:
    """The number of the field that begins at an index, and the index behind it, which may lie behind the message.

    Raises:
        IndexError, ValueError: the bytes are not a field.
    """
    tag, at = read_varint(data, at)
    kind = tag & 7
    if tag < 8:
        raise ValueError("a field without a number")
    if kind == _SIZED:
        size, at = read_varint(data, at)
        at += size
    elif kind == _VARINT:
        at = read_varint(data, at)[1]
    elif kind in _FIXED:
        at += _FIXED[kind]
    else:
        raise ValueError("a group")
    return tag >> 3, at


_VARINT = 0
_SIZED = 2
_FIXED = {1: 8, 5: 4}
"""Bytes of the fields of a fixed size, by wire type. Nobody writes the two others, groups."""
