"""Ends of processes, noticed in the event loop of an Agent."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
from collections.abc import Iterator

import pytest

from taskd_net.job.agent.agent import ProcessEnds
from tests.api.conftest import SOON
from tests.api.frameworks import RUNS, process

pytestmark = pytest.mark.both_loops


@pytest.fixture
def workers() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Two processes that run."""
    made = [process(RUNS) for _ in range(2)]
    yield made
    for each in made:
        each.kill()
        each.communicate()


class Noticed(asyncio.Queue[None]):
    """The calls of `ProcessEnds`."""

    async def one(self) -> None:
        async with asyncio.timeout(SOON):
            await self.get()


def descriptors() -> set[str]:
    return {entry.name for entry in os.scandir("/proc/self/fd") if entry.is_symlink()}


async def test_each_end_is_noticed_once(workers: list[subprocess.Popen[bytes]]) -> None:
    noticed = Noticed()
    before = len(descriptors())
    ends = ProcessEnds(lambda: noticed.put_nowait(None))
    pids = [worker.pid for worker in workers]
    ends.watch(pids)
    ends.watch(pids)
    assert len(descriptors()) == before + 2
    workers[0].kill()
    await noticed.one()
    ends.watch(pids)  # its exit status is still there, and it is not noticed again
    workers[1].kill()
    await noticed.one()
    assert noticed.empty() and len(descriptors()) == before
    ends.close()


async def test_forgotten_processes_are_not_watched(workers: list[subprocess.Popen[bytes]]) -> None:
    noticed = Noticed()
    before = len(descriptors())
    ends = ProcessEnds(lambda: noticed.put_nowait(None))
    ends.watch([worker.pid for worker in workers])
    ends.watch([workers[1].pid])
    assert len(descriptors()) == before + 1
    workers[0].kill()
    workers[0].wait(SOON)
    ends.watch([worker.pid for worker in workers])  # the first has gone for good
    workers[1].kill()
    await noticed.one()
    assert noticed.empty()
    ends.close()
    assert len(descriptors()) == before


async def test_system_without_pidfds(
    workers: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_: int) -> int:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(os, "pidfd_open", refuse)
    ends = ProcessEnds(lambda: None)
    ends.watch([workers[0].pid])
    assert "worker_not_watched" in caplog.text
    ends.close()
