"""Statuses of calls as codes of the mesh, and back, by the kind of peer.

A peer that keeps the contract answers every message with an Ack; a status then comes from gRPC and says that the
network failed. The original answers its failures with statuses, most of them UNKNOWN with a text of its own; texts that
come from grpc-go vary with its version, so those are never looked at (docs/interop.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import grpc

from taskd_net.base.codes import Code, describe
from taskd_net.base.position import Destination, Position, Role

Reader: TypeAlias = Callable[[grpc.StatusCode, str, bool], int]
"""Status, its text, whether the message was a broadcast → code."""

POSITION_TAKEN: Final = "entry context done"
"""The status text of a parent of the original for a stream replaced by another of the same position."""

_TEXTS: Final = {
    "no route": Code.NO_ROUTE,
    "dst recv buffer busy": Code.RECV_BUF_BUSY,
    "stream not inited": Code.NET_STREAM_NOT_INITED,
    "ack time out": Code.NETWORK_ACK_LOST,
    "exceed max registry num": Code.EXCEED_MAX_REGISTRY_NUM,
    "dst type illegal": Code.DST_TYPE_ILLEGAL,
    "client not inited": Code.SERVER_ERR,
    "broadcast error": Code.NET_ERR,
    "EOF": Code.NETWORK_ACK_LOST,
}
# Of two texts for one code, the first: the original's children read it as their own.
_TEXT_OF: Final = {int(code): text for text, code in reversed(_TEXTS.items())}
_DESCRIBED: Final = {describe(code): code for code in Code}
_QPS: Final = "qps exceeded"
_NIL: Final = "Marshal called with nil"


def text_for(code: int) -> str:
    """The text, with status UNKNOWN, that tells a child of the original's what has failed.

    Its own word where it has one; else the code and what it means, which ours read again behind such a node.
    """
    return _TEXT_OF.get(code) or describe(code)


def read_plain(status: grpc.StatusCode, text: str, broadcast: bool) -> int:
    """The code for a call to a peer of the contract that ended with a status instead of an answer.

    UNAVAILABLE and CANCELLED say that the connection broke, not whether the message was through before it did: 6001,
    the answer that claims less.
    """
    if status is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return Code.CLIENT_ERR
    if status in (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
        return Code.NETWORK_ACK_LOST
    return Code.NET_ERR


def read_original(status: grpc.StatusCode, text: str, broadcast: bool) -> int:
    """The code for a status that a node of the original's answered with.

    A broadcast that went up has been delivered when it is answered INTERNAL: 0. UNAVAILABLE, CANCELLED and `EOF`
    are left behind by a node further away that went, perhaps after it had taken the message: 6001.
    """
    if status is grpc.StatusCode.UNKNOWN:
        return _read_text(text)
    if status is grpc.StatusCode.INTERNAL and broadcast and _NIL in text:
        return Code.OK
    return read_plain(status, text, broadcast)


def broadcast_code(parent: Position, child: Position, dst: Destination) -> int:
    """The code for a broadcast that the original's `parent` has taken from its `child`.

    A Proxy of theirs passes no broadcast up, and its answer is the same with and without receivers. So the Mgr
    certainly has none. The nodes of the two ranks are below the Proxy. Other nodes are there only below further
    Proxies: a child that is one shows that, and a leaf cannot know.

    Returns:
        0 if it counts as taken, 5002 if it certainly reached nobody, 6001 if nobody knows.
    """
    if parent.role != Role.PROXY:
        return Code.OK
    if dst.position.role == Role.MGR:
        return Code.NO_ROUTE
    if child.role == Role.PROXY or dst.servers is None or dst.servers & {parent.server_rank, child.server_rank}:
        return Code.OK
    return Code.NETWORK_ACK_LOST


def _read_text(text: str) -> int:
    known = _TEXTS.get(text)
    if known is not None:
        return known
    if text.startswith("client not inited"):
        return Code.SERVER_ERR
    if text.startswith(_QPS):
        return Code.RECV_BUF_BUSY
    return _DESCRIBED.get(text, Code.NET_ERR)
