"""Renewals of links to a parent that is stopped for most of the time: no message gets another answer than 0."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections import Counter
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from taskd_net import limits
from taskd_net.core.links import UP
from tests.cli.processes import Daemon
from tests.peers.certificates import Folder
from tests.peers.mesh import Mesh, WatchedNode
from tests.polling import until

pytestmark = [pytest.mark.timeout(600), pytest.mark.long]

STOPPED_S, RUNNING_S = 0.06, 0.02
RENEWALS = 500
WORKERS = 5


@pytest.fixture
async def mesh(request: pytest.FixtureRequest) -> AsyncIterator[Mesh]:
    """Nodes of this process."""
    async with Mesh(request.param) as mesh:
        yield mesh


def moved(workers: list[WatchedNode], before: list[object]) -> bool:
    """True if every Worker has another link to its parent, or none."""
    return all(worker.links.get(UP) is not link for worker, link in zip(workers, before, strict=True))


class Halting:
    """Stops and resumes a process, again and again, until the context ends."""

    def __init__(self, process: Daemon) -> None:
        self._process = process
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._over.wait(RUNNING_S):
            self._process.signal(signal.SIGSTOP)
            self._over.wait(STOPPED_S)
            self._process.signal(signal.SIGCONT)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


@pytest.mark.parametrize("mesh", ["direct", "batched"], indirect=True)
async def test_parent_that_is_stopped_for_most_of_the_time(
    mesh: Mesh, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "RENEWAL_SPREAD_S", 0.05)
    certificates = Folder(tmp_path / "tls")
    files = ("--ca", certificates.ca, "--server-key", certificates.key, "--server-crt", certificates.crt)
    codes: Counter[int] = Counter()

    async def send(sender: WatchedNode, to: str) -> None:
        while True:
            codes[(await sender.send("x", to=to, timeout=30.0)).code] += 1
            await asyncio.sleep(0.01)

    async def take(receiver: WatchedNode) -> None:
        while True:
            await receiver.receive()

    async with Daemon("mgr", *files, logs=tmp_path) as mgr:
        workers = [
            await mesh.worker(0, rank, mgr.address, tls=certificates.connecting(), ack_timeout=10.0)
            for rank in range(WORKERS)
        ]
        sending = [
            asyncio.create_task(send(one, str(other.position)))
            for one, other in zip(workers, [*workers[1:], workers[0]], strict=True)
        ]
        receiving = [asyncio.create_task(take(one)) for one in workers]
        with Halting(mgr):
            for _ in range(RENEWALS // WORKERS):
                before: list[object] = [worker.links[UP] for worker in workers]
                certificates.issue()
                # Not by the log, which leaves out what is repeated.
                await until(partial(moved, workers, before), 60.0, pause=0.05)
        assert mesh.count("renewal_failed") == mesh.count("upstream_lost") == 0
        for task in (*sending, *receiving):
            task.cancel()
        await asyncio.gather(*sending, *receiving, return_exceptions=True)
    assert set(codes) == {0}, codes
