"""The requests of a child, Register and PathDiscovery: bytes ↔ the package's own types, checked once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

from taskd_net.base.codes import Code, Refusal
from taskd_net.base.position import Position, Role
from taskd_net.core.topology import ROUTES_SLICE
from taskd_net.net.wire import tasknet_pb2 as pb
from taskd_net.net.wire.codec import require_uuid
from taskd_net.net.wire.fields import field_end
from taskd_net.net.wire.positions import read_position, write_position

POSITION_BYTES: Final = 64
"""Bytes of an announcement that count as a position at least: more than a position of a large job has."""

SHORT: Final = 32
"""Positions of an announcement that is taken in at once, without slices: 0.3 ms, as much as gRPC's part of the call."""

PATH_POSITIONS: Final = 131_072
"""Positions in one announcement; 4006 beyond. Children of this package send 2,000 at a time, the original's send all of
them."""

HEAD_FIELDS: Final = 16
"""Fields of an announcement in front of its path; there are two, and others of a later version."""


class Slice(NamedTuple):
    """A part of an announcement's path.

    Attributes:
        fields: positions in it; other fields are counted as well.
        data: a PathDiscoveryReq with these fields alone.
    """

    fields: int
    data: bytes

    @property
    def cost(self) -> int:
        """The positions that it may have by its fields and its bytes."""
        return max(self.fields, len(self.data) // POSITION_BYTES)

    def read(self) -> list[Position]:
        """Read the positions.

        Raises:
            Refusal: 4000, the bytes are not positions.
        """
        # Not remembered: most are not met again, and a hostile peer names ever new ones. Neighbours share a server.
        path, server = _parsed(self.data).path, ""
        read = []
        for one in path:
            if (rank := one.serverRank) != server:
                server = rank
            read.append(Position(_ROLES.get(one.role, one.role), server, one.processRank))
        return read


@dataclass(frozen=True, slots=True)
class Announcement:
    """A PathDiscovery request. Its path can be reached through `proxy`.

    The generated classes need many times the memory of a path of nothing but empty positions, and hundreds of
    milliseconds. So a long path is counted on the bytes, and read by slices.

    Attributes:
        path: all of it where it is short; else None.
    """

    uuid: str
    proxy: Position
    path: list[Position] | None
    _data: bytes
    _begin: int
    _most: int

    def slices(self) -> Iterator[Slice]:
        """The path by slices, as they are asked for. The last one may be without positions.

        Raises:
            Refusal: 4000 the rest is no part of a PathDiscoveryReq, 4006 the path is too long.
        """
        data, at, count = self._data, self._begin, 0
        if self.path is not None:
            yield Slice(len(self.path), data)
            return
        while at < len(data):
            start, fields = at, 0
            try:
                while at < len(data) and fields < ROUTES_SLICE:
                    _, at = field_end(data, at)
                    fields += 1
            except (IndexError, ValueError) as error:
                raise Refusal(Code.NIL_MESSAGE, _NO_ANNOUNCEMENT, self.uuid) from error
            count += fields
            if count > self._most:
                text = f"the path has more than {self._most} positions"
                raise Refusal(Code.DST_TYPE_ILLEGAL, text, self.uuid)
            yield Slice(fields, data[start:at])


_NO_ANNOUNCEMENT: Final = "the bytes are not a PathDiscoveryReq"
_ROLES: Final = {role.value: role.value for role in Role}
_PATH: Final = pb.PathDiscoveryReq.PATH_FIELD_NUMBER


def write_register(uuid: str, position: Position) -> bytes:
    """Serialize a RegisterReq."""
    return pb.RegisterReq(uuid=uuid, pos=write_position(position)).SerializeToString()


def read_register(data: bytes) -> tuple[str, Position]:
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
    require_uuid(request.uuid)
    return request.uuid, read_position(request.pos)


def write_announcement(uuid: str, proxy: Position, path: Iterable[Position]) -> bytes:
    """Serialize a PathDiscoveryReq."""
    written = [write_position(position) for position in path]
    return pb.PathDiscoveryReq(uuid=uuid, proxyPos=write_position(proxy), path=written).SerializeToString()


def read_announcement(data: bytes, most: int = PATH_POSITIONS) -> Announcement:
    """Read a PathDiscoveryReq: a short one at once, any other up to its path, as all implementations write it.

    Raises:
        Refusal: 4000 the bytes are not one, 4002 it has no proxyPos or no path, 4999 its uuid is too long.
    """
    if len(data) <= SHORT * POSITION_BYTES:
        with contextlib.suppress(DecodeError):
            whole = pb.PathDiscoveryReq.FromString(data)
            if len(whole.path) <= min(SHORT, most):
                return _announcement(whole, data, 0, most, [read_position(position) for position in whole.path])
    at = number = 0
    try:
        for _ in range(HEAD_FIELDS):
            if at >= len(data):
                break
            number, end = field_end(data, at)
            if number == _PATH:
                break
            at = end
    except (IndexError, ValueError) as error:
        raise Refusal(Code.NIL_MESSAGE, _NO_ANNOUNCEMENT) from error
    head = _parsed(data[:at])
    return _announcement(head, data, at, most, None if number == _PATH else [])


def _announcement(
    head: pb.PathDiscoveryReq, data: bytes, begin: int, most: int, path: list[Position] | None
) -> Announcement:
    if path == [] or not head.HasField("proxyPos"):
        raise Refusal(Code.NIL_POSITION, "the request has no path, or no proxyPos in front of it", head.uuid)
    require_uuid(head.uuid)
    return Announcement(head.uuid, read_position(head.proxyPos), path, data, begin, most)


def _parsed(data: bytes) -> pb.PathDiscoveryReq:
    try:
        return pb.PathDiscoveryReq.FromString(data)
    except DecodeError as error:
        raise Refusal(Code.NIL_MESSAGE, _NO_ANNOUNCEMENT) from error
