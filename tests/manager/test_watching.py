"""Files of the platform that a Manager looks at: the profiling switch becomes commands to the Workers."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from taskd_net import job_limits, profiling_switch
from taskd_net.jobs.events import ProfilingSwitch
from taskd_net.manager import ManagerConfig
from taskd_net.manager.threads import OwnThread
from taskd_net.manager.watching import watch
from tests.manager.cluster import SOON, leaves, managed, worker


@pytest.fixture(autouse=True)
def path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The profiling switch; a Manager looks all the time."""
    monkeypatch.setattr(job_limits, "RESET_LOOK_S", 0.01)
    path = tmp_path / "profilingSwitch"
    monkeypatch.setenv(profiling_switch.PATH, str(path))
    return path


def write(path: Path, **domains: str) -> None:
    """Replace the file in one step, as the platform does."""
    new = path.with_name("new")
    new.write_text(json.dumps(domains))
    new.rename(path)


async def test_workers_get_the_switch_of_the_file(path: Path) -> None:
    write(path, Step="on")
    config = ManagerConfig(job_id="J", nodes=1, processes_per_node=1)
    async with managed(config) as (node, manager), leaves(node, worker(0, 0)) as (one,):
        await one.report("REGISTER", 101)
        assert (await one.command()).code == 710
        write(path, CommunicationOperator="on")
        assert (await one.command()).code == 711
        write(path)
        assert (await one.command()).code == 700
        assert manager.job.state.profiling == ProfilingSwitch()


async def test_clusterd_has_the_say(path: Path) -> None:
    write(path, Step="on")
    async with managed(ManagerConfig(job_id="J", clusterd=True), signals=asyncio.Queue()) as (_, manager):
        assert not any("profiling switch" in task.get_name() for task in manager._tasks)
        assert manager.job.state.profiling is None


async def test_look_that_hangs_is_as_if_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[int | None] = [3, None]

    async def call(*_: object) -> int | None:
        if not answers:
            raise TimeoutError
        return answers.pop()

    monkeypatch.setattr(OwnThread, "call", call)
    taken: asyncio.Queue[int] = asyncio.Queue()
    task = asyncio.create_task(watch("file", lambda: 1, taken.put_nowait))
    async with asyncio.timeout(SOON):
        assert await taken.get() == 3
        answers.append(4)
        assert await taken.get() == 4
    task.cancel()
    await asyncio.wait([task])
