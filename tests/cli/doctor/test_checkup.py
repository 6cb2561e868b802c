"""`taskd-net doctor` as a process: what it finds, what it advises, and that a tree does not notice it."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc.aio
import pytest

from taskd_net.cli.authority import Authority
from taskd_net.observe.records import OwnFigures
from taskd_net.observe.service import NodeService
from taskd_net.version import __version__
from tests.cli.processes import run
from tests.peers import mesh_state
from tests.peers.certificates import Folder
from tests.peers.mesh import Mesh, WatchedNode
from tests.peers.original.cluster import Originals
from tests.peers.parent import RawParent
from tests.ports import free_address

pytestmark = [pytest.mark.oldest, pytest.mark.timeout(180)]


@pytest.fixture
async def mesh() -> AsyncIterator[Mesh]:
    """Nodes in this process."""
    async with Mesh() as mesh:
        yield mesh


@pytest.fixture
async def mgr(mesh: Mesh) -> WatchedNode:
    """The root."""
    return await mesh.mgr()


async def examined(*arguments: object, wrong: int = 0, warnings: int = 0) -> dict[str, dict[str, str]]:
    """The findings of `doctor`, by check; the number of faults is as expected."""
    code, output, errors = await run("doctor", *arguments, "--json")
    # gRPC's own code in C writes a line about each handshake that fails, past every logger.
    assert [line for line in errors.splitlines() if "ssl_transport_security" not in line] == []
    report: dict[str, Any] = json.loads(output)
    assert (code, report["wrong"], report["warnings"]) == (min(wrong, 1), wrong, warnings), report
    assert all(bool(check["advice"]) == (check["state"] in ("wrong", "warning")) for check in report["checks"]), report
    return {check["check"]: check for check in report["checks"]}


async def proxy(upstream: str, *arguments: object, wrong: int = 0, warnings: int = 0) -> dict[str, dict[str, str]]:
    """The findings for a Proxy that can listen."""
    found = await examined(
        "proxy", "--listen", "127.0.0.1:0", "--upstream", upstream, *arguments, wrong=wrong, warnings=warnings
    )
    assert found["port"]["state"] == "ok"
    return found


async def test_nothing_is_wrong(mesh: Mesh, mgr: WatchedNode) -> None:
    worker = await mesh.worker(3, 24, mgr)
    joins = mesh.count("child_joined")
    found = await proxy(mgr.address or "", "--server-rank", 3)
    assert found.pop("tls")["state"] == "skipped"
    assert {name: check["state"] for name, check in found.items()} == dict.fromkeys(found, "ok")
    assert found["upstream"]["text"] == f"Mgr/0 at {mgr.address} answers"
    assert found["version"]["text"] == f"both are taskd_net {__version__}"
    assert "clock" in found
    # A tree of nodes that work is examined beside them: nobody has lost a place, nobody has come.
    assert (await examined("listen", "--as", "Worker/3/24", "--upstream", mgr.address))["upstream"]["state"] == "ok"
    assert mesh.count("child_joined") == joins
    assert mesh.count("child_lost") == mesh.count("stream_refused") == 0
    assert set(mgr.routes()) == {worker.position}
    assert (await mgr.send("x", to=worker.position)).ok


async def test_one_of_several_upstreams_is_enough(mgr: WatchedNode) -> None:
    # Bound, so that they are two ports and stay free, and not listened on.
    with socket.socket() as first, socket.socket() as second:
        for each in (first, second):
            each.bind(("127.0.0.1", 0))
        await _some_upstreams(mgr, *(f"127.0.0.1:{each.getsockname()[1]}" for each in (first, second)))


async def _some_upstreams(mgr: WatchedNode, nobody: str, other: str) -> None:
    code, output, _ = await run(
        "doctor", "proxy", "--listen", "127.0.0.1:0", "--upstream", f"{nobody},{mgr.address}", "--json"
    )
    found = {check["text"]: check["state"] for check in json.loads(output)["checks"] if check["check"] == "upstream"}
    assert code == 0
    assert sorted(found.values()) == ["ok", "warning"]
    assert found[f"Mgr/0 at {mgr.address} answers"] == "ok"
    code, output, _ = await run(
        "doctor", "proxy", "--listen", "127.0.0.1:0", "--upstream", f"{nobody},{other}", "--json"
    )
    assert (code, json.loads(output)["wrong"]) == (1, 2)


async def test_link_of_a_node_that_runs(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    mesh.let(figures=0.05)
    direct = await mesh.mgr(direct_listen="127.0.0.1:0", links="direct")
    other = await mesh.proxy(3, direct, links="direct", direct_listen="off")
    await mesh.worker(3, 24, other, links="direct")
    await mesh_state.until(direct, lambda now: now.get("Worker/3/24", {}).get("link_reason"))
    found = await proxy(direct.address or "", "--server-rank", 3)
    assert (found["link"]["state"], found["link"]["text"]) == ("ok", "Proxy/3 runs; its link is direct")
    found = await examined("listen", "--as", "Worker/3/24", "--upstream", other.address)
    assert found["link"]["text"] == "Worker/3/24 runs; its link is batched: the parent offers no direct link"
    # A child that is not its own tells of a firewall; then it is silent.
    (link,) = other.driver.router.children.by_id.values()
    own = OwnFigures(link_reason="port 127.0.0.1:9 does not answer, tried again every minute")
    other.driver.view._own["Worker/3/24"] = own
    monkeypatch.setattr(other.driver.view, "told", lambda *_: None)
    found = await examined("listen", "--as", "Worker/3/24", "--upstream", other.address, warnings=1)
    assert found["link"]["advice"].startswith("Open that port in the firewall")
    other.driver.perform(other.driver.router.signs_of_life(other.driver.now(), link.id, link.session, seen=False))
    found = await examined("listen", "--as", "Worker/3/24", "--upstream", other.address, warnings=1)
    assert found["link"]["text"].endswith("it is not answering")


async def test_port_of_direct_links(mgr: WatchedNode) -> None:
    address = free_address()
    found = await examined("mgr", "--listen", "0.0.0.0:0", "--direct-listen", address)
    assert found["direct-port"]["text"] == f"{address} is free for direct links"
    assert "direct-port" not in await examined("mgr", "--listen", "0.0.0.0:0", "--direct-listen", "127.0.0.1:0")
    taken = await examined("mgr", "--listen", "0.0.0.0:0", "--direct-listen", mgr.address, warnings=1)
    assert "cannot be listened on: Address already in use" in taken["direct-port"]["text"]


async def test_report_for_people(mgr: WatchedNode) -> None:
    address = free_address()
    code, output, errors = await run("doctor", "proxy", "--listen", "127.0.0.1:0", "--upstream", address)
    assert (code, errors) == (1, "")
    assert output.splitlines() == [
        "ok       settings  every value of proxy can be used",
        "skipped  tls       this node is configured for plain text",
        "ok       port      127.0.0.1 can be listened on, at any free port",
        f"wrong    upstream  nobody listens at {address}; the machine is there",
        "                   Start the parent, or correct the address: its first line says where it listens.",
        "1 wrong, 0 to look at",
    ]
    code, output, _ = await run("doctor", "proxy", "--listen", "127.0.0.1:0", "--upstream", mgr.address)
    assert (code, output.splitlines()[-1]) == (0, "nothing wrong was found")


async def test_port_that_is_in_use(mesh: Mesh, mgr: WatchedNode) -> None:
    own = await examined("mgr", "--listen", mgr.address)
    assert own["port"]["text"].startswith(f"{mgr.address} is in use by Mgr/0 itself, which runs")
    found = await examined("proxy", "--listen", mgr.address, "--upstream", mgr.address, wrong=1)
    assert found["port"]["text"] == f"{mgr.address} is in use by Mgr/0, another node of the mesh"
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        found = await examined("mgr", "--listen", f"127.0.0.1:{port}", wrong=1)
        assert "is in use by a process that does not answer as a node does" in found["port"]["text"]
        assert f"sport = :{port}" in found["port"]["advice"]


async def test_address_that_cannot_be_listened_on(mgr: WatchedNode) -> None:
    found = await examined("mgr", "--listen", "192.0.2.1:9601", wrong=1)
    assert found["address"]["text"] == "192.0.2.1 is not an address of this machine"
    found = await examined("mgr", "--listen", "nobody.invalid:9601", wrong=1)
    assert found["name"]["text"].startswith("the host of listen, 'nobody.invalid', cannot be resolved: ")
    found = await examined("mgr", "--listen", "127.0.0.1:0", warnings=1)
    assert "only nodes on this machine can connect" in found["address"]["text"]
    assert "address" not in await examined("mgr", "--listen", "0.0.0.0:0")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--upstream", "9601"), "upstream is '9601'; expected host:port"),
        (("--listen", "::1:9602"), "listen is '::1:9602': an IPv6 address goes in brackets"),
        (("--grace", "0"), "grace is 0.0; expected a number of seconds above 0 (from --grace)"),
    ],
)
async def test_setting_that_is_wrong(arguments: tuple[str, ...], text: str) -> None:
    found = await examined("proxy", *arguments, wrong=1)
    assert text in found["settings"]["text"]
    assert found["settings"]["advice"] == "`taskd-net config proxy` shows where each value comes from."


async def test_upstream_that_cannot_be_reached() -> None:
    found = await proxy("nobody.invalid:9601", wrong=1)
    assert found["name"]["text"].startswith("the host 'nobody.invalid' cannot be resolved: ")
    assert (await proxy("[fe80::1%lo]:9601", wrong=1))["upstream"]["state"] == "wrong"


async def test_upstream_that_is_something_else() -> None:
    # Takes connections into its queue, and never looks at them: as a stopped process does.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        found = await proxy(f"127.0.0.1:{silent.getsockname()[1]}", wrong=1)
        assert "takes connections and says nothing" in found["upstream"]["text"]

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as web:
        found = await proxy(f"127.0.0.1:{web.sockets[0].getsockname()[1]}", wrong=1)
        assert "takes connections, but is no gRPC server" in found["upstream"]["text"]
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        found = await proxy(f"127.0.0.1:{port}", wrong=1)
    finally:
        await server.stop(None)
    assert "is a gRPC server, but not one of a mesh" in found["upstream"]["text"]


async def test_upstream_whose_loop_hangs(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    """gRPC's own threads still greet whoever connects: it is no other kind of server for that."""
    monkeypatch.setattr(NodeService, "_about", hang)
    mgr = await mesh.mgr()
    found = await proxy(mgr.address or "", wrong=1)
    assert "takes connections and says nothing" in found["upstream"]["text"]
    own = await examined("mgr", "--listen", mgr.address, wrong=1)
    assert "is in use by a process that does not answer as a node does" in own["port"]["text"]


