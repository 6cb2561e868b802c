"""The counters for Prometheus: what they say is what has happened."""

from __future__ import annotations

import asyncio
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from taskd_net import ConfigError
from taskd_net.faces.metrics import Collector, MetricsServer
from tests.metrics import samples
from tests.peers.certificates import DAY, Folder
from tests.peers.mesh import PATIENCE_S, Mesh, WatchedNode
from tests.polling import asked_until
from tests.ports import free_address

pytestmark = pytest.mark.oldest

ANY = "127.0.0.1:0"


@pytest.fixture
async def mesh() -> AsyncIterator[Mesh]:
    """Nodes."""
    async with Mesh() as made:
        yield made


async def scrape(node: WatchedNode, name: str) -> dict[str, float]:
    """The samples of one name, by their labels' values."""
    return {",".join(s.labels.values()): s.value for s in await samples(node) if s.name == name}


async def test_messages_are_counted_by_way_and_outcome(mesh: Mesh) -> None:
    mgr = await mesh.mgr(inbox=2)
    proxy = await mesh.proxy(0, mgr)
    worker = await mesh.worker(0, 0, proxy)
    for _ in range(3):
        await worker.send("to the Mgr", to="Mgr")
    assert (await mgr.send("to the Worker", to="Worker/0/0")).ok
    await mgr.send("to nobody", to="Worker/9/9")
    await worker.send("to all", to="Worker/All/All")
    assert await scrape(proxy, "taskd_net_messages_total") == {
        "up,0": 2, "up,5001": 1, "up,5002": 1, "down,0": 1, "inbox,0": 0,
    }  # fmt: skip
    assert await scrape(mgr, "taskd_net_messages_total") == {
        "down,0": 1, "inbox,0": 2, "inbox,5001": 1, "refused,5002": 2,
    }  # fmt: skip
    assert await scrape(worker, "taskd_net_messages_total") == {"up,0": 2, "up,5001": 1, "up,5002": 1, "inbox,0": 1}
    assert (await scrape(worker, "taskd_net_sent_total"))[""] == 4
    assert (await scrape(proxy, "taskd_net_broadcasts_total"))[""] == 1


