"""Batches of the batched link ↔ what is in them.

Batches of many small messages are written and read by the generated class. A message that is alone, and large ones,
are put together and taken apart by hand: the class costs a lone message as much as a dozen, and copies bodies twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

from taskd_net.codes import Code, Refusal
from taskd_net.core.acks import Told
from taskd_net.core.frame import Ack, Failure
from taskd_net.limits import FAILURES_TOLD, REMEMBERED_CHARS
from taskd_net.position import Position
from taskd_net.wire import codec, link_pb2
from taskd_net.wire.fields import cached_varint, read_varint
from taskd_net.wire.link_pb2 import Branch

BY_HAND: Final = 3
"""Items in a batch up to which doing it by hand is cheaper."""

NUMBERS_BY_HAND: Final = 8
"""Numbers in a field up to which doing it by hand is cheaper."""

LARGE: Final = 4096
"""Bytes of a message from which on a second copy costs more than doing it by hand."""


_UINT32: Final = 0xFFFF_FFFF
"""The significant bits of a longer number, as for the generated class."""

_UINT64: Final = 0xFFFF_FFFF_FFFF_FFFF

_FIELDS: Final = b"\x0a\x12\x1a\x22\x6a\x72\x7a"


class Batch(NamedTuple):
    """A batch, with the fields of `proto/link.proto`."""

    messages: Sequence[bytes]
    patience: Sequence[int]
    accepted: Sequence[str]
    answers: Sequence[bytes]
    taken: int = 0
    numbers: Sequence[int] = ()
    accepted_numbers: Sequence[int] = ()
    answer_numbers: Sequence[int] = ()
    branches: Sequence[Branch] = ()
    joined: int = 0


def write_batch(
    messages: Sequence[bytes],
    patience: Sequence[int],
    accepted: Sequence[str],
    answers: Sequence[bytes],
    taken: int = 0,
    numbers: Sequence[int] = (),
    accepted_numbers: Sequence[int] = (),
    answer_numbers: Sequence[int] = (),
    branches: Sequence[Branch] = (),
    joined: int = 0,
) -> bytes:
    """Serialize a batch; the fields are those of `Batch`."""
    items = len(messages) + len(accepted) + len(answers)
    many = items > BY_HAND or len(accepted_numbers) > NUMBERS_BY_HAND
    if many and not (messages and len(messages[0]) >= LARGE):
        whole = link_pb2.Batch(
            messages=messages,
            patience=patience,
            accepted=accepted,
            answers=answers,
            taken=taken,
            numbers=numbers,
            accepted_numbers=accepted_numbers,
            answer_numbers=answer_numbers,
            branches=branches,
        )
        if joined:
            whole.joined = joined
        return whole.SerializeToString()
    parts: list[bytes] = []
    for message in messages:
        parts += (b"\x0a", cached_varint(len(message)), message)
    if messages:
        parts += _packed(b"\x12", patience)
    for uuid in accepted:
        text = uuid.encode()
        parts += (b"\x1a", cached_varint(len(text)), text)
    for answer in answers:
        parts += (b"\x22", cached_varint(len(answer)), answer)
    if taken:
        parts += (b"\x28", cached_varint(taken))
    if branches:
        parts.append(link_pb2.Batch(branches=branches).SerializeToString())
    if joined:
        parts += (b"\x60", cached_varint(joined))
    if numbers:
        parts += _packed(b"\x6a", numbers)
    if accepted_numbers:
        parts += _packed(b"\x72", accepted_numbers)
    if answer_numbers:
        parts += _packed(b"\x7a", answer_numbers)
    return b"".join(parts)


def _packed(tag: bytes, numbers: Sequence[int]) -> tuple[bytes, bytes, bytes]:
    data = b"".join([cached_varint(number) for number in numbers])
    return tag, cached_varint(len(data)), data


def read_batch(data: bytes) -> Batch:
    """Read a batch.

    Raises:
        Refusal: 6999, the bytes are not a batch, or it has not one `patience` for each message, or numbers for some
            of the messages or answers only.
    """
    try:
        batch = _read_by_hand(data) if _few_or_large(data) else _read(data)
    except (DecodeError, IndexError, ValueError) as error:
        raise Refusal(Code.NET_ERR, "the bytes are not a batch") from error
    if len(batch.messages) != len(batch.patience):
        raise Refusal(Code.NET_ERR, f"{len(batch.messages)} messages with {len(batch.patience)} times of patience")
    if batch.numbers and len(batch.numbers) != len(batch.messages):
        raise Refusal(Code.NET_ERR, f"{len(batch.messages)} messages with {len(batch.numbers)} numbers")
    if batch.answer_numbers and len(batch.answer_numbers) != len(batch.answers):
        raise Refusal(Code.NET_ERR, f"{len(batch.answers)} answers with {len(batch.answer_numbers)} numbers")
    return batch


def branch_of(index: int, ack: Ack) -> Branch:
    """The receivers and failures of a broadcast's answer; `index` is its place among the answers of its batch."""
    return Branch(
        answer=index,
        receivers=None if ack.receivers is None else min(ack.receivers, _UINT32),
        failures=[codec.write_ack(Ack("", failure.code, failure.position)) for failure in ack.failures],
    )


