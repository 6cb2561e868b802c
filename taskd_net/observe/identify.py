"""Identification of the server at an address, without joining it and taking a place.

A node of this package describes itself (`proto/probe.proto`). Another parent of the mesh has the call that opens a
stream, and mostly ends the stream of an unknown node at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass
from enum import Enum

import grpc

from taskd_net.base.address import Address
from taskd_net.net.free_position import free_position
from taskd_net.net.joining.channel import channel_to
from taskd_net.net.links import peer as peers
from taskd_net.net.links.tasknet import STREAM
from taskd_net.net.tls.files import Tls
from taskd_net.observe.client import AskFailed, NodeClient
from taskd_net.observe.probe_codec import About
from taskd_net.observe.service import PROBE_SERVICE


class ServerKind(Enum):
    """The kind of server."""

    OURS = "a node of taskd_net"
    MESH = "another parent that knows the four calls"
    OTHER = "a gRPC server of something else"
    SILENT = "a gRPC server that does not answer in time"
    NONE = "no gRPC server that answers"


@dataclass(frozen=True, slots=True)
class Found:
    """The server at an address.

    Attributes:
        kind: its kind.
        about: the description of a node of this package; else None.
        clock: seconds by which its clock is ahead of this machine's, to within `clock_error`.
        clock_error: half of the round trip, in seconds.
    """

    kind: ServerKind
    about: About | None = None
    clock: float = 0.0
    clock_error: float = 0.0


async def identify(address: Address, timeout: float, tls: Tls | None = None) -> Found:
    """Identify the server at an address, within about twice `timeout` seconds.

    Raises:
        ConfigError: a file of TLS is not usable.
    """
    async with NodeClient(address, timeout, tls) as client:
        try:
            await client.about()  # connects
            asked, began = time.time_ns(), time.monotonic()
            about = await client.about()
            half = (time.monotonic() - began) / 2.0
            return Found(ServerKind.OURS, about, (about.time_ns - asked) / 1e9 - half, half)
        except AskFailed as error:
            if error.implemented:
                return Found(ServerKind.SILENT if error.connected else ServerKind.NONE)
    return Found(ServerKind.MESH if await _knows_the_calls(address, timeout, tls) else ServerKind.OTHER)


async def _knows_the_calls(address: Address, timeout: float, tls: Tls | None) -> bool:
    stranger = peers.stream_metadata(free_position())
    async with channel_to(address, tls) as channel:
        stream = _open_stream(channel, stranger)
        try:
            # A server that takes the stream of a stranger says nothing, or that it has accepted it.
            async with asyncio.timeout(timeout):
                await stream.initial_metadata()
                if not stream.done():
                    # gRPC reports a refusal in two steps, metadata and status: one more round trip, and both are there.
                    ask: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"/{PROBE_SERVICE}/About")
                    with contextlib.suppress(grpc.aio.AioRpcError):
                        await ask(b"")
                if not stream.done():
                    return True
                return await stream.code() is not grpc.StatusCode.UNIMPLEMENTED
        except TimeoutError:
            return True
        finally:
            stream.cancel()


def _open_stream(channel: grpc.aio.Channel, metadata: peers.Metadata) -> grpc.aio.StreamStreamCall[bytes, bytes]:
    call: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(STREAM)
    return call(metadata=metadata)