async def test_upstream_in_use(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    nobody = free_address()
    worker = await mesh.worker(0, 0, f"{nobody},{mgr.address}")
    assert await scrape(worker, "taskd_net_upstream") == {nobody: 0, mgr.address: 1}
    assert worker.upstream == mgr.address
    await mgr.close()
    await mesh.logged("upstream_lost", node=worker.position)
    assert set((await scrape(worker, "taskd_net_upstream")).values()) == {0}
    assert await scrape(mgr, "taskd_net_upstream") == {} and mgr.upstream is None


async def test_links_carry_what_was_sent(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    worker = await mesh.worker(0, 0, proxy)
    await asyncio.gather(*(worker.send("x" * 1000, to="Mgr") for _ in range(50)))
    messages, size = (
        await scrape(proxy, "taskd_net_link_messages_total"),
        await scrape(proxy, "taskd_net_link_bytes_total"),
    )
    assert messages == {"children,in": 50, "children,out": 0, "upstream,in": 0, "upstream,out": 50}
    assert size["children,in"] == size["upstream,out"] > 50_000
    batches = await scrape(proxy, "taskd_net_batch_messages_sum"), await scrape(proxy, "taskd_net_batch_messages_count")
    assert batches[0][""] == 50 and 1 <= batches[1][""] <= 50
    acks = await scrape(proxy, "taskd_net_ack_seconds_count")
    assert 1 <= acks["up"] <= 50 and acks["down"] == 0
    assert 0.0 < (await scrape(proxy, "taskd_net_ack_seconds_sum"))["up"] < 50 * PATIENCE_S


async def test_children_come_and_go(mesh: Mesh) -> None:
    mgr = await mesh.mgr(expect="1x2")
    worker = await mesh.worker(0, 0, mgr)
    assert await scrape(mgr, "taskd_net_children") == {"joined": 1, "not_answering": 0, "lost": 0}
    assert (await scrape(mgr, "taskd_net_missing_ranks"))[""] == 2
    await worker.close(orderly=False)
    await mesh.until(lambda: mgr.driver.router.counters.losses)
    assert await scrape(mgr, "taskd_net_children") == {"joined": 0, "not_answering": 0, "lost": 1}
    states = {"joined": 1, "not_answering": 0, "lost": 1, "gone": 0, "cut_off": 0, "finished": 0, "stopped": 0}
    assert await scrape(mgr, "taskd_net_mesh_nodes") == states
    assert (await scrape(mgr, "taskd_net_missing_ranks"))[""] == 3
    await mesh.worker(0, 0, mgr)
    assert (await scrape(mgr, "taskd_net_child_joins_total"))[""] == 2
    assert (await scrape(mgr, "taskd_net_routes"))[""] == 1
    assert (await mgr.send("x", to="Worker/0/0")).ok
    await mesh.nodes[-1].close()
    await mesh.until(lambda: mgr.driver.router.counters.losses == 2)
    mgr.driver.perform(mgr.driver.router.tick(mgr.driver.now() + 3600))
    assert len(mgr.driver.router.children) == 0
    assert (await scrape(mgr, "taskd_net_link_messages_total"))["children,out"] == 1


async def test_who_has_finished_is_neither_lost_nor_missing(mesh: Mesh) -> None:
    mgr = await mesh.mgr(expect="1x1")
    proxy = await mesh.proxy(0, mgr)
    worker = await mesh.worker(0, 0, mgr)
    for losses, node in enumerate((worker, proxy), 1):
        await node.close()
        await mesh.until(lambda losses=losses: mgr.driver.router.counters.losses == losses)  # type: ignore[misc]
    assert await scrape(mgr, "taskd_net_children") == {"joined": 0, "not_answering": 0, "lost": 0}
    states = {"joined": 1, "not_answering": 0, "lost": 0, "gone": 0, "cut_off": 0, "finished": 1, "stopped": 1}
    assert await scrape(mgr, "taskd_net_mesh_nodes") == states
    assert (await scrape(mgr, "taskd_net_missing_ranks"))[""] == 0


async def test_a_proxy_that_loses_its_upstream_says_so(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    assert (await scrape(proxy, "taskd_net_joined"))[""] == 1
    assert await scrape(proxy, "taskd_net_mesh_nodes") == {}
    await mgr.close()
    await mesh.until(lambda: not proxy.is_joined)
    assert (await scrape(proxy, "taskd_net_joined"))[""] == 0
    await mesh.mgr(listen=str(mgr.address))
    await proxy.joined(PATIENCE_S)
    assert (await scrape(proxy, "taskd_net_reconnects_total"))[""] == 1


async def test_it_is_served_by_http_until_it_is_closed(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    async with MetricsServer(mgr, ANY) as server:
        url = f"http://{server.address}/metrics"

        def read(method: str = "GET") -> str:
            with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=PATIENCE_S) as answer:
                return str(answer.read().decode())

        text = await asyncio.to_thread(read)
        assert 'taskd_net_node{position="Mgr/0",version=' in text and "process_cpu_seconds_total" in text
        assert await asyncio.to_thread(read) == text, "one scrape answers all that ask within a second"
        with pytest.raises(urllib.error.HTTPError, match="405"):
            await asyncio.to_thread(read, "POST")
        with pytest.raises(
            ConfigError, match=r"metrics_port is 127.0.0.1:\d+; cannot listen there: Address already in use"
        ):
            await MetricsServer(mgr, str(server.address)).__aenter__()
    with pytest.raises(urllib.error.URLError, match="refused"):
        await asyncio.to_thread(read)


async def test_scrape_of_a_node_that_does_not_answer_is_refused(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(_: Collector) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(Collector, "_read", hang)
    async with MetricsServer(await mesh.mgr(), ANY) as server:
        url = f"http://{server.address}/metrics"
        with pytest.raises(urllib.error.HTTPError, match="503"):
            await asyncio.to_thread(urllib.request.urlopen, url, None, PATIENCE_S)


async def test_a_loop_that_stands_still_is_not_waited_for_for_ever(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    collector = Collector(mgr, asyncio.get_running_loop(), 0.05)
    # This is the loop's own thread: it does nothing else meanwhile.
    with pytest.raises(TimeoutError, match="the node's event loop did not answer"):
        list(collector.collect())


async def test_without_the_package_it_is_said_what_to_install(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    mgr = await mesh.mgr()
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(ConfigError, match=r"pip install 'taskd-net\[metrics\]'"):
        await MetricsServer(mgr, ANY).__aenter__()


async def test_ends_of_the_certificates_are_those_in_use(mesh: Mesh, tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    issued = datetime.now(UTC)
    mgr = await mesh.mgr(tls=folder.listening())
    proxy = await mesh.proxy(0, mgr, tls=folder.tls())
    ends = await scrape(proxy, "taskd_net_certificate_expiry_timestamp_seconds")
    assert ends == {use: pytest.approx((issued + DAY / 2).timestamp(), abs=5) for use in ("server", "client")}
    assert set(await scrape(mgr, "taskd_net_certificate_expiry_timestamp_seconds")) == {"server"}
    folder.issue(days=(-0.5, 0.9))

    async def rotated() -> bool:
        now = await scrape(mgr, "taskd_net_certificate_expiry_timestamp_seconds")
        return now == {"server": pytest.approx((issued + DAY * 0.9).timestamp(), abs=5)}

    assert await asked_until(rotated, PATIENCE_S)
    plain = await mesh.mgr()
    assert await scrape(plain, "taskd_net_certificate_expiry_timestamp_seconds") == {}
