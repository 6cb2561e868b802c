"""Ends of processes in `taskd-net tree`, and `taskd-net forget`."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.processes import PATIENCE_S, Command, Daemon, run
from tests.peers.mesh import soon

pytestmark = [pytest.mark.oldest, pytest.mark.timeout(120)]


class Member(Command):
    """A Worker that stays."""

    program = ("-m", "tests.cli.member")


class Script(Command):
    """A training script."""

    program = ("-m", "tests.cli.script")


async def document(mgr: Daemon, *arguments: object) -> dict[str, Any]:
    """The document of `tree`."""
    return dict(json.loads((await run("tree", "--at", mgr.address, "--json", *arguments))[1]))


async def until(mgr: Daemon, states: dict[str, str]) -> dict[str, Any]:
    """Wait until nodes are in these states."""
    give_up_at = time.monotonic() + PATIENCE_S
    while True:
        mesh = await document(mgr)
        known = {node["position"]: node["state"] for node in mesh["nodes"]}
        if states.items() <= known.items():
            return mesh
        assert time.monotonic() < give_up_at, known


async def test_a_job_from_its_first_rank_to_its_last(tmp_path: Path) -> None:
    async with Daemon("mgr", "--expect", "1x3", logs=tmp_path / "mgr") as mgr:
        assert [entry["why"] for entry in (await document(mgr))["missing"]] == ["never_seen"] * 4
        async with Daemon("proxy", "--upstream", mgr.address, logs=tmp_path / "proxy") as proxy:
            scripts = [Script(proxy.address, 0, rank, way) for rank, way in enumerate(("end", "end", "raise"))]
            for script in scripts:
                async with script:
                    assert await script.line() == "joined"
                    await script.rest()
                    await script.exit_code()
            mesh = await until(mgr, {"Worker/0/0": "finished", "Worker/0/1": "finished", "Worker/0/2": "lost"})
            assert [(entry["position"], entry["why"]) for entry in mesh["missing"]] == [("Worker/0/2", "lost")]
            proxy.signal(signal.SIGTERM)
            assert await proxy.exit_code() == 0
        mesh = await until(mgr, {"Proxy/0": "stopped", "Worker/0/0": "finished", "Worker/0/1": "finished"})
        assert [entry["position"] for entry in mesh["missing"]] == ["Worker/0/2"]
        code, output, errors = await run("forget", "Worker/0/2", "--at", mgr.address)
        assert (code, output, errors) == (0, "Worker/0/2 is forgotten; it was lost\n", "")
        assert [(entry["position"], entry["why"]) for entry in (await document(mgr))["missing"]] == [
            ("Worker/0/2", "never_seen")
        ]
        code, output, _ = await run("tree", "--at", mgr.address, "--expect", "1x2")
        assert code == 0 and output.splitlines()[:2] == [
            "Mgr/0: 4 nodes, 1 joined, 2 finished, 1 stopped",
            "missing of 1x2: none",
        ]


async def test_a_tool_is_no_rank_of_the_job(tmp_path: Path) -> None:
    async with Daemon("mgr", "--expect", "2x0", logs=tmp_path / "mgr") as mgr:
        for command in (("listen", "--as", "Agent/1"), ("listen", "--as", "Worker/7/70")):
            async with Command(*command, "--upstream", mgr.address, stdin=b"") as tool:
                await tool.said(" ready, ")
                mesh = await document(mgr)
                assert [node["position"] for node in mesh["nodes"] if node["service"]] == [command[-1]]
                assert [entry["position"] for entry in mesh["missing"]] == ["Proxy/0", "Proxy/1"]
                tool.signal(signal.SIGTERM)
                await tool.rest()
        assert (await run("send", "Mgr", "x", "--upstream", mgr.address))[0] == 0
        assert [node["position"] for node in (await document(mgr))["nodes"]] == ["Mgr/0"]


async def test_what_is_not_forgotten_is_said_in_one_line(tmp_path: Path) -> None:
    async with Daemon("mgr", logs=tmp_path / "mgr") as mgr:
        async with Member(mgr.address, 0, 0) as worker:
            assert await worker.line() == "joined"
            code, output, errors = await run("forget", "Worker/0/0", "--at", mgr.address)
            assert (code, output, errors) == (1, "", "Error: Worker/0/0 is connected, and was not forgotten\n")
            code, output, _ = await run("forget", "Worker/0/0", "--at", mgr.address, "--json")
            assert (code, json.loads(output)["forgotten"]) == (1, False)
            worker.signal(signal.SIGKILL)
            await worker.rest()
        await until(mgr, {"Worker/0/0": "lost"})
        code, output, _ = await run("forget", "Worker/0/0", "--at", mgr.address, "--json")
        forgotten = {"position": "Worker/0/0", "forgotten": True, "state": "lost", "detail": ""}
        assert (code, json.loads(output)) == (0, forgotten)
        code, _, errors = await run("forget", "Worker/0/0", "--at", mgr.address)
        assert (code, errors) == (1, "Error: Worker/0/0 is not known at Mgr/0\n")


async def test_nobody_to_ask_and_no_single_node() -> None:
    code, output, errors = await run("forget", "Worker/0/0", "--at", "127.0.0.1:9")
    assert (code, output, errors.count("\n")) == (3, "", 1)
    assert errors.startswith("Error: nobody listens at 127.0.0.1:9; ")
    for wrong in ("Worker/All/0", "Boss/1", "Worker/0"):
        code, output, errors = await soon(run("forget", wrong), PATIENCE_S)
        assert (code, output) == (2, "") and "POSITION: " in errors, wrong
