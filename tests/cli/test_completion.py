"""Completion in shells: the scripts, and the words for them as a shell asks for them."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from taskd_net.cli.group import group
from tests.cli.processes import run
from tests.cli.terminal import Terminal
from tests.peers.mesh import Mesh, WatchedNode
from tests.ports import free_address


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
    asked = {"_TASKD_NET_COMPLETE": "bash_complete", "COMP_WORDS": typed}
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
    at = f"--at {free_address()}"
    assert await words(f"trace {at} ") == ["Mgr", "Proxy/0", "Agent/0", "Worker/0/0"]
    assert await words("trace --at nonsense w") == ["Worker/0/0"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_asks_this_command(shell: str) -> None:
    done = CliRunner().invoke(group, ["completion", shell])
    assert done.exit_code == 0
    assert f"_TASKD_NET_COMPLETE={shell}_complete" in done.output
    assert CliRunner().invoke(group, ["completion", "csh"]).exit_code == 2


class Shell(Terminal):
    """An interactive shell, whose jobs the terminal controls."""

    program = ("setsid", "--ctty")


@dataclass(frozen=True, slots=True)
class Kind:
    """A shell: its command, the file that it reads at its start, and the lines there."""

    command: tuple[str, ...]
    file: str
    lines: str


SHELLS: Final = {
    "bash": Kind(("bash", "--noprofile", "-i"), ".bashrc", """PS1='ready> '; eval "$(taskd-net completion bash)" """),
    "zsh": Kind(
        ("zsh", "-i"),
        ".zshrc",
        "PS1='ready> '; autoload -Uz compinit; compinit -D -u; source <(taskd-net completion zsh)",
    ),
    "fish": Kind(
        ("fish", "-i"),
        ".config/fish/config.fish",
        "function fish_prompt; echo 'ready> '; end; taskd-net completion fish | source",
    ),
}
"""As the help of `taskd-net completion` says to install it."""


@pytest.mark.parametrize("shell", SHELLS)
async def test_keys_in_a_shell_complete_a_command_and_a_position(mesh: Mesh, tmp_path: Path, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    mgr = await mesh.mgr()
    await mesh.worker(0, 7, mgr)
    kind = SHELLS[shell]
    (tmp_path / kind.file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / kind.file).write_text(kind.lines + "\n")
    command = tmp_path / "bin" / "taskd-net"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m taskd_net.cli "$@"\n')
    command.chmod(0o755)
    home = {"HOME": str(tmp_path), "ZDOTDIR": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / ".config")}
    path = f"{command.parent}:{os.environ['PATH']}"
    async with Shell(*kind.command, width=120, height=30, PATH=path, **home) as terminal:
        await terminal.shows("ready> ")
        terminal.press("taskd-net trac\t")
        await terminal.shows("trace ")
        # Without the key, `w` is no position.
        terminal.press(f"--at {mgr.address} w\t")
        await terminal.shows("Worker/0/7")
        terminal.press("\r")
        await terminal.shows(r"Worker/0/7 .* ms")
