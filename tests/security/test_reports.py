"""Reports, and questions for the tree and for probes, by peers that lie or never end."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial

import grpc
import pytest

from taskd_net import Code, Limits, Position
from taskd_net.base.codes import Refusal
from taskd_net.base.limits import MESSAGE_BYTES
from taskd_net.base.states import State
from taskd_net.net.links.grpc_calls import STATUS_SERVICE
from taskd_net.observe import probe_codec, status_codec
from taskd_net.observe import service as observe_service
from taskd_net.observe.ledger import Record, Report
from taskd_net.observe.records import NodeStatus
from taskd_net.observe.service import PROBE_SERIES_PER_CALLER, PROBE_SERVICE
from taskd_net.observe.view import ViewBounds
from tests.peers.links import LinkChild, stream_metadata
from tests.peers.mesh import Mesh
from tests.security.attacks.reports import empty, ever_new

pytestmark = pytest.mark.timeout(60)


async def tell(child: LinkChild, report: Report) -> None:
    """Send a report."""
    call = child.channel.unary_unary(f"/{STATUS_SERVICE}/Tell")
    await call(status_codec.write_report(report), metadata=stream_metadata(child.place), timeout=10.0)


async def test_proxy_that_reports_the_end_of_a_node_elsewhere(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, mgr)
    assert (await worker.send("x", to="Mgr")).ok
    gone = status_codec.write_node(NodeStatus(Position.proxy(7), State.GONE, 0.0, "taskd_net"))
    async with LinkChild("Proxy/7") as liar:
        await liar.join(mgr.address or "")
        for away in (False, True):
            await tell(liar, Report([Record("Worker/0/0", gone, away), Record("Worker/7/1", gone, away)]))
        states = {str(position): status.state for position, status in mgr.mesh().nodes}
    assert states["Worker/0/0"] is State.JOINED
    assert states["Worker/7/1"] is State.GONE, "nobody else has that one"


async def test_report_of_too_many_nodes_or_bytes(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    async with LinkChild("Proxy/7") as child:
        await child.join(mgr.address or "")
        names = [f"Worker/7/{rank}" for rank in range(status_codec.REPORT_NODES)]
        await tell(child, Report(gone=names))
        for gone in ([*names, "Worker/7/x"], ["x" * 300_000]):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await tell(child, Report(gone=gone))
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_messages_pass_between_two_of_the_largest_reports(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports over a direct link come in one read."""
    mgr = await mesh.mgr()
    turn, told = 0, list[int]()
    monkeypatch.setattr(mgr.driver.view, "told", lambda *_: told.append(turn))
    report = ever_new(1)
    async with LinkChild("Proxy/7") as child:
        await child.join(mgr.address or "")
        link = mgr.driver.router.children.by_id[1]
        assert mgr.driver.server is not None
        service = mgr.driver.server._services
        reports = [asyncio.create_task(service.report(report, lambda: link)) for _ in range(3)]
        while not all(task.done() for task in reports):
            await asyncio.sleep(0)
            turn += 1
    assert len(set(told)) == 3, told


async def test_reports_beyond_what_a_child_may_tell_wait_and_too_many_are_refused(mesh: Mesh) -> None:
    """They are charged before they are read, and those of another child do not wait for them."""
    mgr = await mesh.mgr()
    mgr.driver.view.bounds = ViewBounds(nodes_per_s=100, report_cost=1000)
    async with LinkChild("Proxy/7") as child, LinkChild("Proxy/8") as other:
        await child.join(mgr.address or "")
        await other.join(mgr.address or "")
        await tell(child, Report())
        waiting = [asyncio.create_task(tell(child, Report())) for _ in range(observe_service.REPORTS_AT_ONCE + 1)]
        done, left = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        (refusal,) = (task.exception() for task in done)
        assert isinstance(refusal, grpc.aio.AioRpcError)
        assert refusal.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        await tell(other, Report())
        assert not any(task.done() for task in left)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


async def test_reports_of_many_positions_that_wait_are_bounded_together(mesh: Mesh) -> None:
    """Each of them has four reports under way, which is what one may have."""
    mgr = await mesh.mgr(limits=Limits(total_bytes=4 * MESSAGE_BYTES))
    mgr.driver.view.bounds = ViewBounds(nodes_per_s=100)
    report = empty(0)
    async with AsyncExitStack() as stack:
        children = [await stack.enter_async_context(LinkChild(f"Proxy/{rank}")) for rank in range(12)]
        for child in children:
            await child.join(mgr.address or "")
        links = [mgr.driver.router.children.by_id[number] for number in range(1, 13)]
        assert mgr.driver.server is not None
        service = mgr.driver.server._services
        waiting = [
            asyncio.create_task(service.report(report, partial(links.__getitem__, index)))
            for index in range(len(links))
            for _ in range(observe_service.REPORTS_AT_ONCE)
        ]
        await asyncio.sleep(0)
        refused = [task.exception() for task in waiting if task.done()]
        # The first one has not had to wait, and was read.
        assert {error.code for error in refused[1:] if isinstance(error, Refusal)} == {Code.RECV_BUF_BUSY}
        assert not any(task.done() for task in waiting[1 : observe_service.REPORTS_AT_ONCE])
        assert mgr.driver.router.quota.size <= 4 * MESSAGE_BYTES
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert mgr.driver.router.quota.size == 0


async def test_endless_series_of_a_stranger_leave_others_theirs(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    request = probe_codec.write_ping(probe_codec.ProbeSeries(Position.mgr(), 3.0, 0, 0.0))
    async with LinkChild("Worker/7/0") as stranger, LinkChild("Worker/7/1") as other:
        await stranger.join(mgr.address or "")
        await other.join(mgr.address or "")
        calls = [stranger.channel.unary_stream(f"/{PROBE_SERVICE}/Ping")(request) for _ in range(20)]
        codes = []
        for call in calls:
            try:
                codes.append((await call.read()) is not grpc.aio.EOF)
            except grpc.aio.AioRpcError as error:
                assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED  # noqa: PT017
                codes.append(False)
        assert sum(codes) == PROBE_SERIES_PER_CALLER
        assert await other.channel.unary_stream(f"/{PROBE_SERVICE}/Ping")(request).read() is not grpc.aio.EOF
        for call in calls:
            call.cancel()
