"""The entry point: what it says when it is asked nothing, its version, or has not what it needs."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest
from click.testing import CliRunner

import taskd_net
from taskd_net import Node
from taskd_net.cli.commands import HOMES, SECTIONS
from taskd_net.cli.group import group
from tests.peers.mesh import Mesh, soon

WITHOUT = "import sys; sys.modules[{!r}] = None; from taskd_net.cli import main; main()"


@pytest.fixture
async def mgr() -> AsyncIterator[Node]:
    """A node to ask."""
    async with Mesh() as mesh:
        yield await mesh.mgr()


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=30, check=False)


@pytest.mark.parametrize("flag", ["-V", "--version"])
def test_version(flag: str) -> None:
    done = run("-m", "taskd_net.cli", flag)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"taskd-net {taskd_net.__version__}\n", "")


def test_help_lists_the_commands() -> None:
    done = CliRunner().invoke(group, ["--help"])
    assert done.exit_code == 0
    for command in ("mgr", "proxy", "send", "listen", "config", "demo", "bench"):
        assert f"\n  {command} " in done.output
    assert "\nLook:\n  tree " in done.output
    assert sorted(name for names in SECTIONS.values() for name in names) == sorted(HOMES), "each stands in one section"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_files_are_never_taken_for_a_socket(closed: str) -> None:
    text = f'exec "$0" -m taskd_net.cli send Mgr x --upstream 127.0.0.1:9 --timeout 0.2 {closed}'
    done = subprocess.run(["sh", "-c", text, sys.executable], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 3  # nobody to join there
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["tree", "--help"],
        ["config", "mgr"],
        ["config", "--json"],
        ["context", "list", "--json"],
        ["completion", "bash"],
        ["faults", "explain", "80C98009"],
        ["tree"],
        ["tree", "--json"],
        ["tree", "--watch"],
        ["top", "--json"],
        ["ping", "Mgr"],
        ["trace", "Mgr"],
        ["doctor", "proxy"],
        ["send", "Mgr", "x"],
    ],
)
async def test_a_command_whose_reader_has_gone_ends_by_sigpipe(arguments: list[str], mgr: Node) -> None:
    """As its neighbours do; an exit code of its own would be a verdict, such as that a rank is missing."""
    reading, writing = os.pipe()
    os.close(reading)
    env = {**os.environ, "TASKD_NET_AT": str(mgr.address), "TASKD_NET_UPSTREAM": str(mgr.address)}
    try:
        command = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "taskd_net.cli", *arguments, stdout=writing, stderr=asyncio.subprocess.PIPE, env=env
        )
    finally:
        os.close(writing)
    _, errors = await soon(command.communicate())
    assert command.returncode == -signal.SIGPIPE, errors
    assert b"Traceback" not in errors


@pytest.mark.parametrize("where", ["</dev/null", "</etc/hostname", "<&-"])
def test_a_manager_that_ends_with_its_input_needs_a_pipe(where: str) -> None:
    text = f'exec "$0" -m taskd_net.cli mgr --until-eof --listen 127.0.0.1:0 {where}'
    done = subprocess.run(["sh", "-c", text, sys.executable], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2
    assert done.stderr.endswith("--until-eof': the standard input is no pipe, so its end says nothing\n")


@pytest.mark.parametrize("arguments", [["--json"], []])
def test_bytes_that_are_no_text_are_quoted(arguments: list[str]) -> None:
    command = [sys.executable.encode(), b"-m", b"taskd_net.cli", b"config", b"health", b"--ca", b"a\xff"]
    env = {**os.environ, "PYTHONIOENCODING": "utf-8:strict"}
    done = subprocess.run(
        [*command, *map(str.encode, arguments)], capture_output=True, timeout=30, check=False, env=env
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"a\\udcff" in done.stdout


def test_wrong_use_of_a_command_is_one_line() -> None:
    done = CliRunner().invoke(group, ["bench", "--no-such-option"])
    assert done.exit_code == 2
    assert done.output.count("\n") == 1
    assert "--no-such-option" in done.output


@pytest.mark.parametrize("missing", ["click", "rich"])
def test_without_the_extra_one_line_says_how_to_install_it(missing: str) -> None:
    done = run("-c", WITHOUT.format(missing))
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert missing in done.stderr
    assert "pip install 'taskd-net[cli]'" in done.stderr


def test_another_missing_module_is_not_taken_for_the_extra() -> None:
    done = run("-c", WITHOUT.format("json"))
    assert done.returncode == 1
    assert "ModuleNotFoundError" in done.stderr
    assert "pip install" not in done.stderr
