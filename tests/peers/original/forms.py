"""Fatal input for a process of the original, and its names."""

from __future__ import annotations

from typing import Any, TypeAlias

import grpc

from tests.peers.stubs import pb

Triple: TypeAlias = tuple[str, str, str]
"""A position as it stands on the wire: the original compares all three fields."""

ROLES = ("Mgr", "Proxy", "Agent", "Worker")

CODES = {
    "no route": 5002,
    "dst recv buffer busy": 5001,
    "stream not inited": 6002,
    "ack time out": 6001,
    "exceed max registry num": 5003,
}
"""Codes of its Acks by the text of its statuses."""

NIL = "grpc: error while marshaling: proto: Marshal called with nil"


class Died(Exception):
    """Input that kills a process of the original."""


class Failed(Exception):
    """A call is answered with a status."""

    def __init__(self, text: str, status: grpc.StatusCode = grpc.StatusCode.UNKNOWN) -> None:
        super().__init__(text)
        self.text = text
        self.status = status


def triple(position: Any) -> Triple:
    """A Position of the wire as a key."""
    return (position.role, position.serverRank, position.processRank)


def parse(text: str) -> Triple:
    """`Agent/0/1234`; a missing processRank is `-1`."""
    role, server_rank, process_rank, *_ = [*text.split("/"), "-1"]
    return (role, server_rank, process_rank)


def wire(position: Triple) -> Any:
    """A key as a Position of the wire."""
    role, server_rank, process_rank = position
    return pb.Position(role=role, serverRank=server_rank, processRank=process_rank)


def matches(dst: Triple, node: Triple) -> bool:
    """True if a broadcast is for a node. A comma list is literal, so it matches no node."""
    return dst[0] == node[0] and all(want in ("All", rank) for want, rank in zip(dst[1:], node[1:], strict=True))


def check_message(message: Any, *, down: bool) -> None:
    """Raise for a message that kills the original."""
    if not message.HasField("header"):
        raise Died("a message without header")
    header = message.header
    if not header.HasField("src") or not header.HasField("dst"):
        raise Died("a message without src or dst")
    if down and header.dst.role not in ROLES:
        raise Died(f"a message for the role {header.dst.role!r}")


def check_ack(ack: Any) -> None:
    """Raise for an Ack that kills the original."""
    if not ack.HasField("src"):
        raise Died("an Ack without src")
