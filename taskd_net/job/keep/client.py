"""A client of etcd's v3 interface, over gRPC: to the member that answered last, else to the next."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from typing import Any, Final, Protocol, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from taskd_net.base.address import Address
from taskd_net.base.codes import NodeError, TaskdNetError
from taskd_net.job.keep.limits import EtcdLimits
from taskd_net.job.keep.place import Place
from taskd_net.net.joining.channel import open_channel
from taskd_net.net.tls.files import Tls
from taskd_net.net.wire import etcd_pb2 as wire

AnswerT = TypeVar("AnswerT", bound=Message)

_ELSEWHERE: Final = frozenset(
    (
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.UNKNOWN,
    )
)
"""Statuses after which another member, or a later attempt, may answer. Others are answers."""

_SETTINGS: Final = {"ca": "state_ca", "client_key": "state_key", "client_crt": "state_crt"}
"""The settings of a Manager that have the paths of the files of TLS."""

_RIGHTS: Final = frozenset((grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED))
_NO_USER: Final = "user name is empty"


class EtcdError(TaskdNetError):
    """A request has no answer. A write may have been carried out."""


class _Ended(Exception):
    """A stream has ended without an answer."""


class LeaseEnded(EtcdError):
    """A key was to be bound to a lease that has ended: nothing was carried out."""


class EtcdRefused(EtcdError):
    """etcd has answered with a refusal: nothing was carried out.

    Attributes:
        rights: it is for want of rights.
    """

    def __init__(self, text: str, *, rights: bool = False) -> None:
        super().__init__(text)
        self.rights = rights


class Etcd(Protocol):
    """The requests to etcd. Each raises EtcdError."""

    async def range(self, request: wire.RangeRequest) -> wire.RangeResponse:
        """Read keys."""

    async def txn(self, request: wire.TxnRequest) -> wire.TxnResponse:
        """Carry out a transaction."""

    async def grant(self, request: wire.LeaseGrantRequest) -> wire.LeaseGrantResponse:
        """Begin a lease."""

    async def keep_alive(self, request: wire.LeaseKeepAliveRequest) -> wire.LeaseKeepAliveResponse:
        """Renew a lease."""

    async def revoke(self, request: wire.LeaseRevokeRequest) -> wire.LeaseRevokeResponse:
        """End a lease, with the keys bound to it."""

    async def close(self) -> None:
        """Close the connections."""


class EtcdClient:
    """etcd's members, in one event loop.

    Args:
        place: their addresses.
        tls: its files of a client; None for plain text. The CN of the certificate is the user of etcd.
        limits: times of a request.

    Attributes:
        limits: as the argument, for requests that begin from now on.

    Raises:
        ConfigError: a file of TLS is not usable; names its setting of a Manager.
    """

    def __init__(self, place: Place, tls: Tls | None = None, limits: EtcdLimits = EtcdLimits()) -> None:
        self._members = place.members
        self.limits = limits
        self._credentials, self._server_name = None, None
        if tls is not None:
            from taskd_net.net.tls.certificates import read
            from taskd_net.net.tls.credentials import channel_credentials

            self._credentials, self._server_name = channel_credentials(read(tls, _SETTINGS)), tls.server_name
        # The member of the moment, counted on without end, its channel, and the calls on each channel.
        self._number = 0
        self._current: grpc.aio.Channel | None = None
        self._calls: Counter[grpc.aio.Channel] = Counter()

    async def range(self, request: wire.RangeRequest) -> wire.RangeResponse:
        """Read keys; see `Etcd`."""
        return await self._call("KV/Range", request, wire.RangeResponse)

    async def txn(self, request: wire.TxnRequest) -> wire.TxnResponse:
        """Carry out a transaction; see `Etcd`."""
        return await self._call("KV/Txn", request, wire.TxnResponse)

    async def grant(self, request: wire.LeaseGrantRequest) -> wire.LeaseGrantResponse:
        """Begin a lease; see `Etcd`."""
        return await self._call("Lease/LeaseGrant", request, wire.LeaseGrantResponse)

    async def keep_alive(self, request: wire.LeaseKeepAliveRequest) -> wire.LeaseKeepAliveResponse:
        """Renew a lease, over a stream of its own: one renewal never waits behind a lost one."""
        return await self._call("Lease/LeaseKeepAlive", request, wire.LeaseKeepAliveResponse, streams=True)

    async def revoke(self, request: wire.LeaseRevokeRequest) -> wire.LeaseRevokeResponse:
        """End a lease; see `Etcd`."""
        return await self._call("Lease/LeaseRevoke", request, wire.LeaseRevokeResponse)

    async def close(self) -> None:
        """Close every connection. Idempotent."""
        channels, self._current = list(self._calls), None
        self._calls.clear()
        for channel in channels:
            await channel.close()

    async def _call(self, name: str, request: Message, answer: type[AnswerT], *, streams: bool = False) -> AnswerT:
        """Ask one member after another, within `limits.call_s`.

        A single member is asked once. Several are asked in turn for all of that time, because none of them answers
        during an election.
        """
        path, data, limits = f"/etcdserverpb.{name}", request.SerializeToString(), self.limits
        give_up = time.monotonic() + limits.call_s
        member, alone, attempts = self._members[0], len(self._members) == 1, 0
        code: grpc.StatusCode | None = None
        reason = "no answer in time"
        while (left := give_up - time.monotonic()) > 0.0 and not (alone and attempts):
            if attempts and attempts % len(self._members) == 0:
                await asyncio.sleep(min(left, limits.again_s))
            attempts += 1
            seconds = left if alone else min(left, limits.member_s)
            number = self._number
            member, channel = self._members[number % len(self._members)], self._channel()
            self._calls[channel] += 1
            try:
                read = await (self._stream if streams else self._unary)(channel, path, data, seconds)
                return answer.FromString(read)
            except grpc.aio.AioRpcError as error:
                code, reason = error.code(), error.details() or ""
                if code is grpc.StatusCode.NOT_FOUND:
                    raise LeaseEnded(f"{name} at {member}: {reason}") from error
                if code not in _ELSEWHERE:
                    raise _refused(name, f"{member}: {code.name}: {reason}", error) from error
                self._leave(number)
            except DecodeError:
                code, reason = None, "the answer cannot be read"
                self._leave(number)
            except _Ended:
                code, reason = None, "the stream has ended without an answer"
                self._leave(number)
            finally:
                self._calls[channel] -= 1
                await self._close_left()
        raise EtcdError(f"{name} at {member}: {await self._in_words(member, code, reason)}")

    async def _in_words(self, member: Address, code: grpc.StatusCode | None, details: str) -> str:
        if code is None:
            return details
        said = f"{code.name}: {details}"
        if code is not grpc.StatusCode.UNAVAILABLE:
            return said
        from taskd_net.net.tls.explain import explain

        tls, name = self._credentials is not None, self._server_name or member.host
        words = await explain(details, member, tls=tls, name=name, parent="etcd")
        return said if words == details else words

    def _leave(self, number: int) -> None:
        """Leave a member, unless another call has. With its channel goes gRPC's pause before a new connection."""
        if self._number == number:
            self._number += 1
            self._current = None

    async def _close_left(self) -> None:
        """Close the channels that were left, and have no calls: a close would cancel the tasks of those."""
        left = [each for each, calls in self._calls.items() if not calls and each is not self._current]
        for channel in left:
            del self._calls[channel]
        for channel in left:
            await channel.close()

    async def _unary(self, channel: grpc.aio.Channel, path: str, data: bytes, seconds: float) -> bytes:
        call: Any = channel.unary_unary(path)
        answer: bytes = await call(data, timeout=seconds)
        return answer

    async def _stream(self, channel: grpc.aio.Channel, path: str, data: bytes, seconds: float) -> bytes:
        """Send one request over a stream, and read one answer.

        Raises:
            AioRpcError: the stream has ended with an error.
            _Ended: it has ended in good order, without an answer.
        """
        stream: Any = channel.stream_stream(path)(timeout=seconds)
        try:
            with contextlib.suppress(asyncio.InvalidStateError):  # it has ended already: reading tells why
                await stream.write(data)
            answer: bytes | Any = await stream.read()
            if answer is grpc.aio.EOF:
                raise _Ended
            return bytes(answer)
        finally:
            stream.cancel()

    def _channel(self) -> grpc.aio.Channel:
        if self._current is None:
            address = self._members[self._number % len(self._members)]
            try:
                self._current = open_channel(address, self._credentials, self._server_name, pings=False)
            except NodeError as error:
                raise EtcdError(str(error)) from None
        return self._current


def _refused(name: str, reason: str, error: grpc.aio.AioRpcError) -> EtcdRefused:
    no_user = _NO_USER in (error.details() or "")
    return EtcdRefused(f"{name} at {reason}", rights=no_user or error.code() in _RIGHTS)
