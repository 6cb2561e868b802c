"""Completion in shells: the scripts, and the words for them as a shell asks for them."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator

import pytest
from click.testing import CliRunner

from taskd_net.cli.group import group
from tests.cli.processes import run
from tests.peers.mesh import Mesh, WatchedNode, free_address, soon


@pytest.fixture
async def mesh() -> AsyncIterator[Mesh]:
    """Nodes in this process."""
    async with Mesh() as mesh:
        yield mesh


@pytest.fixture
async def mgr(mesh: Mesh) -> WatchedNode:
    """A Mgr with two Workers."""
    mgr = await mesh.mgr()
    for rank in range(2):
        await mesh.worker(0, rank, mgr)
    return mgr


async def words(line: str, **env: str) -> list[str]:
    """The words for the last one of a line, as the script for bash asks for them."""
    typed = f"taskd-net {line}"
    asked = {"_TASKD_NET_COMPLETE": "bash_complete", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    code, output, errors = await run(env={**asked, **env})
    assert (code, errors) == (0, "")
    return [said.partition(",")[2] for said in output.splitlines()]


async def test_positions_of_the_mesh_are_completed(mgr: WatchedNode) -> None:
    at = f"--at {mgr.address}"
    assert await words(f"ping {at} ") == [
        "Mgr", "Worker/0/0", "Worker/0/1", "Proxy/All", "Agent/All", "Worker/All/All"
    ]  # fmt: skip
    assert await words(f"trace {at} worker/") == ["Worker/0/0", "Worker/0/1"]
    assert await words(f"send {at} Worker/A") == ["Worker/All/All"]
    assert await words("forget Worker/0/1", TASKD_NET_AT=str(mgr.address)) == ["Worker/0/1"]


async def test_without_an_answer_there_is_one_of_each_role() -> None:
    at = f"--at {await free_address()}"
    assert await words(f"trace {at} ") == ["Mgr", "Proxy/0", "Agent/0", "Worker/0/0"]
    assert await words("trace --at nonsense w") == ["Worker/0/0"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_asks_this_command(shell: str) -> None:
    done = CliRunner().invoke(group, ["completion", shell])
    assert done.exit_code == 0
    assert f"_TASKD_NET_COMPLETE={shell}_complete" in done.output
    assert CliRunner().invoke(group, ["completion", "csh"]).exit_code == 2


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
async def test_bash_takes_the_script() -> None:
    _, script, _ = await run("completion", "bash")
    bash = await asyncio.create_subprocess_exec(
        "bash", "-c", f"{script}\ncomplete -p taskd-net", stdout=asyncio.subprocess.PIPE
    )
    output, _ = await soon(bash.communicate(), 60)
    assert bash.returncode == 0 and b"-F _taskd_net_completion taskd-net" in output
