"""The scripts of `examples/` as the processes of one small job."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.api.conftest import OWN_IP
from tests.cli.processes import ROOT, Command, run
from tests.ports import free_port

EXAMPLES = ROOT / "examples"

pytestmark = [pytest.mark.oldest, pytest.mark.timeout(180)]


class Example(Command):
    """One of the scripts, as a process in a folder of the test's."""

    program = ()

    def __init__(self, name: str, *arguments: object, cwd: Path, env: Mapping[str, str] | None = None) -> None:
        logs = {"TASKD_LOG_STDOUT": "False", "TASKD_LOG_PATH": str(cwd / "log")}
        super().__init__(EXAMPLES / name, *arguments, cwd=cwd, env={**logs, **(env or {})})

    async def says(self, *starts: str) -> None:
        """Read its output until each of these beginnings has come."""
        left = list(starts)
        while left:
            line = await self.line()
            assert line, (left, self.errors)
            left = [start for start in left if not line.startswith(start)]

    async def ended_by(self, number: signal.Signals) -> None:
        """End it in an orderly way."""
        self.signal(number)
        await self.rest()
        assert await self.exit_code() == 0, self.errors


async def test_job_of_the_examples(tmp_path: Path) -> None:
    port = free_port()
    upstream = f"127.0.0.1:{port}"
    ranks = [{"TASKD_NET_UPSTREAM": upstream, "LOCAL_WORLD_SIZE": "4", "RANK": str(rank)} for rank in range(3)]
    async with (
        Example("manager.py", cwd=tmp_path, env={"POD_IP": OWN_IP}) as manager,
        Example("proxy.py", "--manager", OWN_IP, "--listen-port", port, cwd=tmp_path) as proxy,
        Example("train.py", "--steps", 100_000, cwd=tmp_path, env=ranks[0]) as first,
        Example("train.py", "--steps", 100_000, cwd=tmp_path, env=ranks[1]) as second,
        Example("service.py", "--upstream", upstream, cwd=tmp_path) as service,
    ):
        await proxy.says(f"listening on port {port}")
        await service.says("Agent/1000 has joined")
        # In any order. A STEP proves a joined Worker, so the broadcast reaches both.
        await manager.says(*(f"Worker/0/{rank} {kind}" for rank in (0, 1) for kind in ("REGISTER", "STEP step ")))

        code, output, _ = await run("send", "Agent/1000", "checkpoint", "--upstream", upstream)
        assert (code, output) == (0, "0 OK from Agent/1000\n")
        assert (await service.line()).endswith(" asked for a checkpoint: every Worker has been told")
        for worker in (first, second):
            assert await worker.line() == "checkpoint, asked for by Agent/1000"
        told = "Agent/1000 CHECKPOINT every Worker has been told"
        await manager.says(told, "Worker/0/0 SAVED step ", "Worker/0/1 SAVED step ")

        async with Example("train.py", "--steps", 40, cwd=tmp_path, env=ranks[2]) as short:
            assert (await short.rest(), await short.exit_code(), short.errors) == ("", 0, "")
        await manager.says("Worker/0/2 DONE weight 2.956")

        await service.ended_by(signal.SIGTERM)
        await proxy.ended_by(signal.SIGINT)
        await manager.ended_by(signal.SIGINT)


async def test_without_a_mesh_each_says_what_to_start(tmp_path: Path) -> None:
    nowhere = f"127.0.0.1:{free_port()}"
    worker = {"TASKD_NET_UPSTREAM": nowhere, "LOCAL_WORLD_SIZE": "1", "RANK": "0"}
    async with (
        Example("manager.py", cwd=tmp_path, env={"POD_IP": OWN_IP}) as manager,
        Example("proxy.py", "--manager", OWN_IP, "--listen-port", free_port(), cwd=tmp_path) as proxy,
        Example("train.py", "--steps", 1, cwd=tmp_path, env=worker) as training,
        Example("service.py", "--upstream", nowhere, cwd=tmp_path) as service,
    ):
        assert "`taskd-net proxy`" in await manager.line()
        assert f"`taskd-net mgr` starts its Manager at {OWN_IP}" in await proxy.line()
        assert "start `taskd-net mgr` and `taskd-net proxy`" in await training.line()
        assert f"nobody listens at {nowhere}; start `taskd-net mgr`" in await service.line()
        assert (await training.rest(), await training.exit_code()) == ("", 0)
        await proxy.ended_by(signal.SIGTERM)
        await manager.ended_by(signal.SIGTERM)


def test_every_example_is_run_here_and_fits_on_a_page() -> None:
    """The first example that a user copies."""
    text = Path(__file__).read_text()
    scripts = sorted(EXAMPLES.glob("*.py"))
    assert len(scripts) >= 4
    for script in scripts:
        assert f'"{script.name}"' in text, script
        assert len(script.read_text().splitlines()) <= 60, script
