"""The error of each command whose node cannot be reached: a cause in words of ours, and the next command."""

from __future__ import annotations

import re
import shlex
import socket
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from taskd_net.cli.authority import Authority
from tests.cli.processes import run
from tests.peers.certificates import Folder
from tests.peers.mesh import Mesh
from tests.ports import free_address

pytestmark = pytest.mark.timeout(180)

COMMANDS = [
    ("tree",),
    ("top", "--count", 1),
    ("job",),
    ("ping", "Mgr"),
    ("trace", "Mgr"),
    ("forget", "Worker/0/0"),
    ("health",),
    ("send", "Mgr", "x", "--timeout", 0.3),
    ("listen", "--as", "Worker/0/0", "--timeout", 0.3),
    ("faults", "list"),
    ("faults", "release", "h/d", "--timeout", 0.3),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
async def test_nobody_listens(command: tuple[object, ...]) -> None:
    address = free_address()
    code, output, errors = await run(*command, "--at", address)
    text = f"Error: nobody listens at {address}; the machine is there. Try: taskd-net doctor send --at {address}\n"
    # The node of `listen` logs its attempts, too.
    log, error = errors[: -len(text)], errors[-len(text) :]
    assert (code, output, error) == (3, "", text)
    assert not log or command[0] == "listen"
    assert not log or (f"nobody listens at {address}" in log and "ipv4:" not in log)


async def test_next_command_finds_the_same() -> None:
    address = free_address()
    _, _, errors = await run("tree", "--at", address, "--no-enable-tls", "--ca", "a file")
    command = errors.partition("Try: ")[2]
    assert shlex.split(command)[5:] == ["--ca", "a file", "--no-enable-tls"]
    code, output, _ = await run(*shlex.split(command)[1:])
    assert code == 1 and f"nobody listens at {address}" in output


async def test_host_without_an_address() -> None:
    code, _, errors = await run("tree", "--at", "nobody.invalid:1")
    assert code == 3
    assert re.fullmatch(
        r"Error: the host 'nobody\.invalid' cannot be resolved: [^.]+\. Try: taskd-net doctor .*\n", errors
    )


async def test_something_else_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        code, _, errors = await run("tree", "--at", address, "--timeout", 0.5)
    assert code == 3
    assert errors.startswith(f"Error: {address} takes connections") and errors.count("\n") == 1
    assert "UNAVAILABLE" not in errors and "ipv4:" not in errors


@pytest.fixture
async def mesh() -> AsyncIterator[Mesh]:
    """Nodes in this process."""
    async with Mesh() as mesh:
        yield mesh


@pytest.mark.parametrize(
    "command", [("tree",), ("send", "Mgr", "x", "--timeout", 2), ("health",)], ids=lambda it: it[0]
)
async def test_tls_on_one_side_and_of_another_ca(mesh: Mesh, tmp_path: Path, command: tuple[object, ...]) -> None:
    """The log of gRPC, which has lines about handshakes, is not to be seen."""
    folders = [Folder(tmp_path / name, Authority.new(name, timedelta(days=60))) for name in ("one", "other")]
    for folder in folders:
        folder.issue(days=(-0.5, 30.0))
    ours, theirs = folders
    mgr = await mesh.mgr(tls=theirs.tls())
    flags = ("--ca", ours.ca, "--client-key", ours.key, "--client-crt", ours.crt)
    for given, cause in (
        ((), f"{mgr.address} speaks TLS, and this node is configured for plain text"),
        (flags, f"the certificate that {mgr.address} shows is not accepted: "),
    ):
        code, output, errors = await run(*command, "--at", mgr.address, *given)
        assert (code, output, errors.count("\n")) == (3, "", 1), errors
        assert errors.startswith(f"Error: {cause}")
        assert errors.endswith(
            f"Try: {shlex.join(['taskd-net', 'doctor', 'send', '--at', str(mgr.address), *given])}\n"
        )
