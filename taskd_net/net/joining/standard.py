"""Standard services of a listening node: health, reflection and channelz, each if its package is installed.

Health has three names. `TaskNet` is SERVING while the node can forward messages: a Proxy only while it has an upstream.
`""`, the whole server, is SERVING while the node also accepts messages of its own: not once its inbox has closed for
want of a reader. `liveness` is SERVING from start to end, for liveness probes: a Proxy that waits for its Mgr needs no
restart.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import grpc

from taskd_net.base import limits
from taskd_net.net.links.grpc_calls import SERVICE

if TYPE_CHECKING:
    from google.protobuf.descriptor_pool import DescriptorPool

Bounded: TypeAlias = "Callable[[grpc.GenericRpcHandler], grpc.GenericRpcHandler]"

LIVENESS: Final = "liveness"
"""The health service name that is SERVING as long as the node runs."""


class _ByName:
    """A server to which generated code adds its methods by name, without registering them."""

    def __init__(self, server: grpc.aio.Server, bounded: Bounded) -> None:
        self._server = server
        self._bounded = bounded

    def add_generic_rpc_handlers(self, handlers: Iterable[grpc.GenericRpcHandler]) -> None:
        """Add methods."""
        self._server.add_generic_rpc_handlers(tuple(map(self._bounded, handlers)))

    def add_registered_method_handlers(self, service_name: str, method_handlers: object) -> None:
        """Register nothing."""


def by_name(server: grpc.aio.Server, bounded: Bounded) -> grpc.aio.Server:
    """Wrap a server for generated code that adds a rarely called service.

    Generated code registers each method, and also adds it by name. grpc.aio keeps one more pending request per
    registered method, and searches all of them for every incoming call. Health, reflection and channelz have twelve.

    Args:
        server: the node's.
        bounded: bounds the messages of a service that have not come whole.
    """
    return cast("grpc.aio.Server", _ByName(server, bounded))


class Health:
    """The health service of a node. Without its package it does nothing.

    Args:
        serving: whether the node can forward messages at its start.
    """

    def __init__(self, *, serving: bool) -> None:
        self._serving = serving
        self._receiving = True
        self._work: asyncio.Task[None] | None = None
        try:
            from grpc_health.v1 import health
        except ImportError:
            self._servicer = None
        else:
            self._servicer = health.aio.HealthServicer()

    @property
    def known(self) -> bool:
        """True if its package is installed."""
        return self._servicer is not None

    async def add_to(self, server: grpc.aio.Server) -> None:
        """Add the service to a server."""
        if self._servicer is None:
            return
        from grpc_health.v1 import health_pb2, health_pb2_grpc

        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, server)
        await self._servicer.set(LIVENESS, health_pb2.HealthCheckResponse.SERVING)
        await self._tell()

    def serving(self, serving: bool) -> None:
        """Set whether the node can forward messages."""
        self._serving = serving
        self._changed()

    def receiving(self, receiving: bool) -> None:
        """Set whether the node accepts messages of its own."""
        self._receiving = receiving
        self._changed()

    def _changed(self) -> None:
        if self._servicer is not None and self._work is None:
            self._work = asyncio.create_task(self._tell(), name="tells its health")

    async def stop(self) -> None:
        """Report NOT_SERVING to all watchers before the node ends. Takes a bounded time."""
        if self._servicer is not None:
            if self._work is not None:
                await asyncio.wait([self._work], timeout=limits.CLOSE_GRACE_S)
            # A watcher that does not read must not block the node's end.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(limits.CLOSE_GRACE_S):
                    await self._servicer.enter_graceful_shutdown()

    async def _tell(self) -> None:
        from grpc_health.v1 import health_pb2

        assert self._servicer is not None
        told = None
        while told != (now := (self._serving, self._receiving)):
            told = now
            known = health_pb2.HealthCheckResponse
            for service, serving in ((SERVICE, now[0]), ("", all(now))):
                await self._servicer.set(service, known.SERVING if serving else known.NOT_SERVING)
        self._work = None


def add_reflection(server: grpc.aio.Server) -> bool:
    """Add the reflection service, which lists the node's calls. Returns whether its package is installed."""
    try:
        from grpc_reflection.v1alpha import reflection, reflection_pb2, reflection_pb2_grpc
    except ImportError:
        return False
    from importlib import resources

    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.descriptor_pool import DescriptorPool

    # A separate pool: the modules generated for the node itself have no services, and another package name.
    pool = DescriptorPool()
    ours = resources.files("taskd_net.net.wire").joinpath("public.binpb").read_bytes()
    names = [reflection.SERVICE_NAME]
    for file in FileDescriptorSet.FromString(ours).file:
        pool.Add(file)
        prefix = f"{file.package}." if file.package else ""
        names += [prefix + service.name for service in file.service]
    _add_file(pool, reflection_pb2.DESCRIPTOR)
    with contextlib.suppress(ImportError):
        from grpc_health.v1 import health, health_pb2

        _add_file(pool, health_pb2.DESCRIPTOR)
        names.append(health.SERVICE_NAME)
    with contextlib.suppress(ImportError):
        from grpc_channelz.v1 import channelz_pb2

        _add_file(pool, channelz_pb2.DESCRIPTOR)
        names.append("grpc.channelz.v1.Channelz")
    # The package chooses its servicer by the server's class, which `by_name` hides. The servicer for threads would
    # leave a thread waiting when the server stops.
    add: Any = reflection_pb2_grpc.add_ServerReflectionServicer_to_server
    add(reflection.aio.ReflectionServicer(names, pool), server)
    return True


def has_channelz() -> bool:
    """True if the package of channelz is installed."""
    try:
        import grpc_channelz.v1.channelz  # noqa: F401
    except ImportError:
        return False
    return True


def add_channelz(server: grpc.aio.Server) -> None:
    """Add channelz, which shows the connections of this process. Its package must be installed."""
    from grpc_channelz.v1 import channelz, channelz_pb2_grpc

    channelz_pb2_grpc.add_ChannelzServicer_to_server(channelz.aio.ChannelzServicer(), server)


def _add_file(pool: DescriptorPool, file: Any) -> None:
    for needed in file.dependencies:
        _add_file(pool, needed)
    pool.AddSerializedFile(file.serialized_pb)