async def hang(*_: object) -> bytes:
    """Never answer."""
    await asyncio.get_running_loop().create_future()
    return b""


async def test_upstream_that_is_this_node(mesh: Mesh, mgr: WatchedNode) -> None:
    one = await mesh.proxy(1, mgr)
    found = await proxy(one.address or "", "--server-rank", 1, wrong=1)
    assert "has the position of this node" in found["upstream"]["text"]
    found = await proxy(one.address or "", "--server-rank", 2)
    assert found["upstream"]["text"] == f"Proxy/1 at {one.address} answers, joined to Mgr/0"


async def test_upstream_that_has_none_itself(mesh: Mesh) -> None:
    lonely = await mesh.proxy(1, free_address(), join=False)
    found = await examined("listen", "--as", "Worker/1/1", "--upstream", lonely.address, warnings=1)
    assert "has no upstream itself at present" in found["upstream"]["text"]
    assert found["upstream"]["advice"] == "Run `taskd-net doctor proxy` on the machine of Proxy/1."


async def test_upstream_of_others(mesh: Mesh) -> None:
    async with RawParent() as contract, Originals() as theirs:
        original = await theirs.start("Mgr/0")
        for address in (contract.address, original.address):
            found = await proxy(address)
            assert "knows the four calls; it is not a node of taskd_net" in found["upstream"]["text"]
            assert found["version"]["state"] == found["clock"]["state"] == "skipped"
        assert contract.requests["Register"].empty()


