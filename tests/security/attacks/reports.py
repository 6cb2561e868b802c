"""Reports of the state of the mesh without a pause, each of as many nodes and bytes as it may have."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from functools import partial
from itertools import count
from typing import Final

import grpc.aio

from taskd_net import Code, Position
from taskd_net.base.states import State
from taskd_net.net.links.grpc_calls import STATUS_SERVICE
from taskd_net.observe import status_codec
from taskd_net.observe.ledger import Record, Report
from taskd_net.observe.records import NodeStatus
from tests.peers.direct_child import DirectChild
from tests.peers.links import LinkChild, stream_metadata
from tests.peers.stubs import pb
from tests.security.attacks.attack import Attack
from tests.security.bystander.stand import Stand

AT_ONCE: Final = 8
"""Calls under way: more than a child may have."""

_PLACE: Final = "Proxy/80"


def ever_new(number: int, place: str = _PLACE) -> bytes:
    """A report of nodes that nobody has, other ones each time."""
    node, proxy = status_codec.write_node(NodeStatus(Position.parse(place), State.JOINED, 0.0, "taskd_net")), place[6:]
    ranks = range(number * status_codec.REPORT_NODES, (number + 1) * status_codec.REPORT_NODES)
    return status_codec.write_report(Report([Record(f"Worker/{proxy}/{rank}", node) for rank in ranks], urgent=True))


def empty(_: int) -> bytes:
    """A report of empty entries."""
    return b"\x0a\x00" * (status_codec.REPORT_BYTES // 2)


async def _reports(
    stand: Stand, make: Callable[[int], bytes], status: grpc.StatusCode, child_at: type[LinkChild] = LinkChild
) -> AsyncGenerator[None, None]:
    allowed = {status, grpc.StatusCode.RESOURCE_EXHAUSTED}
    async with child_at(_PLACE) as child:
        await child.join(stand.address)
        tell = child.channel.unary_unary(f"/{STATUS_SERVICE}/Tell")
        numbers = count()

        async def call() -> grpc.StatusCode:
            report = make(next(numbers))
            if isinstance(child, DirectChild):
                reply = await child.ask(report=report, patience=60_000)
                return _STATUS[pb.Ack.FromString(reply.ack).code]
            code: grpc.StatusCode = await tell(report, metadata=stream_metadata(_PLACE)).code()
            return code

        calls: set[asyncio.Task[grpc.StatusCode]] = set()
        yield
        try:
            while True:
                while len(calls) < AT_ONCE:
                    calls.add(asyncio.create_task(call()))
                answered, calls = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
                found = {done.result() for done in answered}
                assert found <= allowed, found
                yield
        finally:
            for left in calls:
                left.cancel()
            await asyncio.gather(*calls, return_exceptions=True)


_STATUS: Final = {0: grpc.StatusCode.OK, int(Code.RECV_BUF_BUSY): grpc.StatusCode.RESOURCE_EXHAUSTED}
_PACED: Final = "8,192 nodes a second are taken in, further reports wait; RESOURCE_EXHAUSTED beyond four at once"

ATTACKS: Final[Mapping[str, Attack]] = {
    "reports-of-other-nodes": Attack(
        f"{AT_ONCE} reports at once, each of {status_codec.REPORT_NODES} other nodes",
        _PACED,
        partial(_reports, make=ever_new, status=grpc.StatusCode.OK),
    ),
    "direct-reports": Attack(
        "the same over a direct link",
        _PACED,
        partial(_reports, make=ever_new, status=grpc.StatusCode.OK, child_at=DirectChild),
    ),
    "empty-reports": Attack(
        f"{AT_ONCE} reports at once with 256 KiB of empty entries",
        "INVALID_ARGUMENT, paced as well",
        partial(_reports, make=empty, status=grpc.StatusCode.INVALID_ARGUMENT),
    ),
}
