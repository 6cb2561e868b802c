"""The driver of a Router: its timer, and the lines that it logs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from taskd_net import Code, Node, NodeConfig, Position
from taskd_net.core.frame import Ack
from taskd_net.core.links import UP
from taskd_net.core.ready import EndStream, Lost, Ready, Reason
from taskd_net.core.replay import replay
from taskd_net.net.links.batched import BatchedLink
from taskd_net.node.driver import Driver
from tests.core.routers import frame
from tests.links.pipes import FakePipe
from tests.peers.mesh import Mesh, soon


class Ticking(Driver):
    """A Mgr's driver that notes its ticks instead of telling the Router."""

    def __init__(self) -> None:
        super().__init__(NodeConfig.mgr())
        self._loop = asyncio.get_running_loop()
        self.ticks: asyncio.Queue[float] = asyncio.Queue()

    def _tick(self) -> None:
        self._timer, self._armed = None, float("inf")
        self.ticks.put_nowait(self.now())


async def test_tick_comes_once_at_the_earliest_deadline() -> None:
    driver = Ticking()
    now = driver.now()
    for seconds in (60.0, 0.01):
        driver._arm(now + seconds)
    assert driver._armed == now + 0.01
    assert await soon(driver.ticks.get()) >= now + 0.01
    assert driver._timer is None and driver.ticks.empty()


async def test_driver_that_was_not_started_has_no_timer() -> None:
    driver = Driver(NodeConfig.mgr())
    driver._arm(1.0)
    assert (driver.running, driver._timer, driver._armed) == (False, None, float("inf"))


async def test_disarmed_timer_never_fires() -> None:
    driver = Ticking()
    driver._arm(driver.now())
    driver.end()
    await asyncio.sleep(0.01)
    assert driver.ticks.empty()


async def test_stream_to_the_parent_that_breaks_its_bounds_ends_also_when_another_has_taken_over() -> None:
    driver = Driver(NodeConfig.worker(server_rank=0, rank=0, upstream="127.0.0.1:1"))
    old, new = (BatchedLink(driver, UP, Position.mgr(), FakePipe()) for _ in range(2))
    driver.links[UP] = new
    driver._take_notice(EndStream(old, Reason.VIOLATION))
    assert (old.alive, new.alive) == (False, True)


async def test_lost_message_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    driver = Ticking()
    driver._take_notice(Lost(frame("Worker/0/0"), Code.NO_ROUTE, driver.position, "words"))
    assert "event=messages_lost node=Mgr/0 src=Mgr/0 dst=Worker/0/0 code=5002 detail=words" in caplog.text


@pytest.fixture
async def mesh() -> AsyncIterator[Mesh]:
    """Nodes over real sockets."""
    async with Mesh() as made:
        yield made


async def test_record_from_real_sockets_is_replayed_to_the_same_decisions(mesh: Mesh, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("mgr", "proxy", "worker")]
    mgr = await mesh.mgr(record=str(files[0]))
    proxy = await mesh.proxy(0, mgr, record=str(files[1]))
    worker = await mesh.worker(0, 0, proxy, record=str(files[2]))
    old = await mesh.worker(0, 1, proxy, links="tasknet")
    acks = await asyncio.gather(*(worker.send("confidential", to="Mgr") for _ in range(50)))
    acks += [
        await mgr.send("all", to="Worker/All/All"),
        await old.send("up", to="Mgr"),
        await worker.post("x", to="Mgr"),
    ]
    acks += [await worker.send("nobody", to="Worker/7/7"), await mgr.send("down", to=worker.position)]
    assert [ack.code for ack in acks] == [0] * 53 + [5002, 0]
    assert (await mgr.ping(worker.position)).code == 0
    await worker.close()
    await proxy.close()
    await mgr.close()
    for file in files:
        lines = file.read_text().splitlines()
        assert len(lines) > 20 and "confidential" not in file.read_text()
        assert replay(lines) == []


async def test_second_answer_to_a_request_is_dropped_and_the_others_are_given() -> None:
    """The first one may be that of a fault, under which the Router had begun to answer."""
    driver = Driver(NodeConfig.mgr())
    given: list[str] = []
    one, other = (driver.request(lambda ack: given.append(ack.uuid)) for _ in range(2))
    for answers in ([(one, "fault")], [(one, "late"), (other, "other")]):
        ready = Ready()
        ready.completed += [(token, Ack(uuid, Code.OK, Position.mgr())) for token, uuid in answers]
        driver.perform(ready)
    assert given == ["fault", "other"]


async def test_record_is_closed_with_a_node_that_was_never_started(tmp_path: Path) -> None:
    node = Node(NodeConfig.mgr(record=str(tmp_path / "record")))
    await node.close()
    assert node.driver._record is not None and node.driver._record.closed
