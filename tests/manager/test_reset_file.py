"""RetryTime: a change restarts the processes, an unreadable file is as if unchanged."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from taskd_net.base.logger import get_logger
from taskd_net.job.manager import ManagerConfig
from taskd_net.job.manager.changed_file import ResetFile
from taskd_net.job.manager.limits import ManagerLimits
from tests.manager.cluster import SOON, agent, leaves, managed
from tests.polling import until


def test_only_changes_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "reset.json"
    file = ResetFile(str(path), get_logger())
    assert file.look() is None
    path.write_text('{"RetryTime": 4, "RankList": []}')
    assert [file.look(), file.look()] == [4, None]
    for text in ("", "[]", '{"RetryTime": "5"}', '{"RetryTime": true}', "[" * 100_000, "x" * 1_048_577):
        path.write_text(text)
        assert file.look() is None
    path.unlink()
    path.mkdir()
    assert file.look() is None
    path.rmdir()
    assert len([record for record in caplog.records if "reset_file_unreadable" in record.getMessage()]) == 1
    path.write_text('{"RetryTime": 3}')
    assert file.look() == 3
    replaced = tmp_path / "new"
    replaced.write_text('{"RetryTime": 7}')
    replaced.rename(path)
    assert file.look() == 7
    assert caplog.text.count("reset_file_unreadable") == 1
    stamp = path.stat()
    path.write_text('{"RetryTime": 8}')
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert file.look() == 8, "written twice within one tick of the file system's clock"
    path.unlink()
    path.symlink_to(path)
    assert [file.look(), file.look()] == [None, None]
    assert caplog.text.count("reset_file_unreadable") == 2, "a file that is there, and that nobody can open"


async def test_a_change_is_a_round_and_the_first_value_is_none(tmp_path: Path) -> None:
    limits = ManagerLimits(look_s=0.01)
    path = tmp_path / "reset.json"
    path.write_text('{"RetryTime": 2}')
    config = ManagerConfig(job_id="J", reset_file=str(path), state=str(tmp_path / "state"))
    async with managed(config, limits=limits) as (node, manager), leaves(node, agent(0)) as (zero,):
        await zero.register()
        assert (await zero.command()).code == 210
        await until(lambda: manager.view().retry_time == 2)
        assert manager.view().counters.rounds == 0
        path.write_text('{"RetryTime": 1}')
        restart = await zero.command()
        assert (restart.code, restart.message) == (208, "2")
    path.write_text('{"RetryTime": 3}')
    async with managed(config, limits=limits) as (node, manager), leaves(node, agent(0)) as (zero,):
        restart = await zero.command()
        assert (restart.code, restart.message) == (208, "1"), "changed while no Manager was there"


async def test_update_of_the_volume_is_a_round_at_once(watched: asyncio.Queue[Path], tmp_path: Path) -> None:
    """Kubernetes leads the link `..data` to another folder; no look comes by time alone."""
    folder = tmp_path / "config"

    def update(retry_time: int) -> None:
        data = folder / f"..{retry_time}"
        data.mkdir(parents=True)
        (data / "reset.json").write_text(json.dumps({"RetryTime": retry_time}))
        link = folder / "..data_tmp"
        link.symlink_to(data.name)
        link.rename(folder / "..data")

    async def begun() -> None:
        async with asyncio.timeout(SOON):
            while await watched.get() != folder:
                """Another file's."""

    config = ManagerConfig(job_id="J", reset_file=str(folder / "reset.json"))
    async with (
        managed(config, limits=ManagerLimits(look_s=3600.0)) as (node, manager),
        leaves(node, agent(0)) as (zero,),
    ):
        await zero.register()
        assert (await zero.command()).code == 210
        update(4)
        (folder / "reset.json").symlink_to("..data/reset.json")
        await begun()
        await until(lambda: manager.view().retry_time == 4)
        for retry_time, left in ((5, "2"), (3, "1")):
            update(retry_time)
            restart = await zero.command()
            assert (restart.code, restart.message) == (208, left)
