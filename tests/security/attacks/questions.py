"""Questions for the state of the mesh, and series of probes, without an end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack
from typing import Any, Final

import grpc.aio
import pytest

from taskd_net import Position
from taskd_net.base.states import State
from taskd_net.net.links.grpc_calls import STATUS_SERVICE
from taskd_net.observe import probe_codec, status_codec
from taskd_net.observe.ledger import Record, Report
from taskd_net.observe.records import NodeStatus
from taskd_net.observe.service import PROBE_SERIES, PROBE_SERIES_PER_CALLER, PROBE_SERVICE
from tests.peers.links import LinkChild, stream_metadata
from tests.security.attacks.attack import Attack
from tests.security.bystander.stand import Stand

NODES: Final = 10 * status_codec.REPORT_NODES
"""Nodes that a Proxy reports."""

PING: Final = f"/{PROBE_SERVICE}/Ping"


def _reports() -> list[bytes]:
    """Full reports of nodes below a Proxy."""
    status = status_codec.write_node(NodeStatus(Position.proxy(7), State.JOINED, 1.0, "taskd_net"))
    names = [f"Worker/7/{rank}" for rank in range(NODES)]
    return [
        status_codec.write_report(Report([Record(name, status) for name in names[at : at + status_codec.REPORT_NODES]]))
        for at in range(0, NODES, status_codec.REPORT_NODES)
    ]


async def _channels(stack: AsyncExitStack, stand: Stand, number: int) -> list[Any]:
    """Connections of strangers."""
    own = [("grpc.use_local_subchannel_pool", 1)]
    return [
        await stack.enter_async_context(grpc.aio.insecure_channel(stand.address, options=own)) for _ in range(number)
    ]


async def _trees(stand: Stand) -> AsyncGenerator[None, None]:
    """Strangers ask for a tree of thousands of nodes, over connections of their own."""
    async with LinkChild("Proxy/7") as child, AsyncExitStack() as stack:
        await child.join(stand.address)
        tell = child.channel.unary_unary(f"/{STATUS_SERVICE}/Tell")
        for data in _reports():
            await tell(data, metadata=stream_metadata(child.place), timeout=60.0)
        channels = await _channels(stack, stand, 16)
        yield
        while True:
            asked = [channel.unary_unary(f"/{STATUS_SERVICE}/Tree")(b"", timeout=60.0) for channel in channels * 4]
            await asyncio.gather(*asked)
            yield


async def _probes(stand: Stand) -> AsyncGenerator[None, None]:
    """Strangers have all series of probes sent that there are, and ask for more."""
    request = probe_codec.write_ping(probe_codec.ProbeSeries(Position.mgr(), 3.0, 0, 0.0))
    async with AsyncExitStack() as stack:
        channels = await _channels(stack, stand, PROBE_SERIES // PROBE_SERIES_PER_CALLER)
        series = [channel.unary_stream(PING)(request) for channel in channels * PROBE_SERIES_PER_CALLER]
        yield
        await asyncio.gather(*(one.read() for one in series))
        while True:
            for at in range(0, len(series), 32):
                await asyncio.gather(*(one.read() for one in series[at : at + 32]))
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await channels[-1].unary_stream(PING)(request).read()
                assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
                yield


ATTACKS: Final[Mapping[str, Attack]] = {
    "trees": Attack(f"64 questions at a time for a tree of {NODES:,} nodes", "one look answers all", _trees),
    "probes": Attack(
        f"{PROBE_SERIES} endless series of probes, and more", "one pace for all; RESOURCE_EXHAUSTED", _probes
    ),
}
