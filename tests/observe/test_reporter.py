"""Reports of a child to its parent."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from taskd_net import Code, Node
from taskd_net.base.address import Address
from taskd_net.base.codes import Refusal
from taskd_net.observe import reporter
from taskd_net.observe.client import NodeClient
from taskd_net.observe.document import Document, by_position, document
from taskd_net.observe.ledger import Report
from tests.peers.mesh import PATIENCE_S, Mesh, soon
from tests.peers.mesh_state import until_joined

pytestmark = [pytest.mark.oldest, pytest.mark.timeout(180)]


async def told(node: Node) -> dict[str, Document]:
    """The answer of a node, by position."""
    async with NodeClient(Address.parse(str(node.address)), PATIENCE_S) as asker:
        return dict(by_position(document(await asker.mesh())))


async def test_node_goes_on_telling_its_figures_where_nothing_happens(mesh: Mesh) -> None:
    mesh.let(figures=0.1)
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, mgr)
    for count in (1, 2, 3):
        assert (await mgr.send("x", to=worker.position)).ok
        async with asyncio.timeout(PATIENCE_S):
            while (await told(mgr))["Worker/0/0"]["delivered"] != count:  # noqa: ASYNC110 - asked, not signalled
                await asyncio.sleep(0.05)


async def test_everything_is_reported_again_when_a_report_was_not_taken(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    mesh.let(figures=0.05)
    mgr = await mesh.mgr()
    reports: asyncio.Queue[Report] = asyncio.Queue()
    told, failing = mgr.driver.view.told, True

    def take(child: object, report: Report) -> None:
        nonlocal failing
        reports.put_nowait(report)
        if failing:
            failing = False
            raise Refusal(Code.CLIENT_ERR, "not today")
        told(child, report)  # type: ignore[arg-type]

    monkeypatch.setattr(mgr.driver.view, "told", take)
    await mesh.proxy(0, mgr)
    first, second = await soon(reports.get()), await soon(reports.get())
    assert first.first and second.first
    assert [record.position for record in second.records] == [record.position for record in first.records]
    await mesh.logged("status_not_taken")


async def test_change_below_is_reported_before_the_time_of_the_figures(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    await until_joined(mgr, "Proxy/0")
    mgr.driver.times = proxy.driver.times = replace(proxy.driver.times, figures=3600.0)
    await mesh.worker(0, 0, proxy)
    await until_joined(mgr, "Worker/0/0")


async def test_node_where_nothing_changes_looks_less_often(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    mesh.let(figures=0.05)
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, mgr)
    looks: asyncio.Queue[float] = asyncio.Queue()
    look, loop = worker.driver.view.look_in_parts, asyncio.get_running_loop()

    async def looked() -> None:
        looks.put_nowait(loop.time())
        await look()

    monkeypatch.setattr(worker.driver.view, "look_in_parts", looked)
    times = [await soon(looks.get()) for _ in range(7)]
    most = reporter.IDLE * worker.driver.times.figures
    assert times[-1] - times[-2] >= 0.9 * most


async def test_a_node_that_leaves_tells_first_who_has_left_before(mesh: Mesh) -> None:
    """An Agent and its Proxy end one right after the other."""
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    worker = await mesh.worker(0, 0, proxy)
    await until_joined(mgr, "Worker/0/0")
    mgr.driver.times = proxy.driver.times = replace(proxy.driver.times, figures=3600.0)
    assert await worker.withdraw(PATIENCE_S)
    await worker.close()
    await proxy.close()
    found = {position: each["state"] for position, each in (await told(mgr)).items()}
    assert found == {"Mgr/0": "joined", "Proxy/0": "stopped", "Worker/0/0": "finished"}


async def test_a_parent_that_takes_no_report_does_not_hold_a_node_that_leaves(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    await until_joined(mgr, "Proxy/0")

    async def never(*_: object) -> None:
        await asyncio.sleep(3600.0)

    monkeypatch.setattr(proxy.driver.joiner._stay.requests.__class__, "report", never)  # type: ignore[union-attr]
    proxy.driver.view.ledger.begin()
    await soon(proxy.close())
