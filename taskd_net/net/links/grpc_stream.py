"""Links over a stream of gRPC: both ends, as two kinds use them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import grpc

from taskd_net.core.links import Link
from taskd_net.net.links import peer as peers
from taskd_net.net.links.grpc_calls import Context, Handler, caller_of
from taskd_net.net.links.kind import End, Failed, LinkLost, Parent, Way
from taskd_net.net.links.remote import Caller
from taskd_net.net.links.session import Session

Stream: TypeAlias = "grpc.aio.StreamStreamCall[bytes, bytes]"

# gRPC's exceptions for a stream that has ended under a read or a write.
_ENDED: Final = (grpc.RpcError, asyncio.InvalidStateError, grpc.aio.UsageError, grpc.aio.InternalError)

_STATUS: Final = {
    End.POSITION_TAKEN: grpc.StatusCode.ALREADY_EXISTS,
    End.CLOSING: grpc.StatusCode.UNAVAILABLE,
    End.ELSEWHERE: grpc.StatusCode.UNAVAILABLE,
    End.BUSY: grpc.StatusCode.UNAVAILABLE,
    End.VIOLATION: grpc.StatusCode.RESOURCE_EXHAUSTED,
    End.OTHER_JOB: grpc.StatusCode.FAILED_PRECONDITION,
    End.UNKNOWN: grpc.StatusCode.UNKNOWN,
}


class _GrpcPipe:
    """Either end of a stream of gRPC.

    Attributes:
        complete: as in `Pipe`.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.complete = False

    async def read(self) -> bytes | None:
        """The next message of the other end; None when the stream has ended."""
        try:
            data = await self._stream.read()
        except _ENDED:
            return None
        if isinstance(data, bytes):
            return data
        # gRPC raises at the end of a stream whose status is not OK.
        self.complete = True
        return None

    async def write(self, data: bytes) -> bool:
        """Write a message to the other end. Returns False when the stream has ended."""
        try:
            await self._stream.write(data)
        except _ENDED:
            return False
        return True


class ServerPipe(_GrpcPipe):
    """A stream that a child has opened, by its context."""

    async def finish(self) -> None:
        """A server's stream is finished by returning from the call."""


class ClientPipe(_GrpcPipe):
    """A stream to the parent, by its call; `Line` and `Pipe` in one."""

    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        self._lost: LinkLost | None = None

    async def write(self, data: bytes) -> bool:
        """Write a message to the parent. Returns False when the stream has ended."""
        if await super().write(data):
            return True
        if self._stream.done() and self._lost is None:
            self._lost = await self.lost()
            # After a failed write gRPC ignores `cancel`, but its core keeps the call, the messages that nobody has read
            # and a task that waits for the status, until the process ends.
            self._stream._cython_call.cancel("a write has failed")
        return False

    async def finish(self) -> None:
        """Write no more; the parent ends the stream when it has read all of it."""
        with contextlib.suppress(*_ENDED):
            await self._stream.done_writing()

    def cancel(self) -> None:
        """End the stream at once."""
        self._stream.cancel()

    async def lost(self) -> LinkLost:
        """The reason for which the stream has ended."""
        if self._lost is not None:
            return self._lost
        status, details = await self._stream.code(), await self._stream.details() or ""
        return LinkLost(f"the stream ended: {status.name}: {details}", peers.position_taken(status, details))


async def open_stream(way: Way, method: str) -> tuple[ClientPipe, Mapping[str, str]]:
    """Open a stream to the parent and wait until it stands, as far as this kind of parent lets one know.

    Args:
        way: the way to the parent.
        method: the full name of the call.

    Returns:
        The stream, and the metadata with which the parent has accepted it.

    Raises:
        Failed: it is refused, or not accepted in time.
    """
    call: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = way.channel.stream_stream(method)
    stream = call(metadata=peers.stream_metadata(way.host.router.identity, continues=way.continues))
    confirms = way.peer.profile.confirms_stream
    accepted: Mapping[str, str] = {}
    try:
        async with asyncio.timeout(way.ack_timeout):
            if confirms:
                accepted = peers.read_metadata(await stream.initial_metadata())
            else:
                await stream.wait_for_connection()
        if confirms and stream.done():
            status, details = await stream.code(), await stream.details()
            raise Failed(f"opening the stream: {status.name}: {details}")
    except TimeoutError as error:
        stream.cancel()
        raise Failed("opening the stream: the parent did not accept the stream in time") from error
    except grpc.aio.AioRpcError as error:
        raise Failed(f"opening the stream: {error.code().name}: {error.details()}") from error
    except BaseException:
        stream.cancel()
        raise
    return ClientPipe(stream), accepted


class IncomingStream:
    """A stream of gRPC that a child opens.

    Args:
        context: gRPC's.
        caller: its far end.
        make: makes the session of the link over a pipe.
        tells: whether accepting it may say that this node has joined.
    """

    def __init__(
        self, context: Context, caller: Caller, make: Callable[[Link, ServerPipe], Session[bytes]], *, tells: bool
    ) -> None:
        metadata = peers.read_metadata(context.invocation_metadata())
        self.caller = caller
        self.remote = caller.remote
        self.position = peers.stream_position(metadata)
        self.continues = peers.stream_continues(metadata)
        self._context = context
        self._make = make
        self._tells = tells

    @property
    def gone(self) -> bool:
        """True if the child has closed the connection."""
        return self._context.done()

    def session(self, link: Link) -> Session[bytes]:
        """Make the session of the link."""
        session = self._make(link, ServerPipe(self._context))
        session.place = self.remote.place
        return session

    async def accept(self, joined: bool | None) -> None:
        """Tell the child that the stream stands."""
        tell = self._tells and joined is not None
        await self._context.send_initial_metadata(peers.joined_metadata(bool(joined)) if tell else ())

    async def end(self, end: End) -> None:
        """End the stream with a status; gRPC leaves the call by an exception."""
        await self._context.abort(_STATUS[end], end.value)


def stream_handler(
    parent: Parent, make: Callable[[Link, ServerPipe], Session[bytes]], *, tells: bool = False
) -> Handler:
    """Serve the streams of a kind of link; the arguments are those of `IncomingStream`."""

    async def served(_: object, context: Context) -> None:
        caller = caller_of(context)
        if caller is not None:
            await parent.serve(IncomingStream(context, caller, make, tells=tells))

    return grpc.stream_stream_rpc_method_handler(served)
