"""Batches of the batched link ↔ what is in them.

The generated class reads and writes them. Large messages alone are put in and taken out by hand: the class copies each
body several times (docs/performance.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from google.protobuf.message import DecodeError

from taskd_net.base.codes import Code, Refusal
from taskd_net.base.limits import SHARED_IN_FLIGHT
from taskd_net.base.position import Position
from taskd_net.core.acks import FAILURES_TOLD, Told
from taskd_net.core.frame import Ack, Failure
from taskd_net.core.in_flight import ABANDONED_UUIDS
from taskd_net.net.wire import codec
from taskd_net.net.wire.fields import cached_varint, field_sizes, read_varint
from taskd_net.net.wire.link_pb2 import Batch, Branch, SpanContext

BATCH_MESSAGES: Final = 256
"""Messages in one batch of a batched link. More gains nothing measurable and delays the answers in the same batch."""

BATCH_ANSWERS: Final = 1024
"""Answers of each of the two forms in one batch: some milliseconds of work for who reads it."""

BATCH_ANSWERS_READ: Final = SHARED_IN_FLIGHT + ABANDONED_UUIDS
"""Answers of each form in a batch that is read. Nodes of 0.1.0 write all that wait in one batch, and a neighbour has so
many messages in flight or given up."""

BATCH_ANSWER_BYTES: Final = 512 * 1024
"""Bytes of the answers in one batch that are Acks, with their branches: 1,024 answers to broadcasts with a dozen
failures each."""

BATCH_FIELDS: Final = BATCH_ANSWERS_READ + 2048
"""Fields in one batch: one for each message, answer, branch and span, and one for all numbers of a kind."""

BATCH_OTHER_BYTES: Final = 2 * BATCH_ANSWER_BYTES
"""Bytes of everything but the messages in one batch: answers, and as much for uuids, numbers and spans."""

BATCH_COUNTED_BYTES: Final = 256 * 1024
"""Bytes from which on the fields of a batch are counted before it is read. Below, even a batch of nothing but empty
fields is read in some 3 ms; above, honest batches have large messages, and so few fields."""

DIRECT_BATCH_BYTES: Final = 1024 * 1024
"""Bytes of the messages in one batch of a direct link; a larger message goes alone. With 16 bodies of 64 KiB in a batch
each costs less than with 8 (docs/performance.md). Twice as many gain nothing, and need larger buffers
(`socket_frames.FRAME_BYTES`)."""

LARGE: Final = 4096
"""Bytes of a first message from which on the messages of a batch are put in, and taken out, by hand."""

FEW_ANSWERS: Final = 64
"""Answers that are Acks up to which their bytes need no count."""

_UINT32: Final = 0xFFFF_FFFF
"""The largest number in a field of 32 bits."""


def write_batch(messages: Sequence[bytes], batch: Batch) -> bytes:
    """Serialize a batch of these messages; `batch` has all the other fields."""
    return b"".join(batch_parts(messages, batch))


def batch_parts(messages: Sequence[bytes], batch: Batch) -> Sequence[bytes]:
    """The bytes of a batch: one piece, or several where the messages are large. None of these is copied."""
    if not messages or len(messages[0]) < LARGE:
        batch.messages.extend(messages)
        return (batch.SerializeToString(),)
    parts: list[bytes] = []
    for message in messages:
        parts += (b"\x0a" + cached_varint(len(message)), message)
    parts.append(batch.SerializeToString())
    return parts


def read_batch(data: bytes) -> Batch:
    """Read a batch.

    Raises:
        Refusal: 6999, the bytes are not a batch, or have more in them than a batch may have; or it has not one
            `patience` for each message, or numbers for some of the messages or answers only.
    """
    try:
        if len(data) > BATCH_COUNTED_BYTES:
            _require_bounds(data)
        batch = Batch.FromString(data)
    except (DecodeError, IndexError, ValueError) as error:
        raise Refusal(Code.NET_ERR, f"the bytes are not a batch: {error}") from error
    _require_whole(batch, len(batch.messages), len(data))
    return batch


def split_batch(data: bytes | memoryview) -> tuple[Sequence[bytes], Batch]:
    """Read a batch: its messages, and all its other fields. A large message is copied once.

    Raises:
        Refusal: as `read_batch`.
    """
    if len(data) > LARGE and data[0] == _MESSAGES_TAG:
        try:
            messages, at = _large_messages(data)
            rest = bytes(data[at:])
            if messages and len(rest) <= BATCH_COUNTED_BYTES:
                batch = Batch.FromString(rest)
                if not batch.messages:
                    _require_whole(batch, len(messages), len(data))
                    return messages, batch
        except (DecodeError, IndexError, ValueError) as error:
            raise Refusal(Code.NET_ERR, f"the bytes are not a batch: {error}") from error
    batch = read_batch(bytes(data))
    return batch.messages, batch


def _large_messages(data: bytes | memoryview) -> tuple[list[bytes], int]:
    """The messages at the beginning of a batch, and the index behind them; none where the first one is small.

    Raises:
        IndexError, ValueError: the bytes are not a batch, or have more messages than a batch may have.
    """
    messages: list[bytes] = []
    at, end, total = 0, len(data), 0
    while at < end and data[at] == _MESSAGES_TAG:
        size, start = read_varint(data, at + 1)
        if not messages and size < LARGE:
            break
        at, total = start + size, total + size
        most = DIRECT_BATCH_BYTES
        if at > end or (messages and (total > most or len(messages) == BATCH_MESSAGES)):
            raise ValueError(f"{len(messages) + 1} messages of {total} bytes together")
        messages.append(bytes(data[start:at]))
    return messages, at


_MESSAGES_TAG: Final = Batch.MESSAGES_FIELD_NUMBER << 3 | 2


def _require_whole(batch: Batch, messages: int, size: int) -> None:
    """Check the numbers of a batch's fields; it has so many messages, and bytes.

    Raises:
        Refusal: 6999, as `read_batch`.
    """
    numbers, answers = len(batch.numbers), len(batch.answers)
    most = BATCH_ANSWERS_READ
    # A message or a span takes two bytes at least, so a batch with a single message needs no look.
    if size > 2 * BATCH_MESSAGES and (
        messages > BATCH_MESSAGES
        or answers > most
        or len(batch.accepted) > most
        or len(batch.accepted_numbers) > most
        or len(batch.branches) > BATCH_ANSWERS
        or len(batch.spans) > BATCH_MESSAGES
    ):
        raise Refusal(Code.NET_ERR, "more messages or answers than a batch may have")
    if messages != len(batch.patience):
        raise Refusal(Code.NET_ERR, f"{messages} messages with {len(batch.patience)} times of patience")
    if numbers not in (0, messages):
        raise Refusal(Code.NET_ERR, f"{messages} messages with {numbers} numbers")
    if len(batch.answer_numbers) not in (0, answers):
        raise Refusal(Code.NET_ERR, f"{answers} answers with {len(batch.answer_numbers)} numbers")


def _require_bounds(data: bytes) -> None:
    """Check the size of a large batch before it is read.

    Raises:
        IndexError, ValueError: it has more in it than a batch may have.
    """
    messages = size = other = 0
    for number, taken in field_sizes(data, BATCH_FIELDS):
        if number == Batch.MESSAGES_FIELD_NUMBER:
            messages += 1
            size += taken
        else:
            other += taken
    # The fields of messages have up to five bytes more than the messages.
    if messages > 1 and size > DIRECT_BATCH_BYTES + 5 * messages:
        raise ValueError(f"{messages} messages of {size} bytes together")
    if other > BATCH_OTHER_BYTES:
        raise ValueError(f"{other} bytes beside the messages")


def move_surplus(batch: Batch, later: Batch) -> int:
    """Move the answers that are too many for one batch to the next one. Returns their number."""
    most = BATCH_ANSWERS
    for field in ("accepted_numbers", "accepted"):
        answers = getattr(batch, field)
        getattr(later, field).extend(answers[most:])
        del answers[most:]
    if len(batch.answers) > FEW_ANSWERS:
        sizes = {branch.answer: branch.ByteSize() for branch in batch.branches}
        count = size = 0
        for index, answer in enumerate(batch.answers[:most]):
            size += len(answer) + sizes.get(index, 0)
            if count and size > BATCH_ANSWER_BYTES:
                break
            count += 1
        later.answers.extend(batch.answers[count:])
        later.answer_numbers.extend(batch.answer_numbers[count:])
        told = sum(answer < count for answer in sizes)
        later.branches.extend(batch.branches[told:])
        for branch in later.branches:
            branch.answer -= count
        del batch.answers[count:], batch.answer_numbers[count:], batch.branches[told:]
    return len(later.accepted_numbers) + len(later.accepted) + len(later.answers)


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
    return tuple(Failure(ack.src, ack.code) for ack in acks)


def write_span(uuid: str, headers: Mapping[str, str]) -> SpanContext:
    """The span that a message of a batch comes from, by its W3C headers."""
    return SpanContext(uuid=uuid, traceparent=headers.get("traceparent", ""), tracestate=headers.get("tracestate", ""))


def read_spans(spans: Iterable[SpanContext]) -> dict[str, Mapping[str, str]]:
    """The W3C headers of the traced messages of a batch, by uuid."""
    return {span.uuid: {"traceparent": span.traceparent, "tracestate": span.tracestate} for span in spans}
