"""Renewals of links to a parent that is stopped for most of the time: no message gets another answer than 0."""

from __future__ import annotations

import asyncio
import itertools
import random
import signal
import threading
from collections import Counter
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Self

import pytest

from taskd_net.core.links import UP
from taskd_net.net.links.direct_kind import Direct
from taskd_net.net.links.kind import Opened, Unreachable, Way
from tests.cli.processes import Daemon
from tests.peers.certificates import Folder
from tests.peers.mesh import Mesh, WatchedNode
from tests.polling import until

pytestmark = [pytest.mark.timeout(600), pytest.mark.long]

STOPPED_S, RUNNING_S = 0.06, 0.02
RENEWALS = 500
MOVES = 200
KILLS = 20
WORKERS = 5


@pytest.fixture
async def mesh(request: pytest.FixtureRequest) -> AsyncIterator[Mesh]:
    """Nodes of this process."""
    async with Mesh(request.param) as mesh:
        yield mesh


def moved(workers: list[WatchedNode], before: list[object]) -> bool:
    """True if every Worker has another link to its parent, or none."""
    return all(worker.driver.links.get(UP) is not link for worker, link in zip(workers, before, strict=True))


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


class Traffic:
    """Workers of which each sends to the next one, without a pause that a move could hide in.

    Args:
        workers: all of one parent.

    Attributes:
        codes: number of answers by code.
        acknowledged: messages whose answer is 0.
        taken: number of times that each message was taken.
    """

    def __init__(self, workers: list[WatchedNode]) -> None:
        self.codes: Counter[int] = Counter()
        self.acknowledged: set[str] = set()
        self.taken: Counter[str] = Counter()
        self._workers = workers
        self._tasks: list[asyncio.Task[None]] = []

    async def _send(self, sender: WatchedNode, to: str) -> None:
        for number in itertools.count():
            body = f"{sender.position} {number}"
            code = (await sender.send(body, to=to, timeout=30.0)).code
            self.codes[code] += 1
            if code == 0:
                self.acknowledged.add(body)
            await asyncio.sleep(0.01)

    async def _take(self, receiver: WatchedNode) -> None:
        while True:
            self.taken[(await receiver.receive()).body] += 1

    def has_sent(self, most: int) -> bool:
        """True with more than so many acknowledged messages."""
        return self.codes[0] > most

    async def __aenter__(self) -> Self:
        others = [*self._workers[1:], self._workers[0]]
        for one, other in zip(self._workers, others, strict=True):
            self._tasks += [asyncio.create_task(self._send(one, str(other.position)))]
            self._tasks += [asyncio.create_task(self._take(one))]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@pytest.mark.parametrize("mesh", ["direct"], indirect=True)
async def test_links_that_move_back_below_a_parent_that_is_stopped_for_most_of_the_time(
    mesh: Mesh, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The port of the direct links is behind a firewall while the Workers join, and open afterwards."""
    mesh.let(better_link=0.05)
    firewall = False
    opens, answers = Direct.open, Direct.answers

    async def opened(kind: Direct, way: Way) -> Opened:
        if firewall:
            raise Unreachable("a firewall")
        return await opens(kind, way)

    async def answered(kind: Direct, way: Way) -> bool:
        return not firewall and await answers(kind, way)

    monkeypatch.setattr(Direct, "open", opened)
    monkeypatch.setattr(Direct, "answers", answered)
    codes: Counter[int] = Counter()
    async with Daemon("mgr", logs=tmp_path) as mgr:
        for _ in range(MOVES // WORKERS):
            firewall = True
            workers = [await mesh.worker(0, rank, mgr.address, ack_timeout=10.0) for rank in range(WORKERS)]
            assert {worker.driver.links[UP].kind for worker in workers} == {"batched"}
            async with Traffic(workers) as traffic:
                with Halting(mgr):
                    firewall = False
                    directly = partial(_all_of_kind, workers, "direct")
                    await until(directly, 60.0, pause=0.05)
            codes += traffic.codes
            for worker in workers:
                await worker.close()
        assert mesh.count("upstream_lost") == 0
    assert set(codes) == {0}, codes


def _all_of_kind(workers: list[WatchedNode], kind: str) -> bool:
    return all(getattr(worker.driver.links.get(UP), "kind", None) == kind for worker in workers)


@pytest.mark.parametrize("mesh", ["direct", "batched"], indirect=True)
async def test_parent_that_is_stopped_for_most_of_the_time(mesh: Mesh, tmp_path: Path) -> None:
    mesh.let(renewal_spread=0.05)
    certificates = Folder(tmp_path / "tls")
    files = ("--ca", certificates.ca, "--server-key", certificates.key, "--server-crt", certificates.crt)
    async with Daemon("mgr", *files, logs=tmp_path) as mgr:
        workers = [
            await mesh.worker(0, rank, mgr.address, tls=certificates.connecting(), ack_timeout=10.0)
            for rank in range(WORKERS)
        ]
        async with Traffic(workers) as traffic:
            with Halting(mgr):
                for _ in range(RENEWALS // WORKERS):
                    before: list[object] = [worker.driver.links[UP] for worker in workers]
                    certificates.issue()
                    # Not by the log, which leaves out what is repeated.
                    await until(partial(moved, workers, before), 60.0, pause=0.05)
            assert mesh.count("renewal_failed") == mesh.count("upstream_lost") == 0
    assert set(traffic.codes) == {0}, traffic.codes


@pytest.mark.parametrize("mesh", ["direct", "batched"], indirect=True)
async def test_parent_that_is_killed_within_a_renewal(mesh: Mesh, tmp_path: Path) -> None:
    """The Workers come back with the new certificates, and nothing that was acknowledged is lost or doubled."""
    mesh.let(renewal_spread=0.05)
    certificates, delays = Folder(tmp_path / "tls"), random.Random(7)
    files = ("--ca", certificates.ca, "--server-key", certificates.key, "--server-crt", certificates.crt)
    mgr = await Daemon("mgr", *files, logs=tmp_path).__aenter__()
    address = mgr.address
    workers = [
        await mesh.worker(0, rank, address, tls=certificates.connecting(), ack_timeout=10.0) for rank in range(WORKERS)
    ]
    try:
        async with Traffic(workers) as traffic:
            for _ in range(KILLS):
                before: list[object] = [worker.driver.links[UP] for worker in workers]
                certificates.issue()
                await asyncio.sleep(delays.uniform(0.0, 0.2))
                mgr.signal(signal.SIGKILL)
                await mgr.__aexit__(None, None, None)
                mgr = await Daemon("mgr", "--listen", address, *files, logs=tmp_path).__aenter__()
                for worker in workers:
                    await worker.joined(60.0)
                await until(partial(moved, workers, before), 60.0, pause=0.05)
                good = traffic.codes[0]
                await until(partial(traffic.has_sent, good + 10 * WORKERS), 60.0, pause=0.05)
        assert traffic.acknowledged <= set(traffic.taken) and set(traffic.taken.values()) == {1}
        assert set(traffic.codes) <= {0, 5002, 6000, 6001, 6002}, traffic.codes  # 5002: it is not back yet
    finally:
        await mgr.__aexit__(None, None, None)
