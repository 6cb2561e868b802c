"""Messages of an exact size, in the wire's form."""

from __future__ import annotations

from typing import Any

from taskd_net import Position
from tests.peers.stubs import pb, position


def wire_message(
    src: str, to: str, body: str = "", *, uuid: str = "u" * 36, mtype: str = "go", created: int = 0
) -> Any:
    """A sync message."""
    header = pb.MessageHeader(
        uuid=uuid, mtype=mtype, sync=True, src=position(src), dst=position(to), createTime=created
    )
    return pb.Message(header=header, body=body)


def body_for(size: int, src: Position | str, to: str, *, theirs: bool = False) -> str:
    """The body for a message of exactly this size; one of theirs has no creation time."""
    mtype, created = ("go", 0) if theirs else ("default", 1_800_000_000_000)
    length = size - 200
    for _ in range(3):
        message = wire_message(str(src), to, "x" * length, mtype=mtype, created=created)
        length += size - message.ByteSize()
    assert wire_message(str(src), to, "x" * length, mtype=mtype, created=created).ByteSize() == size
    return "x" * length