def read_branches(branches: Iterable[Branch], peer: Position) -> dict[int, Told]:
    """The receivers and failures of a batch's answers, by index, within the bounds of a node of ours.

    Args:
        branches: the field.
        peer: who has written it.

    Raises:
        Refusal: 6999, a failure in it is not an Ack.
    """
    return {
        branch.answer: Told(branch.receivers if branch.HasField("receivers") else None, _read_failures(branch, peer))
        for branch in branches
    }


def _read_failures(branch: Branch, peer: Position) -> tuple[Failure, ...]:
    acks = [codec.read_ack(data, peer) for data in branch.failures[:FAILURES_TOLD]]
    return tuple(Failure(ack.src, ack.code) for ack in acks if sum(map(len, ack.src)) <= REMEMBERED_CHARS)


def write_spans(spans: Iterable[tuple[str, Mapping[str, str]]]) -> bytes:
    """The field of a batch that says which of its messages are traced; it stands behind the others.

    Args:
        spans: the message's uuid, and the W3C headers of the span that it comes from.
    """
    fields = [
        link_pb2.SpanContext(
            uuid=uuid, traceparent=headers.get("traceparent", ""), tracestate=headers.get("tracestate", "")
        )
        for uuid, headers in spans
    ]
    return link_pb2.Batch(spans=fields).SerializeToString()


def read_spans(data: bytes) -> dict[str, Mapping[str, str]]:
    """Which messages of a batch are traced, by uuid; nothing of what `read_batch` refuses."""
    try:
        spans = link_pb2.Batch.FromString(data).spans
    except DecodeError:
        return {}
    return {span.uuid: {"traceparent": span.traceparent, "tracestate": span.tracestate} for span in spans}


def _few_or_large(data: bytes) -> bool:
    """Whether the first item is large, or makes up a good part of the whole."""
    if not data:
        return True
    if data[0] not in _FIELDS:
        return data[0] in b"\x28\x60"  # else a field of a later version, whose size need not come next
    size = read_varint(data, 1)[0]
    return size >= LARGE or size * BY_HAND >= len(data)


def _read(data: bytes) -> Batch:
    whole = link_pb2.Batch.FromString(data)
    return Batch(
        whole.messages,
        whole.patience,
        whole.accepted,
        whole.answers,
        whole.taken,
        whole.numbers,
        whole.accepted_numbers,
        whole.answer_numbers,
        whole.branches,
        whole.joined,
    )


def _read_by_hand(data: bytes) -> Batch:
    messages: list[bytes] = []
    patience: list[int] = []
    accepted: list[str] = []
    answers: list[bytes] = []
    numbers: dict[int, list[int]] = {0x6A: [], 0x72: [], 0x7A: []}
    taken = joined = 0
    at, end = 0, len(data)
    while at < end:
        tag = data[at]
        if tag == 0x28:
            taken, at = read_varint(data, at + 1)
            taken &= _UINT32
            continue
        if tag == 0x60:
            joined, at = read_varint(data, at + 1)
            joined &= _UINT32
            continue
        if tag not in _FIELDS:
            # A field of a later version, or one of these in another form: what follows it need not be a size.
            return _read(data)
        size, start = data[at + 1], at + 2
        if size >= 0x80:
            size, start = read_varint(data, at + 1)
        at = start + size
        if at > end:
            raise ValueError("a field is longer than the batch")
        if tag == 0x0A:
            messages.append(data[start:at])
        elif tag == 0x12:
            patience += [wait & _UINT32 for wait in _unpacked(data, start, at)]
        elif tag == 0x1A:
            accepted.append(data[start:at].decode())
        elif tag == 0x22:
            answers.append(data[start:at])
        elif size > 2 * NUMBERS_BY_HAND:
            return _read(data)
        else:
            numbers[tag] += _unpacked(data, start, at)
    return Batch(
        messages, patience, accepted, answers, taken, numbers[0x6A], numbers[0x72], numbers[0x7A], joined=joined
    )


def _unpacked(data: bytes, at: int, end: int) -> list[int]:
    """The numbers of a packed field.

    Raises:
        ValueError: the last one goes beyond it.
    """
    if end == at + 1 and data[at] < 0x80:
        return [data[at]]
    numbers = []
    while at < end:
        number = data[at]
        if number < 0x80:
            at += 1
        else:
            number, at = read_varint(data, at)
        numbers.append(number & _UINT64)
    if at != end:
        raise ValueError("a number is longer than its field")
    return numbers
