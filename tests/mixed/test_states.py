"""The state of a job under Managers of two releases. The later one is this one with another schema."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks import checkout
from taskd_net import Node, NodeConfig
from taskd_net.job.decide.state import SCHEMA
from taskd_net.job.keep.place import Place
from tests.cli.processes import ROOT, Command, Daemon
from tests.etcd.server import ETCD, WHY_NOT, Member, etcd_server
from tests.manager.cluster import Leaf

pytestmark = [pytest.mark.mixed, pytest.mark.timeout(180)]

LEADS = r"\] leads .*"
FIRST = 1
"""The schema of 0.2.0."""


def refused(written: int, reads: int) -> str:
    """The line of a release that cannot read a state."""
    return f"schema {written}, of a newer release; this one reads up to {reads}"


@pytest.fixture(scope="session")
def later(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package of a later release."""
    folder = tmp_path_factory.mktemp("later")
    shutil.copytree(ROOT / "taskd_net", folder / "taskd_net", ignore=shutil.ignore_patterns("__pycache__"))
    state = folder / "taskd_net" / "job" / "decide" / "state.py"
    text = state.read_text()
    assert text.count(f"SCHEMA: Final = {SCHEMA}\n") == 1
    state.write_text(text.replace(f"SCHEMA: Final = {SCHEMA}\n", f"SCHEMA: Final = {SCHEMA + 1}\n"))
    return folder


@pytest.fixture(scope="session")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package of 0.2.0."""
    folder = tmp_path_factory.mktemp("first")
    checkout.extract("2718ea8", folder)
    return folder


def of(package: Path) -> dict[str, Any]:
    """Settings of a command that runs with another package."""
    return {"cwd": package, "env": {**os.environ, "PYTHONPATH": str(package)}, "executed": True}


def mgr(state: object, logs: Path, package: Path = ROOT) -> Daemon:
    """A Mgr of a release, on a port of its own."""
    return Daemon("mgr", "--job-id", "J", "--state", state, logs=logs, **of(package))


async def refuses(state: object, logs: Path, package: Path, line: str) -> None:
    """Start a Mgr that ends with one line."""
    listen = ("--listen", "127.0.0.1:0", "--log-path", logs)
    async with Command("mgr", "--job-id", "J", "--state", state, *listen, **of(package)) as command:
        assert await command.rest() == ""
        assert await command.exit_code() == 1
    (said,) = (each for each in command.errors.splitlines() if each.startswith("Error: "))
    assert line in said and "Traceback" not in command.errors


async def leader(etcd: Member) -> tuple[int, int]:
    """The number of leaders so far, and the schema that the last one says."""
    (found,) = (
        await etcd.ask(
            "kv/range", key=base64.b64encode(Place.parse(f"etcd://{etcd.address}/taskd/J").key("led")).decode()
        )
    )["kvs"]
    said: Mapping[str, int] = json.loads(base64.b64decode(found["value"]))
    return int(found["version"]), said["schema"]


async def started(daemon: Daemon) -> None:
    """Have an Agent start below a Mgr, so that the job has a state."""
    async with Node(NodeConfig.agent(server_rank=0, upstream=daemon.address)) as node:
        agent = Leaf(node)
        await agent.register(Incarnation="process 0")
        assert (await agent.command()).code == 210


@pytest.mark.parametrize("package", ["this one", "0.2.0"])
async def test_an_earlier_release_refuses_the_file_of_a_later_one(package: str, tmp_path: Path, request: Any) -> None:
    """A release later than this one, and this one after 0.2.0."""
    state, schema = tmp_path / "state", FIRST if package == "0.2.0" else SCHEMA
    if package == "0.2.0":
        earlier, later = request.getfixturevalue("first"), ROOT
    else:
        earlier, later = ROOT, request.getfixturevalue("later")
    async with mgr(state, tmp_path / "a", earlier) as daemon:
        await started(daemon)
        daemon.signal(signal.SIGTERM)
        assert await daemon.exit_code() == 0
    async with mgr(state, tmp_path / "b", later) as daemon:
        await daemon.said("manager_resumed")
        await started(daemon)
        daemon.signal(signal.SIGTERM)
        assert await daemon.exit_code() == 0
    await refuses(state, tmp_path / "c", earlier, refused(SCHEMA if later is ROOT else SCHEMA + 1, schema))
    async with mgr(state, tmp_path / "d", later) as daemon:
        await daemon.said("manager_resumed")


@pytest.mark.skipif(ETCD is None, reason=WHY_NOT)
async def test_a_standby_leaves_the_job_to_later_releases_once_one_of_them_has_led(later: Path, tmp_path: Path) -> None:
    async with etcd_server(tmp_path / "etcd") as etcd:
        state = f"etcd://{etcd.address}/taskd/J"
        async with mgr(state, tmp_path / "a") as old, mgr(state, tmp_path / "b") as standby:
            await started(old)
            async with mgr(state, tmp_path / "c", later) as new:
                await new.said("stands_by")
                assert await leader(etcd) == (1, SCHEMA), "a later release writes nothing before it leads"
                standby.signal(signal.SIGSTOP)
                old.signal(signal.SIGTERM)
                await new.said(LEADS)
                await new.said("manager_resumed")
                standby.signal(signal.SIGCONT)
                await standby.said(f"standby_cannot_lead .*{refused(SCHEMA + 1, SCHEMA)}")
                await refuses(state, tmp_path / "d", ROOT, refused(SCHEMA + 1, SCHEMA))
                await started(new)
                new.signal(signal.SIGKILL)
                await new.exit_code()
            async with mgr(state, tmp_path / "e", later) as new:
                await new.said("manager_resumed")
                assert await leader(etcd) == (3, SCHEMA + 1)
            assert "] leads " not in standby.errors and standby.errors.count("standby_cannot_lead") == 1
