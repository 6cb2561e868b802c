"""Asking a node for the state of the mesh, without joining it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import grpc

from taskd_net.address import Address
from taskd_net.codes import Refusal, TaskdNetError
from taskd_net.observe import status_codec as wire
from taskd_net.observe.records import Mesh
from taskd_net.position import Position
from taskd_net.states import State
from taskd_net.tls.files import Tls
from taskd_net.transport.channel import STATUS_SERVICE, channel_to

_Answer = TypeVar("_Answer")

_REFUSALS: Final = (
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.PERMISSION_DENIED,
)


class AskFailed(TaskdNetError):
    """There was no answer; the text says why."""


class NotForgotten(TaskdNetError):
    """The node that was asked has not forgotten another one; the text says why."""


class StatusClient:
    """A connection to one listening node. As a context it is closed at the end.

    Args:
        address: where the node listens.
        tls: the files to speak TLS with, as a child would; None: plain text.

    Raises:
        ConfigError: a file is not usable; names it and says what is wrong.
    """

    def __init__(self, address: Address, tls: Tls | None = None) -> None:
        self._address = address
        self._channel = channel_to(address, tls)
        self._forget: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(
            f"/{STATUS_SERVICE}/Forget"
        )
        self._tree: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(
            f"/{STATUS_SERVICE}/Tree"
        )

    async def __aenter__(self) -> StatusClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._channel.close()

    async def mesh(self, timeout: float) -> Mesh:
        """What the node knows of itself and of everything below it.

        Args:
            timeout: seconds until the answer at the latest.

        Raises:
            AskFailed: there is no node, it is not one of this package, or it did not answer in time.
        """
        return await self._asked(self._tree, b"", timeout, wire.read_mesh)

    async def forget(self, position: Position, timeout: float) -> State | None:
        """Have the node forget another one that is not connected.

        Args:
            position: of the one to be forgotten.
            timeout: seconds until the answer at the latest.

        Returns:
            The state that it had; None where only a route led to it.

        Raises:
            NotForgotten: it is connected, it is not known there, or the question comes from another machine.
            AskFailed: as for `mesh`.
        """
        return await self._asked(self._forget, wire.write_forget(position), timeout, wire.read_forgotten)

    async def _asked(
        self,
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes],
        request: bytes,
        timeout: float,
        read: Callable[[bytes], _Answer],
    ) -> _Answer:
        try:
            return read(await call(request, timeout=timeout))
        except Refusal as refusal:
            raise AskFailed(f"{self._address}: {refusal}") from refusal
        except grpc.aio.AioRpcError as error:
            status, text = error.code(), error.details() or ""
            if status is grpc.StatusCode.UNIMPLEMENTED:
                raise AskFailed(f"{self._address} is not a node of taskd_net, or of an older version") from error
            if status in _REFUSALS:
                raise NotForgotten(text) from error
            raise AskFailed(f"{self._address}: {status.name}: {text}") from error


async def ask_health(address: Address, service: str, timeout: float, tls: Tls | None = None) -> str:
    """The health of a server, by gRPC's own protocol: `SERVING`, `NOT_SERVING`, `UNKNOWN`.

    Args:
        address: where it listens.
        service: `TaskNet`, `liveness`, or empty: the server as a whole.
        timeout: seconds until the answer at the latest.
        tls: as for `StatusClient`.

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
                case grpc.StatusCode.NOT_FOUND:
                    text = f"it has no service {service!r}"
                case grpc.StatusCode.UNIMPLEMENTED:
                    text = "it does not say how it is (its extra `health` is not installed)"
                case code:
                    text = f"{code.name}: {error.details()}"
            raise AskFailed(f"{address}: {text}") from error
    return str(health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status))
