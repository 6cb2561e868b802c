"""Asking a listening node of ours to send probes, and who it is; without a place in the tree."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

import grpc

from taskd_net.address import Address
from taskd_net.codes import TaskdNetError
from taskd_net.observe import probe_codec as probes
from taskd_net.observe.probe_codec import About, Echo, Series
from taskd_net.observe.probe_service import SERVICE
from taskd_net.position import Position
from taskd_net.tls.files import Tls
from taskd_net.transport.channel import channel_to


class ProbeClient:
    """The calls to one node; a context that closes its channel.

    Args:
        address: where the node listens.
        timeout: seconds to reach it.
        tls: the files to speak TLS with, as a child would; None: plain text.

    Raises:
        ConfigError: a file is not usable; names it and says what is wrong.
    """

    def __init__(self, address: Address, timeout: float, tls: Tls | None = None) -> None:
        self._address = address
        self._timeout = timeout
        self._channel = channel_to(address, tls)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._channel.close()

    async def ping(self, series: Series) -> AsyncIterator[Echo]:
        """Let the node send these probes; yields each answer as it comes. How long all of them take, nobody knows:
        whether the node is there at all is better asked by `about`.

        Raises:
            NotAskedError: nobody is there, or who is there does not do it.
        """
        async for echo in self._stream("Ping", probes.write_ping(series)):
            yield echo

    async def trace(self, to: Position, timeout: float) -> AsyncIterator[Echo]:
        """Let the node follow the way to a position, `timeout` seconds for each hop.

        Raises:
            NotAskedError: nobody is there, or who is there does not do it.
        """
        async for echo in self._stream("Trace", probes.write_trace(to, timeout)):
            yield echo

    async def about(self) -> About:
        """Who is there.

        Raises:
            NotAskedError: nobody, or somebody who does not say so.
        """
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(f"/{SERVICE}/About")
        try:
            return probes.read_about(await call(b"", timeout=self._timeout))
        except grpc.aio.AioRpcError as error:
            raise self._explain(error) from error

    async def _stream(self, name: str, request: bytes) -> AsyncIterator[Echo]:
        method: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = self._channel.unary_stream(f"/{SERVICE}/{name}")
        call = method(request)
        try:
            async for data in call:
                yield probes.read_echo(data)
        except grpc.aio.AioRpcError as error:
            raise self._explain(error) from error
        finally:
            call.cancel()

    def _explain(self, error: grpc.aio.AioRpcError) -> NotAskedError:
        status, text, connected = error.code(), error.details() or "", False
        match status:
            case grpc.StatusCode.UNIMPLEMENTED:
                text = f"who listens at {self._address} is not a node of taskd_net, or one too old to be asked"
            case grpc.StatusCode.UNAVAILABLE:
                text = f"no node answers at {self._address}: {text}"
            case grpc.StatusCode.DEADLINE_EXCEEDED:
                # gRPC's own threads greet whoever connects, also where the process has no time for a call.
                connected = self._channel.get_state() is grpc.ChannelConnectivity.READY
                text = f"no node answers at {self._address} within {self._timeout:g} s"
            case _:
                text = f"{self._address} refused: {text}"
        return NotAskedError(text, implemented=status is not grpc.StatusCode.UNIMPLEMENTED, connected=connected)


class NotAskedError(TaskdNetError):
    """The node could not be asked; the text says why.

    Attributes:
        implemented: False where a gRPC server answered that it does not have the call.
        connected: a gRPC server took the connection, and did not answer in time.
    """

    def __init__(self, text: str, *, implemented: bool, connected: bool = False) -> None:
        super().__init__(text)
        self.implemented = implemented
        self.connected = connected
