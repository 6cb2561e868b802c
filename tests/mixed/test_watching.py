"""The watch over hangs where the Agent or the Manager is of 0.2.0: nothing is watched, and the job goes on."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

import pytest

from benchmarks import checkout
from taskd_net.base.address import Address
from taskd_net.observe.client import NodeClient
from tests.cli.processes import ROOT, Daemon
from tests.mixed import quiet_job
from tests.peers.mesh import soon

pytestmark = [pytest.mark.mixed, pytest.mark.timeout(180)]

LIMIT_S: Final = 1
"""The limit of a hang, in seconds. The ranks are quiet for six times as long."""

SOON: Final = 20.0


@pytest.fixture(scope="session")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package of 0.2.0."""
    folder = tmp_path_factory.mktemp("first")
    checkout.extract("2718ea8", folder)
    return folder


@contextmanager
def quiet(folder: Path, package: Path, upstream: str) -> Iterator[subprocess.Popen[bytes]]:
    """An Agent of a release whose ranks are quiet. It is ended with the block, with its ranks."""
    variables = {"PYTHONPATH": str(package), "TASKD_NET_UPSTREAM": upstream, "TASKD_LOG_PATH": str(folder)}
    with subprocess.Popen(
        [sys.executable, quiet_job.__file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=folder,
        env={**os.environ, **variables},
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def both_quiet(output: IO[bytes]) -> None:
    """Read until both ranks say that they are quiet; the log of the Agent comes between."""
    lines = iter(output.readline, b"")
    for _ in range(2):
        assert any(line == b"quiet\n" for line in lines)


async def states(address: str, *until: str) -> set[str]:
    """The states of the watch, for six limits, or until the last one is there."""
    found = set[str]()
    give_up_at = time.monotonic() + 6 * LIMIT_S
    async with NodeClient(Address.parse(address), SOON) as client:
        while time.monotonic() < give_up_at and not found & set(until):
            found.add((await client.job()).hang.state)
            await asyncio.sleep(0.1)
    return found


@pytest.mark.parametrize(
    ("manager", "agent", "watched"),
    [("now", "now", True), ("now", "earlier", False), ("earlier", "now", False)],
    ids=["both of this release", "an earlier Agent", "an earlier Manager"],
)
async def test_a_job_with_a_part_of_0_2_0_is_not_watched_and_goes_on(
    manager: str, agent: str, watched: bool, first: Path, tmp_path: Path
) -> None:
    """The same quiet is a hang where both are of this release."""
    package = {"now": ROOT, "earlier": first}
    more = ["--hang-timeout", str(LIMIT_S)] if manager == "now" else []
    settings: dict[str, Any] = {
        "cwd": package[manager],
        "env": {**os.environ, "PYTHONPATH": str(package[manager])},
        "executed": True,
    }
    async with Daemon("mgr", "--job-id", "J", "--state", tmp_path / "state", *more, logs=tmp_path, **settings) as mgr:
        with quiet(tmp_path, package[agent], mgr.address) as process:
            assert process.stdin is not None and process.stdout is not None
            await soon(asyncio.to_thread(both_quiet, process.stdout), SOON)
            found = await states(mgr.address, *(["hung"] if watched else []))
            assert ("hung" in found) is watched
            assert watched or found == {"not watched"}
            process.stdin.close()
            assert await soon(asyncio.to_thread(process.wait), SOON) == 0
        mgr.signal(signal.SIGTERM)
        assert await mgr.exit_code() == 0
        assert ("hang_" in mgr.errors) is watched
        assert " error " not in mgr.errors
