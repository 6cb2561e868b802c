"""The service of `proto/probe.proto`: a listening node sends probes for those who have no place in the tree."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Final

import grpc

from taskd_net import limits
from taskd_net.core.links import UP
from taskd_net.links.host import Host
from taskd_net.links.session import Context
from taskd_net.observe import probe_codec as probes
from taskd_net.observe.probe_codec import About, Echo, Series
from taskd_net.observe.prober import Prober, one_node
from taskd_net.version import __version__

SERVICE: Final = "taskd_net.probe.Probe"


class ProbeService:
    """What one node answers.

    Args:
        host: the node.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._prober = Prober(host)
        self._running = 0
        self._closing = asyncio.Event()

    def handler(self) -> grpc.GenericRpcHandler:
        """For the node's server."""
        methods: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
            "Ping": grpc.unary_stream_rpc_method_handler(self._ping),
            "Trace": grpc.unary_stream_rpc_method_handler(self._trace),
            "About": grpc.unary_unary_rpc_method_handler(self._about),
        }
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    def close(self) -> None:
        """End what is under way after its next answer: a server waits for its streams."""
        self._closing.set()

    async def _ping(self, data: bytes, context: Context) -> None:
        try:
            series = probes.read_ping(data)
        except ValueError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        await self._send(self._pings(series), context)

    async def _trace(self, data: bytes, context: Context) -> None:
        try:
            to, timeout = probes.read_trace(data)
            to = one_node(to)
        except ValueError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        await self._send(self._prober.trace(to, timeout), context)

    async def _about(self, _: bytes, context: Context) -> bytes:
        upstream = self._host.links.get(UP)
        parent = None if upstream is None else upstream.peer
        return probes.write_about(About(self._host.router.position, __version__, time.time_ns(), parent))

    async def _pings(self, series: Series) -> AsyncIterator[Echo]:
        loop = asyncio.get_running_loop()
        pause = max(series.interval, limits.PROBE_INTERVAL_S)
        sent = 0
        while True:
            began = loop.time()
            yield await self._prober.ping(series.to, series.timeout)
            sent += 1
            if sent == series.count:
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), began + pause - loop.time())

    async def _send(self, echoes: AsyncIterator[Echo], context: Context) -> None:
        """Write the answers to whoever asked, as they come."""
        if self._running >= limits.PROBE_SERIES:
            text = f"this node sends {limits.PROBE_SERIES} series of probes for others already"
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, text)
        self._running += 1
        try:
            async for echo in echoes:
                await context.write(probes.write_echo(echo))
                if self._closing.is_set():
                    await context.abort(grpc.StatusCode.UNAVAILABLE, "the node is closing")
        finally:
            self._running -= 1
