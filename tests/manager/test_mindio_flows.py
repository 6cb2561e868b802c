"""Flows of recovery: a Manager and MindIO's controller against the stand-in for ClusterD, in processes of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskd_net.job.manager import ManagerConfig
from taskd_net_lab.clusterd.reader import SCENARIOS
from tests import mindio as double
from tests.manager.cluster import agent, leaves, managed, worker
from tests.manager.test_recovery import Seen, clusterd, events, live
from tests.polling import until
from tests.ports import free_port

EXIT = ["change_strategy exit", "destroy_controller", "init_controller", "start_controller"]
"""A restart, upon ClusterD's strategy `exit`."""


LONG_S = 150.0
"""Seconds for a flow on a busy machine; it takes 4 on a quiet one."""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[double.Job]:
    with double.job(tmp_path, monkeypatch) as made:
        yield made


@pytest.mark.parametrize(
    ("name", "calls"),
    [
        pytest.param("retry", ["stop_train", "on_global_rank", "change_strategy retry"], marks=pytest.mark.more),
        ("recover", ["stop_train", "on_global_rank", "change_strategy recover"]),
        pytest.param(
            "recover-in-place", ["stop_train", "on_global_rank", "change_strategy recover"], marks=pytest.mark.more
        ),
        ("dump", ["stop_train", "on_global_rank", "change_strategy dump", *EXIT]),
        pytest.param("exit", ["stop_train", "on_global_rank", *EXIT], marks=pytest.mark.more),
        pytest.param("save-and-exit", ["dump", *EXIT], marks=pytest.mark.more),
        ("switch-cards", ["stop_train", "change_strategy continue"]),
        pytest.param("kill-master", ["stop_train", "destroy_controller"], marks=pytest.mark.more),
    ],
)
async def test_flow(job: double.Job, name: str, calls: list[str]) -> None:
    address, seen = f"127.0.0.1:{free_port()}", Seen(mute=True)
    config = ManagerConfig(job_id="demo", clusterd_addr=address, fault_recover="on", nodes=2, processes_per_node=2)
    nodes = (agent(0), agent(1), worker(0, 0), worker(0, 1), worker(1, 2), worker(1, 3))
    async with asyncio.timeout(LONG_S), managed(config) as (node, _), leaves(node, *nodes) as made:
        await until(lambda: "start_controller" in job.names, LONG_S)
        job.train()
        await until(lambda: job.all_are("trains"), LONG_S)
        for one in made[:2]:
            await one.register()
        for one in made[2:]:
            await one.report("REGISTER", 101)
        living = [asyncio.create_task(live(one, seen, "")) for one in made]
        try:
            async with clusterd(address, SCENARIOS / f"{name}.yaml", "--speed", "20") as process:
                async for event in events(process):
                    if event["event"] == "moved":
                        seen.states.append(event["to"])
                assert await process.wait() == 0, seen.states
        finally:
            for task in living:
                task.cancel()
            await asyncio.wait(living)
    shown = [f"{call} {more[0]}" if call == "change_strategy" else call for call, *more in job.calls]
    assert shown[2 : 2 + len(calls)] == calls, (shown, seen.states)