async def test_clock_that_is_off(mgr: WatchedNode, monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = SimpleNamespace(time_ns=lambda: time.time_ns() + 3_600_000_000_000)
    monkeypatch.setattr("taskd_net.observe.service.time", ahead)
    found = await proxy(mgr.address or "", wrong=1)
    said = re.fullmatch(
        r"this machine's clock is ([\d.]+) s behind the upstream's, to within ([\d.]+) s.*",
        found["clock"]["text"],
        re.DOTALL,
    )
    assert said is not None, found["clock"]["text"]
    assert abs(float(said[1]) - 3600.0) <= float(said[2]) + 0.001


async def test_other_version(mgr: WatchedNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taskd_net.observe.service.__version__", "9.9.9")
    found = await proxy(mgr.address or "", warnings=1)
    assert found["version"]["text"] == f"Mgr/0 is taskd_net 9.9.9, this is {__version__}"


@pytest.fixture
def files(tmp_path: Path) -> Folder:
    """The files of all nodes of a test, valid for a month."""
    folder = Folder(tmp_path / "certs", Authority.new("a test's CA", timedelta(days=60)))
    folder.issue(days=(-0.5, 30.0))
    return folder


def flags(files: Folder) -> tuple[str, ...]:
    """TLS towards the parent."""
    return "--ca", files.ca, "--client-key", files.key, "--client-crt", files.crt


async def test_tls_that_is_right(mesh: Mesh, files: Folder) -> None:
    mgr = await mesh.mgr(tls=files.tls())
    found = await proxy(mgr.address or "", *flags(files))
    assert {check["state"] for check in found.values()} == {"ok"}
    assert "belongs to its key, and ca has signed it" in found["tls"]["text"]
    assert found["upstream"]["text"] == f"Mgr/0 at {mgr.address} answers"
    # The process at a used port cannot be asked: it is probably this node.
    own = await examined(
        "mgr",
        "--listen",
        mgr.address,
        "--ca",
        files.ca,
        "--server-key",
        files.key,
        "--server-crt",
        files.crt,
        warnings=1,
    )
    assert "as TLS is spoken here" in own["port"]["text"]


@pytest.mark.parametrize(
    ("days", "wrong", "warnings", "text"),
    [
        ((-2.0, -1.0), 1, 0, "which has expired"),
        ((1.0, 2.0), 1, 0, "is not valid before"),
        ((-1.0, 3.0), 0, 1, "valid until"),
    ],
)
async def test_tls_out_of_its_time(
    mgr: WatchedNode, files: Folder, days: tuple[float, float], wrong: int, warnings: int, text: str
) -> None:
    files.issue(days=days)
    arguments = ("--ca", files.ca, "--server-key", files.key, "--server-crt", files.crt)
    found = await proxy(mgr.address or "", *arguments, wrong=wrong, warnings=warnings)
    assert text in found["tls"]["text"]
    assert files.crt in found["tls"]["text"] or not wrong
    # Towards the parent it is plain text, which files for children do not touch.
    assert found["upstream"]["state"] == "ok"


async def test_tls_on_one_side_alone(mesh: Mesh, mgr: WatchedNode, files: Folder) -> None:
    secured = await mesh.proxy(7, mgr, tls=files.listening())
    found = await proxy(secured.address or "", wrong=1)
    assert found["upstream"]["text"] == f"{secured.address} speaks TLS, and this node is configured for plain text"
    assert found["tls"]["state"] == "skipped"
    found = await proxy(mgr.address or "", *flags(files), wrong=1)
    assert "it speaks plain text, or something else" in found["upstream"]["text"]


async def test_tls_that_the_two_do_not_agree_on(mesh: Mesh, files: Folder, tmp_path: Path) -> None:
    mgr = await mesh.mgr(tls=files.tls())
    code, output, _ = await run(
        "doctor", "proxy", "--listen", "127.0.0.1:0", "--upstream", mgr.address, *flags(files), "--server-name", "x"
    )
    assert code == 1
    assert f"the certificate that {mgr.address} shows is not accepted: " in output
    other = Folder(tmp_path / "other", Authority.new("another CA", timedelta(days=60)))
    other.issue(days=(-0.5, 30.0))
    code, output, _ = await run("doctor", "proxy", "--listen", "127.0.0.1:0", "--upstream", mgr.address, *flags(other))
    assert code == 1
    assert f"the certificate that {mgr.address} shows is not accepted: " in output
    other.trust(files.authority, other.authority)
    code, output, _ = await run("doctor", "proxy", "--listen", "127.0.0.1:0", "--upstream", mgr.address, *flags(other))
    assert code == 1
    assert f"{mgr.address} does not accept this node: its certificate, client_crt, is not of the CA" in output
    other.path.joinpath("node.crt").unlink()
    found = await proxy(mgr.address or "", *flags(other), wrong=1)
    assert "cannot be read" in found["tls"]["text"]
    assert found["upstream"]["state"] == "skipped"


async def test_ping_and_trace_speak_tls(mesh: Mesh, files: Folder) -> None:
    mgr = await mesh.mgr(tls=files.tls())
    worker = await mesh.worker(0, 0, mgr, tls=files.tls())
    for command in (("ping", "Worker/0/0", "--count", 1), ("trace", "Worker/0/0")):
        assert (await run(*command, "--at", mgr.address, *flags(files)))[0] == 0
        assert (await run(*command, "--at", mgr.address))[0] == 3
        code, _, errors = await run(*command, "--at", mgr.address, "--ca", files.ca)
        assert (code, errors.count("\n")) == (2, 1)
        assert "client_key is missing" in errors
    assert worker.waiting() == 0
