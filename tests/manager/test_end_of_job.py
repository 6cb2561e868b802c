"""The end of a job by a launcher that has no Agent yet."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from taskd_net import Node, NodeConfig
from taskd_net.base import vocabulary
from taskd_net.job.end_of_job import say_end
from taskd_net.job.manager import ManagerConfig
from taskd_net.job.node_rank import held_rank
from tests.manager.cluster import SOON, agent, leaves, managed
from tests.ports import free_address


def say(address: str, rank: int | None = 1, seconds: float = SOON) -> str:
    """Say the end from a launcher of node 1."""
    return say_end(address, "", None, rank, "SIGINT", seconds=seconds)


@pytest.mark.parametrize("rank", [1, None])
async def test_nodes_that_wait_end_with_the_name_of_the_signal(rank: int | None) -> None:
    config = ManagerConfig(job_id="J", nodes=2, processes_per_node=1, restarts=vocabulary.JOB)
    async with managed(config) as (node, _), leaves(node, agent(0)) as (first,):
        await first.register(Incarnation="a", Features=vocabulary.MEETS)
        if rank is None:
            with await asyncio.to_thread(Held, node.address or "", 0):
                assert await asyncio.to_thread(say, node.address or "", rank) == ""
        else:
            assert await asyncio.to_thread(say, node.address or "", rank) == ""
        while (command := await first.command()).code != vocabulary.EXIT:
            assert command.code == vocabulary.MEETING
        assert command.extension[vocabulary.REASON] == "node 1 has got 'SIGINT'"


class Held:
    """A launcher of this process that holds the rank of a node."""

    def __init__(self, address: str, rank: int) -> None:
        self._ending, holds = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, args=(address, rank, holds.set))
        self._thread.start()
        holds.wait()

    def _run(self, address: str, rank: int, holds: Callable[[], None]) -> None:
        with held_rank(address, "", None, rank, print, host="a"):
            holds()
            self._ending.wait()

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()


async def test_launcher_of_another_node_with_the_rank_says_nothing() -> None:
    """The first one lives, and its job goes on."""
    config = ManagerConfig(job_id="J", nodes=2, processes_per_node=1, restarts=vocabulary.JOB)
    async with managed(config) as (node, manager):
        with await asyncio.to_thread(Held, node.address or "", 1):
            assert (await asyncio.to_thread(say, node.address or "")).startswith("node 1 of this job is run by a")
        assert manager.view().agents_known == 0


async def test_a_platform_decides_about_its_nodes_itself() -> None:
    async with managed(ManagerConfig(job_id="J", nodes=2, restarts=vocabulary.PLATFORM)) as (node, manager):
        address = node.address or ""
        assert await asyncio.to_thread(say, address) == f"the Manager at {address} leaves restarts to a platform"
        assert manager.view().agents_known == 0


async def test_where_no_manager_answers_nobody_hears_it() -> None:
    address = free_address()
    said = await asyncio.to_thread(say, address, 1, 0.3)
    reason = f"Register: nobody listens at {address}"
    assert said == f"no Manager at {address} has answered within 0.3 s: {reason}"
    async with Node(NodeConfig.mgr(listen="127.0.0.1:0")) as node:
        assert await asyncio.to_thread(say, node.address or "")
