"""Turns to join, and time limits that follow the parent."""

import asyncio
import time
from typing import Any

import pytest

from taskd_net import Code, Node, NodeConfig, Position
from taskd_net.base.address import Address
from taskd_net.net.joining import approach as transport_approach
from taskd_net.net.joining import join as transport_join
from taskd_net.net.joining.approach import Approach, approach_of
from taskd_net.net.joining.pending import PER_CONNECTION
from tests.peers.child import RawChild
from tests.peers.mesh import Mesh, soon
from tests.peers.parent import RawParent

pytestmark = pytest.mark.timeout(180)

HERE = Address("127.0.0.1", 1)
THERE = Address("127.0.0.1", 2)


class SlowParent(RawParent):
    """A parent that answers one Register at a time, and takes its time for each; also for one whose caller has gone."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds
        self._one = asyncio.Lock()
        self.registers = 0

    async def Register(self, request: Any, context: Any) -> Any:
        self.registers += 1
        async with self._one:
            await asyncio.sleep(self._seconds)
        return await super().Register(request, context)


def approach() -> Approach:
    return Approach(asyncio.Semaphore(transport_approach.JOINS_AT_ONCE))


def test_limit_doubles_each_time_it_runs_out_up_to_its_bound() -> None:
    to = approach()
    seen = []
    for _ in range(7):
        seen.append(to.limit(3.0))
        to.ran_out(3.0, seen[-1])
    assert seen == [3.0, 6.0, 12.0, 24.0, 48.0, transport_approach.ANSWER_MAX_S, transport_approach.ANSWER_MAX_S]
    assert to.limit(100.0) == 100.0, "a longer usual limit stays"


def test_attempts_that_began_together_double_the_limit_once() -> None:
    to = approach()
    for _ in range(8):
        to.ran_out(3.0, 3.0)
    assert to.limit(3.0) == 6.0


def test_answers_in_good_time_shorten_the_limit_by_steps() -> None:
    to = approach()
    to.ran_out(3.0, 12.0)
    to.answered(3.0, 5.0)
    assert to.limit(3.0) == 20.0, "four times what the answer took"
    to.answered(3.0, 0.01)
    assert to.limit(3.0) == 10.0
    for _ in range(3):
        to.answered(3.0, 0.01)
    assert to.limit(3.0) == 3.0


async def test_parent_that_does_not_answer_leaves_turns_to_others() -> None:
    inside: list[Address] = []
    other_is_inside = asyncio.Event()

    async def join(upstream: Address) -> None:
        async with approach_of(upstream).turn():
            inside.append(upstream)
            if upstream == THERE:
                other_is_inside.set()
            await asyncio.Event().wait()

    stuck = [asyncio.create_task(join(HERE)) for _ in range(100)]
    other = asyncio.create_task(join(THERE))
    await soon(other_is_inside.wait())
    assert inside.count(HERE) == transport_approach.JOINS_AT_ONCE // 2
    for task in (*stuck, other):
        task.cancel()
    await asyncio.gather(*stuck, other, return_exceptions=True)
    async with asyncio.timeout(10), approach_of(HERE).turn():
        pass


async def test_node_joins_a_parent_that_answers_later_than_its_time_limit() -> None:
    async with SlowParent(0.5) as parent:
        config = NodeConfig.worker(server_rank=0, rank=0, upstream=parent.address, ack_timeout=0.2)
        async with Node(config) as node:
            await soon(node.joined())
        assert parent.registers <= 4, "0.2 s, 0.4 s and 0.8 s"


async def test_nodes_of_one_process_join_a_slow_parent_with_few_repeated_registers() -> None:
    """One after another they need 4 s, four times the limit of each. On a busy machine they need longer."""
    began = time.monotonic()
    async with SlowParent(0.05) as parent:
        nodes = [
            Node(NodeConfig.worker(server_rank=0, rank=rank, upstream=parent.address, ack_timeout=1.0))
            for rank in range(80)
        ]
        try:
            await soon(asyncio.gather(*(node.start() for node in nodes)))
            await soon(asyncio.gather(*(node.joined() for node in nodes)), 60.0)
            took = time.monotonic() - began
        finally:
            await asyncio.gather(*(node.close() for node in nodes))
        # The limits are 1, 2, 4 s and so on: twice the time is one more register of those that come last.
        assert parent.registers <= 2 * len(nodes) * (1 if took < 6.0 else took / 6.0)


async def test_full_parent_says_so_at_once_while_registrations_wait(mesh: Mesh) -> None:
    """Over a connection that has as many registrations without a stream as it may."""
    mgr = await mesh.mgr(max_children=PER_CONNECTION, registration_hold=600.0)
    async with RawChild("Worker/0/0") as child:
        child.connect(mgr.address or "")
        for rank in range(PER_CONNECTION):
            child.position = f"Worker/0/{rank}"
            assert (await soon(child.register())).code == 0
        child.position = "Worker/1/0"
        assert (await soon(child.register())).code == Code.EXCEED_MAX_REGISTRY_NUM


async def test_child_without_a_place_asks_less_often(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    bounds: list[float] = []

    def pause(low: float, high: float) -> float:
        bounds.append(high)
        return low

    monkeypatch.setattr("taskd_net.net.retry.chance.uniform", pause)
    async with RawParent() as parent:
        parent.refuse["Register"] = int(Code.EXCEED_MAX_REGISTRY_NUM)
        worker = await mesh.worker(0, 0, parent.address, join=False)
        while max(bounds, default=0.0) < transport_join.NO_PLACE_PAUSE_MAX_S:
            await soon(parent.requested("Register"))
        parent.refuse.clear()
        await soon(worker.joined())
        assert (await worker.send("x", to=Position.mgr())).ok
