"""The history of a real mesh, over sockets: kept while nobody asks, and told afterwards."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from taskd_net import Position
from taskd_net.base import limits
from taskd_net.faces.page import StatusPage
from taskd_net.faces.page.paces import Paces
from taskd_net.observe import view
from tests.page.test_serving import GET, answer, connect
from tests.peers.mesh import Mesh, soon
from tests.polling import until

pytestmark = [pytest.mark.oldest, pytest.mark.timeout(60)]

QUICK = Paces(look=0.05, history_look=0.1, history_load=1.0, sample=0.2, history=20.0)
"""Times of a history with short steps."""


@pytest.fixture
async def mesh() -> AsyncIterator[Mesh]:
    """Nodes in this process."""
    async with Mesh() as mesh:
        yield mesh


async def told(page: StatusPage, position: str | None, enough: Callable[[Any], bool]) -> Any:
    """The last hour of a node, as soon as it is enough."""
    stream = await connect(page)
    path = "/history" if position is None else f"/history?node={position}"
    try:
        async with asyncio.timeout(20):
            while True:
                status, headers, body = await answer(stream, GET % path.encode())
                assert (status, headers["content-type"]) == (200, "application/json")
                document = json.loads(body)
                if enough(document):
                    return document
    finally:
        stream[1].close()


def kinds(document: Any) -> list[str]:
    """The kinds of the events."""
    return [each["event"] for each in document["events"]]


async def test_the_loss_of_a_node_is_told_to_who_asks_afterwards(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    worker = await mesh.worker(0, 3, proxy)
    async with StatusPage(mgr, paces=QUICK) as page:
        before = await told(page, "Worker/0/3", lambda it: len(it["series"]["times"]) > 2)
        assert kinds(before) == ["joined"]
        assert before["events"][0]["text"].startswith("below Proxy/0, direct link")
        assert before["series"]["in_flight"][-1] == 0.0
        await worker.close(orderly=False)
        after = await told(page, "Worker/0/3", lambda it: "lost" in kinds(it) and it["series"]["in_flight"][-1] is None)
        assert kinds(after) == ["joined", "lost"]
        assert after["events"][1]["text"]
        assert after["life"] == before["life"]
        again = await mesh.worker(0, 3, proxy)
        back = await told(page, "Worker/0/3", lambda it: "joined_again" in kinds(it))
        assert kinds(back) == ["joined", "lost", "joined_again"]
        assert again.is_joined


@pytest.mark.parametrize("step", [7200.0, -7200.0])
async def test_events_keep_their_age_when_the_hosts_clock_steps(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch, step: float
) -> None:
    real, shift = time.time, 0.0
    monkeypatch.setattr(time, "time", lambda: real() + shift)
    mgr = await mesh.mgr()
    await mesh.worker(0, 3, mgr)
    async with StatusPage(mgr, paces=QUICK) as page:
        before = await told(page, "Worker/0/3", lambda it: len(it["series"]["times"]) > 2)
        shift = step
        samples = len(before["series"]["times"])
        after = await told(page, "Worker/0/3", lambda it: len(it["series"]["times"]) > samples)
    assert kinds(after) == kinds(before) == ["joined"]
    assert abs(after["time"] - time.time()) < 60.0
    assert 0.0 <= after["time"] - after["events"][0]["time"] < 60.0
    assert after["series"]["times"] == sorted(after["series"]["times"])


async def test_messages_are_in_the_samples_of_all_links_together(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 3, mgr)
    async with StatusPage(mgr, paces=QUICK) as page:
        await told(page, None, lambda it: len(it["series"]["times"]) > 0)
        for _ in range(20):
            assert (await worker.send("step", to="Mgr/0")).ok
            await mgr.take()
        await told(page, None, lambda it: any(it["series"]["up"]))


async def test_a_refused_registration_is_among_the_events_of_the_node(mesh: Mesh) -> None:
    mgr = await mesh.mgr(max_children=1, grace=0.2)
    worker = await mesh.worker(0, 3, mgr)
    async with StatusPage(mgr, paces=QUICK) as page:
        await told(page, "Worker/0/3", lambda it: kinds(it) == ["joined"])
        await worker.close(orderly=False)
        await told(page, "Worker/0/3", lambda it: kinds(it)[-1] == "gone")
        await mesh.worker(0, 4, mgr)
        await mesh.worker(0, 3, mgr, join=False)
        document = await told(page, "Worker/0/3", lambda it: "refused" in kinds(it))
        assert document["events"][-1]["text"] == "all 1 places are taken"


async def test_an_inbox_that_nobody_reads_is_a_strain_on_the_page(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 3, mgr)
    async with StatusPage(mgr, paces=QUICK) as page:
        worker.driver.router.gate.open = False
        document = await told(page, "Worker/0/3", lambda it: "strained" in kinds(it))
        assert document["events"][-1]["text"] == "nobody reads its inbox"
        stream = await connect(page)
        _, _, body = await answer(stream, GET % b"/tree")
        assert list(json.loads(body)["strained"]) == ["Worker/0/3"]
        stream[1].close()


async def test_refusals_of_strangers_take_no_room(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    async with StatusPage(mgr, paces=QUICK) as page:
        for rank in range(2 * view.REFUSED):
            mgr.driver.view.child_refused(Position.worker(0, rank), "x" * 5000)
        assert len(mgr.driver.view.news.refused) <= view.REFUSED
        assert all(len(each.reason) <= limits.STATUS_REASON_BYTES for each in mgr.driver.view.news.refused)
        await until(lambda: not mgr.driver.view.news.refused)
        assert (await told(page, "Worker/0/4", lambda it: True))["events"] == []


async def test_nothing_looks_any_more_once_the_page_is_closed(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    async with StatusPage(mgr, paces=QUICK) as page:
        await told(page, None, lambda it: len(it["series"]["times"]) > 0)
        assert len(mgr.driver.view.news.listeners) == 1
    assert not mgr.driver.view.news.listeners
    await soon(page._recorder.close())


async def test_a_look_that_fails_is_logged_once_and_leaves_a_gap(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    mgr = await mesh.mgr()
    whole, failed = mgr.driver.view.records, 0

    def records() -> object:
        nonlocal failed
        failed += 1
        raise RuntimeError("a look that fails")

    async with StatusPage(mgr, paces=QUICK) as page:
        await told(page, None, lambda it: len(it["series"]["times"]) > 0)
        monkeypatch.setattr(mgr.driver.view, "records", records)
        await until(lambda: failed > 2)
        before = await told(page, None, lambda it: True)
        monkeypatch.setattr(mgr.driver.view, "records", whole)
        await told(page, None, lambda it: it["series"]["times"][-1] > before["series"]["times"][-1])
    (line,) = mesh.broken
    assert "history_failed" in line and "a look that fails" in line
    mesh.broken.clear()
