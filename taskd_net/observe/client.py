"""Questions to a listening node, asked without joining it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from typing import Any, Final, Self, TypeVar

import grpc

from taskd_net.base.address import Address
from taskd_net.base.codes import Refusal, TaskdNetError
from taskd_net.base.position import Position
from taskd_net.base.states import State
from taskd_net.net.joining.channel import channel_to
from taskd_net.net.links.grpc_calls import STATUS_SERVICE
from taskd_net.net.tls.files import Tls
from taskd_net.observe import probe_codec as probes
from taskd_net.observe import status_codec as wire
from taskd_net.observe.job_codec import Stacks, read_job, read_stacks_answer, write_stacks_request
from taskd_net.observe.job_view import JobView
from taskd_net.observe.probe_codec import About, Echo, ProbeSeries
from taskd_net.observe.records import Mesh
from taskd_net.observe.service import JOB_SERVICE, PROBE_SERVICE

_Answer = TypeVar("_Answer")

_NOT_FORGOTTEN: Final = (
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.PERMISSION_DENIED,
)


class AskFailed(TaskdNetError):
    """A question without an answer; the text says why.

    Attributes:
        implemented: False where a gRPC server answered that it does not have the call.
        connected: True where a gRPC server took the connection, and did not answer in time.
        unreached: True where nobody has answered; the connection may be at fault.
    """

    def __init__(
        self, text: str, *, implemented: bool = True, connected: bool = False, unreached: bool = False
    ) -> None:
        super().__init__(text)
        self.unreached = unreached
        self.implemented = implemented
        self.connected = connected


class NoManager(AskFailed):
    """A node without a Manager was asked for its job; the text says why it has none."""


class NotForgotten(TaskdNetError):
    """The node has not forgotten another one; the text says why."""


class NodeClient:
    """A connection to one listening node. As a context it is closed at the end.

    Args:
        address: where the node listens; of several, the first that answers is asked, until it does so no more.
        timeout: seconds until an answer at the latest. Series of probes take as long as they take: ask `about` first.
        tls: the files to speak TLS with, as a child would; None: plain text.

    Raises:
        ConfigError: a file is not usable; names it and says what is wrong.
    """

    def __init__(self, address: Address | Sequence[Address], timeout: float, tls: Tls | None = None) -> None:
        self._addresses = (address,) if isinstance(address, Address) else tuple(address)
        self._timeout = timeout / len(self._addresses)
        self._channels = [channel_to(each, tls) for each in self._addresses]
        self._asked = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        for channel in self._channels:
            await channel.close()

    async def about(self) -> About:
        """The node's description of itself.

        Raises:
            AskFailed: no node of this package answers in time.
        """
        return await self._ask(f"/{PROBE_SERVICE}/About", b"", probes.read_about)

    async def mesh(self) -> Mesh:
        """The state of the node and of everything below it, as far as the node knows it.

        Raises:
            AskFailed: as for `about`.
        """
        return await self._ask(f"/{STATUS_SERVICE}/Tree", b"", wire.read_mesh)

    async def job(self) -> JobView:
        """The state of the node's Manager; without its histogram.

        Raises:
            NoManager: the node decides nothing.
            AskFailed: as for `about`.
        """
        try:
            return await self._ask(f"/{JOB_SERVICE}/Look", b"", read_job)
        except AskFailed as failed:
            raise _without_manager(failed) from failed.__cause__

    async def stacks(self, ranks: Collection[int]) -> Stacks:
        """Have the node's Manager collect the stacks of ranks; of all without any.

        Raises:
            NoManager: the node decides nothing.
            AskFailed: as for `about`, or it does not collect them for this caller, or not now.
        """
        request = write_stacks_request(ranks)
        try:
            return await self._ask(f"/{JOB_SERVICE}/CollectStacks", request, read_stacks_answer)
        except AskFailed as failed:
            raise _without_manager(failed) from failed.__cause__

    async def forget(self, position: Position) -> State | None:
        """Have the node forget another one that is not connected.

        Args:
            position: the other one.

        Returns:
            The state that it had; None where only a route led to it.

        Raises:
            NotForgotten: it is connected, it is not known there, or the question comes from another machine.
            AskFailed: as for `about`.
        """
        try:
            return await self._ask(f"/{STATUS_SERVICE}/Forget", wire.write_forget(position), wire.read_forgotten)
        except AskFailed as failed:
            cause = failed.__cause__
            if isinstance(cause, grpc.aio.AioRpcError) and cause.code() in _NOT_FORGOTTEN:
                raise NotForgotten(cause.details() or "") from cause
            raise

    async def ping(self, series: ProbeSeries) -> AsyncIterator[Echo]:
        """Let the node send a series of probes. Nothing bounds how long that takes: ask `about` first.

        Yields:
            Each answer as it comes.

        Raises:
            AskFailed: no node answers, or it refuses.
        """
        async for echo in self._stream("Ping", probes.write_ping(series)):
            yield echo

    async def trace(self, to: Position, timeout: float) -> AsyncIterator[Echo]:
        """Let the node follow the way to a position, `timeout` seconds for each hop.

        Yields:
            The answer of each hop as it comes.

        Raises:
            AskFailed: no node answers, or it refuses.
        """
        async for echo in self._stream("Trace", probes.write_trace(to, timeout)):
            yield echo

    async def _ask(self, method: str, request: bytes, read: Callable[[bytes], _Answer]) -> _Answer:
        unreached: list[AskFailed] = []
        for _ in self._addresses:
            call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(method)
            try:
                return read(await call(request, timeout=self._timeout))
            except Refusal as refusal:
                raise AskFailed(f"{self._address}: {refusal}") from refusal
            except grpc.aio.AioRpcError as error:
                failed = self._explain(error)
                if not failed.unreached:
                    raise failed from error
                failed.__cause__ = error
                unreached.append(failed)
                self._asked = (self._asked + 1) % len(self._addresses)
        if len(unreached) == 1:
            raise unreached[0]
        connected = any(failed.connected for failed in unreached)
        raise AskFailed("; ".join(map(str, unreached)), connected=connected, unreached=True)

    @property
    def _address(self) -> Address:
        return self._addresses[self._asked]

    @property
    def _channel(self) -> grpc.aio.Channel:
        return self._channels[self._asked]

    async def _stream(self, name: str, request: bytes) -> AsyncIterator[Echo]:
        method: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = self._channel.unary_stream(f"/{PROBE_SERVICE}/{name}")
        call = method(request)
        try:
            async for data in call:
                yield probes.read_echo(data)
        except Refusal as refusal:
            raise AskFailed(f"{self._address}: {refusal}") from refusal
        except grpc.aio.AioRpcError as error:
            raise self._explain(error) from error
        finally:
            call.cancel()

    def _explain(self, error: grpc.aio.AioRpcError) -> AskFailed:
        status, text = error.code(), error.details() or ""
        match status:
            case grpc.StatusCode.UNIMPLEMENTED:
                text = f"who listens at {self._address} is not a node of taskd_net, or one too old to be asked"
                return AskFailed(text, implemented=False)
            case grpc.StatusCode.UNAVAILABLE:
                # The details are words of gRPC's libraries.
                return AskFailed(f"no node answers at {self._address}", unreached=True)
            case grpc.StatusCode.DEADLINE_EXCEEDED:
                # gRPC's own threads greet whoever connects, also where the process has no time for a call.
                connected = self._channel.get_state() is grpc.ChannelConnectivity.READY
                said = f"no node answers at {self._address} within {self._timeout:g} s"
                return AskFailed(said, connected=connected, unreached=True)
        return AskFailed(f"{self._address} refused: {text}")


def _without_manager(failed: AskFailed) -> AskFailed:
    """The failure of a question to a Manager."""
    cause = failed.__cause__
    if isinstance(cause, grpc.aio.AioRpcError) and cause.code() is grpc.StatusCode.FAILED_PRECONDITION:
        return NoManager(cause.details() or "")
    return failed


async def ask_health(address: Address, service: str, timeout: float, tls: Tls | None = None) -> str:
    """The health of a server, by gRPC's own protocol: `SERVING`, `NOT_SERVING`, `UNKNOWN`.

    Args:
        address: where it listens.
        service: `TaskNet`, `liveness`, or empty: the server as a whole.
        timeout: seconds until the answer at the latest.
        tls: as for `NodeClient`.

    Raises:
        ConfigError: a file of TLS is not usable.
        AskFailed: nobody answered in time, the server has no such service, or the package for it is missing here.
    """
    try:
        from grpc_health.v1 import health_pb2, health_pb2_grpc
    except ImportError as error:
        raise AskFailed("grpcio-health-checking is not installed: pip install 'taskd-net[health]'") from error
    async with channel_to(address, tls) as channel:
        try:
            stub: Any = health_pb2_grpc.HealthStub(channel)
            answer = await stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=timeout)
        except grpc.aio.AioRpcError as error:
            match error.code():
                case grpc.StatusCode.UNAVAILABLE | grpc.StatusCode.DEADLINE_EXCEEDED:
                    raise AskFailed(f"no node answers at {address}", unreached=True) from error
                case grpc.StatusCode.NOT_FOUND:
                    text = f"it has no service {service!r}"
                case grpc.StatusCode.UNIMPLEMENTED:
                    text = "it does not say how it is (its extra `health` is not installed)"
                case code:
                    text = f"{code.name}: {error.details()}"
            raise AskFailed(f"{address}: {text}") from error
    return str(health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status))
