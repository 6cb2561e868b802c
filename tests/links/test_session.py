"""One stream from either end: one writer, one reader, and how they end."""

import asyncio
import time
from typing import Any

import pytest

from taskd_net import Code
from taskd_net.net.links.flushes import flushes
from tests.links.cable import Cable
from tests.links.pipes import frame
from tests.peers.mesh import Mesh, both_links, soon
from tests.peers.wire import Wire
from tests.polling import until

pytestmark = pytest.mark.timeout(180)


@pytest.mark.both_loops
@both_links
async def test_stream_that_is_cut_under_traffic_in_both_directions(mesh: Mesh) -> None:
    """Every send gets one answer, what was acknowledged has arrived once, and the link comes back, time and again."""
    mgr = await mesh.mgr(inbox=100_000)
    async with Wire(mgr.address or "") as wire:
        worker = await mesh.worker(0, 0, wire.address, inbox=100_000)
        acknowledged: dict[str, set[str]] = {"up": set(), "down": set()}
        for attempt in range(5):
            sends = {
                f"{attempt}-{way}-{i}": asyncio.create_task(sender.send(f"{attempt}-{way}-{i}", to=to))
                for i in range(150)
                for way, sender, to in (("up", worker, "Mgr"), ("down", mgr, "Worker/0/0"))
            }
            arrived = mgr.waiting() + worker.waiting()
            await mesh.until(lambda arrived=arrived: mgr.waiting() + worker.waiting() > arrived + 20)  # type: ignore[misc]
            wire.cut()
            acks = dict(zip(sends, await soon(asyncio.gather(*sends.values())), strict=True))
            assert {ack.code for ack in acks.values()} <= {
                Code.OK, Code.NETWORK_ACK_LOST, Code.NETWORK_SEND_LOST, Code.NET_STREAM_NOT_INITED
            }  # fmt: skip
            for body, ack in acks.items():
                if ack.ok:
                    acknowledged[body.split("-")[1]].add(body)
            await mesh.logged("joined", node=worker.position, times=attempt + 2)
        for way, node in (("up", mgr), ("down", worker)):
            received = await node.take_all(node.waiting())
            assert len(set(received)) == len(received)
            assert acknowledged[way] <= set(received)
        assert (await mgr.send("x", to=worker.position)).ok


@both_links
async def test_wire_that_is_frozen_for_a_moment_loses_nothing(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    async with Wire(mgr.address or "") as wire:
        worker = await mesh.worker(0, 0, wire.address, inbox=1024)
        wire.freeze()
        sends = [asyncio.create_task(mgr.send(str(i), to=worker.position, timeout=10)) for i in range(100)]
        sends += [asyncio.create_task(worker.send(str(i), to="Mgr", timeout=10)) for i in range(100)]
        await mesh.until(lambda: mgr.statistics.forwarded + worker.statistics.forwarded == 200)
        wire.thaw()
        assert {ack.code for ack in await soon(asyncio.gather(*sends))} == {0}
        assert sorted(await worker.take_all(100)) == sorted(await mgr.take_all(100))
        assert mesh.count("upstream_lost") == 0


UP = frame(src="Worker/0/0", to="Mgr").data


async def test_item_waits_while_the_reads_of_a_turn_have_taken_their_time(
    cable: Cable, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, waited = flushes().reads, list[tuple[Any, ...]]()
    wait = reads.wait

    def note(*waits: Any) -> None:
        waited.append(waits)
        wait(*waits)

    monkeypatch.setattr(reads, "wait", note)
    cable.link.place = "10.0.0.7"
    cable.comes_in((UP, 3000))
    await cable.pipe.settled()
    assert (len(cable.node.delivered), waited) == (1, [])
    reads.ended(0.0, time.monotonic() + 60.0)
    cable.comes_in((frame(uuid="v", src="Worker/0/0", to="Mgr").data, 3000))
    await cable.pipe.settled()
    ((link, size),) = waited
    assert link is cable.link and size > len(UP)
    assert len(cable.node.delivered) == 2


async def test_fault_in_a_turn_ends_the_link(
    cable: Cable, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("broken")

    cable.link.place = "10.0.0.7"
    monkeypatch.setattr(cable.link, "_take_in", fail)
    flushes().reads.ended(0.0, time.monotonic() + 60.0)
    cable.comes_in((UP, 3000))
    await soon(cable.running)
    assert "link_failed" in caplog.text


async def test_link_that_ends_waits_for_no_turn(cable: Cable) -> None:
    reads = flushes().reads
    reads.turn = 0.0
    cable.link.place = "10.0.0.7"
    cable.comes_in((UP, 3000))
    await until(lambda: cable.link in reads.waiting)
    cable.link.abort()
    await soon(cable.running)
    await until(lambda: not reads.waiting)
    assert not cable.node.delivered
