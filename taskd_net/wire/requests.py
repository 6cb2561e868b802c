"""The requests of a child, Register and PathDiscovery: bytes ↔ the package's own types, checked once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from taskd_net.codes import Code, Refusal
from taskd_net.peer_limits import DEFAULT, Limits
from taskd_net.position import Position
from taskd_net.wire import tasknet_pb2 as pb
from taskd_net.wire.codec import require_uuid
from taskd_net.wire.positions import read_position, write_position


@dataclass(frozen=True, slots=True)
class Announcement:
    """A PathDiscovery request: `path` can be reached through `proxy`, a child of the receiver."""

    uuid: str
    proxy: Position
    path: list[Position]


def write_register(uuid: str, position: Position) -> bytes:
    """Serialize a RegisterReq."""
    return pb.RegisterReq(uuid=uuid, pos=write_position(position)).SerializeToString()


def read_register(data: bytes, limits: Limits = DEFAULT) -> tuple[str, Position]:
    """The uuid and the position of a RegisterReq.

    Raises:
        Refusal: 4000 the bytes are not one, 4002 it has no position, 4999 its uuid is too long.
    """
    try:
        request = pb.RegisterReq.FromString(data)
    except DecodeError as error:
        raise Refusal(Code.NIL_MESSAGE, "the bytes are not a RegisterReq") from error
    if not request.HasField("pos"):
        raise Refusal(Code.NIL_POSITION, "the request has no pos", request.uuid)
    require_uuid(request.uuid, limits)
    return request.uuid, read_position(request.pos)


def write_announcement(uuid: str, proxy: Position, path: Iterable[Position]) -> bytes:
    """Serialize a PathDiscoveryReq."""
    written = [write_position(position) for position in path]
    return pb.PathDiscoveryReq(uuid=uuid, proxyPos=write_position(proxy), path=written).SerializeToString()


def read_announcement(data: bytes, limits: Limits = DEFAULT) -> Announcement:
    """Read a PathDiscoveryReq.

    Raises:
        Refusal: 4000 the bytes are not one, 4002 it has no proxyPos or an empty path, 4006 its path is too long, 4999
            its uuid is.
    """
    try:
        request = pb.PathDiscoveryReq.FromString(data)
    except DecodeError as error:
        raise Refusal(Code.NIL_MESSAGE, "the bytes are not a PathDiscoveryReq") from error
    if not request.HasField("proxyPos") or not request.path:
        raise Refusal(Code.NIL_POSITION, "the request has no proxyPos or no path", request.uuid)
    require_uuid(request.uuid, limits)
    if len(request.path) > limits.path_length:
        text = f"the path has {len(request.path)} positions; the limit is {limits.path_length}"
        raise Refusal(Code.DST_TYPE_ILLEGAL, text, request.uuid)
    return Announcement(request.uuid, read_position(request.proxyPos), [read_position(p) for p in request.path])
