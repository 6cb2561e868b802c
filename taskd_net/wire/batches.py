"""Batches of the batched link ↔ what is in them."""

from __future__ import annotations

from collections.abc import Sequence

from google.protobuf.message import DecodeError

from taskd_net.codes import Code, Refusal
from taskd_net.wire import link_pb2


def write_batch(
    messages: Sequence[bytes], patience: Sequence[int], accepted: Sequence[str], answers: Sequence[bytes]
) -> bytes:
    """Serialize a batch; the fields are those of `proto/link.proto`."""
    batch = link_pb2.Batch(messages=messages, patience=patience, accepted=accepted, answers=answers)
    return batch.SerializeToString()


def read_batch(data: bytes) -> tuple[Sequence[bytes], Sequence[int], Sequence[str], Sequence[bytes]]:
    """Read a batch: messages, patience, accepted, answers.

    Raises:
        Refusal: 6999, the bytes are not a batch, or it has not one `patience` for each message.
    """
    try:
        batch = link_pb2.Batch.FromString(data)
    except DecodeError as error:
        raise Refusal(Code.NET_ERR, "the bytes are not a batch") from error
    if len(batch.messages) != len(batch.patience):
        raise Refusal(Code.NET_ERR, f"{len(batch.messages)} messages with {len(batch.patience)} times of patience")
    return batch.messages, batch.patience, batch.accepted, batch.answers
